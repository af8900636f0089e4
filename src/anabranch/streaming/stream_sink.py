"""A table as the sink of a streaming query: each batch is one commit, and is written once.

Spark may run a batch again, after a crash between our commit and its own note of it. So a commit carries the
query's id and the batch's number, and a batch whose number is in the table is left out. See "Transaction Identifiers"
of PROTOCOL.md.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NullType, StructType

from anabranch.commands.definition.create_table import CreationMode, create_table
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.read.read_table import table_to_write
from anabranch.commands.table_access import TableRef, table_at, table_to_create
from anabranch.commands.write.write_options import WriteOptions
from anabranch.commands.write.write_rows import register_if_changed, write_frame
from anabranch.errors.base import DeltaError
from anabranch.errors.schema import VoidWriteError
from anabranch.schema.merging import visible_schema
from anabranch.schema.paths import as_nullable, contains_type, quoted
from anabranch.schema.write_rules import WriteApi
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import identity
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier
from anabranch.streaming.stream_options import StreamOptions

_QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""Of the thread that runs a query's batches."""
_METADATA_FILE = "metadata"
"""Of a checkpoint; says the query's id, which stays the same from run to run."""


class StreamSink:
    """What `foreachBatch` is given. On Spark Connect it runs on the server, in a Python process of Spark's."""

    def __init__(self, *, path: str, entry: CatalogEntry | None, options: WriteOptions, checkpoint: str) -> None:
        self.failure: DeltaError | None = None
        """What made the query fail, where it was an error of ours and came to pass in this process."""
        self._path = path
        self._entry = entry
        self._options = options
        self._checkpoint = checkpoint
        self._session: DeltaSession | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self._write(batch, batch_id)
        except DeltaError as failure:
            self.failure = failure
            raise

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        session = self._session_of(batch)
        handle = dataclasses.replace(table_at(session, self._path, self._options.file_system), entry=self._entry)
        write_batch(handle, batch, self._options, query_id=self._query_id(session), number=batch_id)

    def _session_of(self, batch: DataFrame) -> DeltaSession:
        """Batches run in a session of their query's own, which goes with it."""
        spark = batch.sparkSession
        if self._session is None or identity(self._session.spark) != identity(spark):
            self._session = DeltaSession(spark)
        return self._session

    def _query_id(self, session: DeltaSession) -> str:
        if not session.is_connect:
            return query_id_of_thread(session)
        found = session.spark.read.text(f"{self._checkpoint.rstrip('/')}/{_METADATA_FILE}").collect()
        return str(json.loads("".join(row[0] for row in found))["id"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "failure": None, "_session": None}


def write_batch(handle: TableRef, batch: DataFrame, options: WriteOptions, *, query_id: str, number: int) -> None:
    """Commit the rows of a batch, unless that batch of the query has landed before."""
    if handle.entry is not None:
        # A table that was dropped is not made again behind its name's back.
        handle.latest()
    told = dataclasses.replace(options, application=(query_id, number))
    register_if_changed(handle, write_frame(handle, batch, told, WriteApi.STREAM))


def query_id_of_thread(session: DeltaSession) -> str:
    """The id of the query whose batch this thread of the JVM runs."""
    return str(session.spark.sparkContext.getLocalProperty(_QUERY_ID_PROPERTY))


def sink_at(session: DeltaSession, stream: DataFrame, path: str, options: StreamOptions) -> StreamSink:
    """A sink for the table in the folder `path`, which the first batch creates if need be."""
    handle = table_to_write(session, path, options.write.file_system)
    check_batch(stream.schema, table=handle.label)
    return _sink(handle, stream, options)


def sink_named(session: DeltaSession, stream: DataFrame, name: str, options: StreamOptions) -> StreamSink:
    """A sink for the table of that name, which is created now where there is none."""
    identifier = parse_identifier(name)
    if isinstance(identifier, PathIdentifier):
        return sink_at(session, stream, identifier.path, options)
    handle = table_to_create(session, identifier, location=options.write.path)
    assert handle.entry is not None
    check_batch(stream.schema, table=handle.label)
    if session.catalog.find(handle.entry.full_name) is None:
        definition = TableDefinition(
            schema=as_nullable(visible_schema(stream.schema)),
            partition_columns=options.write.partition_by,
            clustering_columns=options.write.cluster_by,
            properties=options.write.table_properties,
        )
        create_table(handle, definition, CreationMode.CREATE_IF_NOT_EXISTS)
    return _sink(handle, stream, options)


def _sink(handle: TableRef, stream: DataFrame, options: StreamOptions) -> StreamSink:
    # Batches come without the plan of the query, so that each is taken to depend on the table as it is then.
    reads_target = bool(handle.session.engine.versions_read(stream, handle.path))
    return StreamSink(
        path=handle.path,
        entry=handle.entry,
        options=dataclasses.replace(options.write, reads_target=reads_target),
        checkpoint=options.checkpoint,
    )


def check_batch(schema: StructType, *, table: str) -> None:
    """Raises `VoidWriteError` where a column has no type yet."""
    for field in schema.fields:
        if contains_type(field.dataType, NullType):
            raise VoidWriteError(table=table, column=quoted([field.name]), reason="has void in the rows of a stream")


# A streaming query that tells why its sink failed.


class SinkQuery(StreamingQuery):
    """Spark's handle of a query into a table. Its exceptions have the sink's error as their cause.

    Spark knows of that error only as text, so that `StreamingQueryException` is all that PySpark itself raises.
    """

    def __init__(self, query: StreamingQuery, sink: StreamSink) -> None:
        super().__init__(query._jsq)
        self._sink = sink

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as failure:
            self._explain(failure)
            raise

    def processAllAvailable(self) -> None:  # noqa: N802
        try:
            super().processAllAvailable()
        except StreamingQueryException as failure:
            self._explain(failure)
            raise

    def exception(self) -> StreamingQueryException | None:
        found = super().exception()
        if found is not None:
            self._explain(found)
        return found

    def _explain(self, failure: StreamingQueryException) -> None:
        failure.__cause__ = self._sink.failure
