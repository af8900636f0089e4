"""`df.writeStream` into Delta tables.

PySpark's streaming writer takes no format of ours. So a stream into a table becomes one with `foreachBatch`, whose
function writes each batch; see `anabranch.streaming.stream_sink`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.table_access import TableRef, is_delta_name, table_identified
from anabranch.connect.builder_state import columns_of, means_delta, noted, session_of
from anabranch.connect.python_source.registration import register
from anabranch.connect.python_source.stream_request import LABEL, OUT_OF_RANGE, STARTING_MS
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.portable.file_table import bare, column, table_column
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, TableIdentifier, parse_identifier
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.source_table import OUT_OF_RANGE_SETTING, columns_to_read, streamed_table
from anabranch.streaming.stream_options import StreamOptions
from anabranch.streaming.stream_sink import SinkQuery, StreamSink, sink_at, sink_named


def start(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: Any = None,
    outputMode: Any = None,
    partitionBy: Any = None,
    queryName: Any = None,
    **options: Any,
) -> Any:
    """`writeStream.start`."""
    if not means_delta(self, format):
        return original(self, path, format, outputMode, partitionBy, queryName, **options)
    stream = _told(self, outputMode, partitionBy, queryName, options)
    target = path if path is not None else stream.write.path
    if not isinstance(target, str):
        problem = "start needs the path of the table; toTable takes its name"
        raise InvalidOptionError(option="path", value=str(target), problem=problem)
    frame = _frame(self)
    return _run(self, sink_at(DeltaSession.of(session_of(self)), frame, target, stream), stream)


def to_table(
    original: Callable[..., Any],
    self: Any,
    tableName: str,
    format: Any = None,
    outputMode: Any = None,
    partitionBy: Any = None,
    queryName: Any = None,
    **options: Any,
) -> Any:
    """`writeStream.toTable`."""
    session = DeltaSession.of(session_of(self))
    unnamed = format is None and noted(self).format is None
    if not (means_delta(self, format) or (unnamed and is_delta_name(session, tableName))):
        return original(self, tableName, format, outputMode, partitionBy, queryName, **options)
    stream = _told(self, outputMode, partitionBy, queryName, options)
    return _run(self, sink_named(session, _frame(self), tableName, stream), stream)


def _told(
    writer: Any, output_mode: str | None, partition_by: Any, query_name: str | None, options: dict[str, Any]
) -> StreamOptions:
    """What the writer was told before and is told now; what is told now goes first."""
    writer.options(**options)
    told = noted(writer)
    return StreamOptions.parse(
        told.options,
        output_mode=output_mode or told.output_mode,
        partition_by=told.partition_by if partition_by is None else columns_of((partition_by,)),
        cluster_by=told.cluster_by,
        query_name=query_name or told.query_name,
        trigger=told.trigger,
        settings=DeltaSession.of(session_of(writer)),
    )


def _run(writer: Any, sink: StreamSink, stream: StreamOptions) -> Any:
    """Start the query. Its writer is a new one: Spark lets `foreachBatch` have neither format nor partitioning."""
    fresh = _fresh(writer).foreachBatch(sink)
    fresh.options(**{**noted(writer).options, "checkpointLocation": stream.checkpoint}).outputMode(stream.output_mode)
    if stream.query_name is not None:
        fresh.queryName(stream.query_name)
    if stream.trigger:
        fresh.trigger(**stream.trigger)
    query = fresh.start()
    return SinkQuery(query, sink) if isinstance(writer, DataStreamWriter) else query


def _frame(writer: Any) -> DataFrame:
    if isinstance(writer, DataStreamWriter):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame  # noqa: PLC0415

    return ConnectFrame(writer._write_stream._child, writer._session)


def _fresh(writer: Any) -> Any:
    if isinstance(writer, DataStreamWriter):
        return DataStreamWriter(writer._df)
    return type(writer)(writer._write_stream._child, writer._session)


# `spark.readStream` on Delta tables: a stream of our data source, whose Python processes plan and read it.


_FORMAT = "anabranch_stream"
"""Where other sessions of the application have our classes, Spark knows `delta` as one of these."""


def load_stream(
    original: Callable[..., Any], self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
) -> Any:
    """`readStream.load`."""
    if not means_delta(self, format):
        return original(self, path, format, schema, **options)
    self.options(**options)
    told = noted(self)
    if path is not None and not isinstance(path, str):
        raise InvalidOptionError(option="path", value=str(path), problem="a stream reads the table in one path")
    given = told.options if path is None else {**_without_path(told.options), "path": path}
    declared = schema or told.schema
    if isinstance(declared, str):
        parsed = StructType.fromDDL(declared)
        assert isinstance(parsed, StructType)
        declared = parsed
    session = DeltaSession.of(session_of(self))
    handle, parsed_options = streamed_table(session, given)
    return _stream_frame(handle, parsed_options, given, declared=declared)


def stream_of_table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    """`readStream.table` of a Delta table."""
    session = DeltaSession.of(session_of(self))
    if not is_delta_name(session, tableName):
        return original(self, tableName)
    return stream_identified(session, parse_identifier(tableName), noted(self).options)


def stream_identified(session: DeltaSession, identifier: TableIdentifier, given: Mapping[str, str]) -> DataFrame:
    """The table of a name, as a stream. Raises `InvalidOptionError`, `NotADeltaTableError`."""
    if isinstance(identifier, PathIdentifier):
        handle, options = streamed_table(session, {**_without_path(given), "path": identifier.path})
    else:
        handle, options = table_identified(session, identifier), SourceOptions.parse(given)
    return _stream_frame(handle, options, given, declared=None)


def _stream_frame(
    handle: TableRef, options: SourceOptions, given: Mapping[str, str], *, declared: StructType | None
) -> DataFrame:
    session = handle.session
    if options.schema_location is not None:
        operation = f"schemaTrackingLocation of a stream from {handle.label}, by PySpark's public API,"
        instead = "Use a classic session, or begin with a new checkpoint where columns were renamed or dropped."
        raise UnsupportedOperationError(operation=operation, instead=instead)
    columns = columns_to_read(handle, handle.latest(), options, declared=declared)
    # What the source knows of the session, it knows from when it was registered.
    register(session.spark, name=_FORMAT)
    told = {**_without_path(given), "path": handle.path, LABEL: handle.label}
    if options.starting_timestamp is not None:
        told[STARTING_MS] = str(to_milliseconds(session, options.starting_timestamp, option="startingTimestamp"))
    if session.flag(OUT_OF_RANGE_SETTING, default=False):
        told[OUT_OF_RANGE] = "true"
    reader: Any = session.spark.readStream.format(_FORMAT).schema(bare(columns)).options(**told)
    frame: DataFrame = reader.load()
    return frame.select(*(table_column(field, column(field.name), None) for field in columns.fields))


def _without_path(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key.lower() != "path"}
