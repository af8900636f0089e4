"""Tables as sinks and as sources of streaming queries."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from collections import OrderedDict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.callbacks.driver import Driver, joined
from anabranch.callbacks.table_handler import entry_of, facts_of
from anabranch.callbacks.write_handler import CLUSTERING_OPTION
from anabranch.commands.definition.clustering import check_clustering
from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.table_access import TableRef, table_of_entry, table_to_write
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.gateway.jvm_classes import joined_map, split_map
from anabranch.spark.native.plan_reading import reads_table
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.streaming.schema_log_access import merge_changes_of_log, opened_log, tracking_of
from anabranch.streaming.schema_tracking import read_snapshot
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.source_rows import batch_rows
from anabranch.streaming.source_table import (
    OUT_OF_RANGE_SETTING,
    check_as_made,
    columns_to_read,
    stream_schema,
    streamed_table,
)
from anabranch.streaming.stream_options import StreamOptions
from anabranch.streaming.stream_sink import check_batch, query_id_of_thread, write_batch
from anabranch.streaming.stream_source import StreamSource


class StreamSinkHandler:
    """Writes batches of streaming queries to tables."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def open_sink(self, session: Any, options: str, partitions: str, mode: str, entry: Any) -> None:
        """Check the options of a query that is about to start.

        Raises `InvalidOptionError` for options that a stream cannot have, and `ClusteringMismatchError`.
        """
        table, sink = self._table_and_options(self._driver.session(session), options, partitions, mode, entry)
        if sink.write.cluster_by and (snapshot := table.delta_log.snapshots.latest_or_none()) is not None:
            # Not with each batch: ALTER TABLE may change the clustering of a table while queries write to it.
            check_clustering(sink.write.cluster_by, snapshot, table=table.label)

    def add_batch(
        self, session: Any, options: str, partitions: str, mode: str, entry: Any, number: int, rows: Any, plan: Any
    ) -> None:
        """Write a batch, unless an earlier attempt has written it; `plan` is the plan of its rows."""
        delta_session = self._driver.session(session)
        table, sink = self._table_and_options(delta_session, options, partitions, mode, entry)
        batch = DataFrame(rows, delta_session.spark)
        check_batch(batch.schema, table=table.label)
        write = dataclasses.replace(sink.write, reads_target=reads_table(self._driver.jvm, plan, table.path))
        write_batch(table, batch, write, query_id=query_id_of_thread(delta_session), number=number)

    def entry_of_path(self, session: Any, table: Any) -> Any:
        """The `CatalogTable` that Spark needs, for a path, which has none in a catalog. Raises `InvalidOptionError`."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        path = facts.table.path
        if facts.version is not None:
            problem = f"a stream has no version; use {path}, to read it from a version on with startingVersion"
            raise InvalidOptionError(option="path", value=f"{path}@v{facts.version}", problem=problem)
        if facts.is_partial:
            problem = "a stream follows the whole table; filter its rows"
            raise InvalidOptionError(option="path", value=path, problem=problem)
        columns = StructType.fromJson(json.loads(facts.schema_json))
        return ClassicCatalog(self._driver.spark(session)).entry_of_path(path, columns)

    def refuse_sink_by_name(self, path: str) -> None:
        """Raises `UnsupportedOperationError`: `toTable` needs an entry in a catalog, which a path has not."""
        operation = f"a stream into delta.`{path}` by toTable"
        raise UnsupportedOperationError(operation=operation, instead='Use format("delta") and start(path).')

    def _table_and_options(
        self, delta_session: DeltaSession, options: str, partitions: str, mode: str, entry: Any
    ) -> tuple[TableRef, StreamOptions]:
        values = split_map(options)
        clustering = json.loads(values.pop(CLUSTERING_OPTION, "[]"))
        parsed = StreamOptions.parse(
            values,
            output_mode=mode,
            partition_by=tuple(partitions.split("\0")) if partitions else (),
            cluster_by=tuple(clustering),
            query_name=None,
            trigger={},
            settings=delta_session,
        )
        path = parsed.write.path
        if path is None:
            problem = "start needs the path of the table; toTable takes its name"
            raise InvalidOptionError(option="path", value="None", problem=problem)
        if entry is not None:
            return table_of_entry(delta_session, entry_of(self._driver, entry, path)), parsed
        return table_to_write(delta_session, path, parsed.write.file_system), parsed


# Tables as sources of streaming queries.


STREAMS_KEPT_MAX = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _OpenSource:
    """One source in one run of a query."""

    table: TableRef
    source: StreamSource


class StreamSourceHandler:
    """The sources of running queries, by the keys that their `anabranch.DeltaStream` objects have."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._open: dict[str, _OpenSource] = {}
        self._analyzed: OrderedDict[str, StructType] = OrderedDict()
        """The columns of streams when they were last analyzed, by the options of their readers."""
        self._keys = itertools.count(1)
        self._lock = threading.Lock()

    def stream_columns(self, session: Any, options: str, declared: str | None) -> str:
        """The columns of a stream, as JSON. `declared` is the schema that its reader declares.

        Raises `InvalidOptionError`, `NotADeltaTableError`, `ReadWithoutColumnsError`.
        """
        delta_session = self._driver.session(session)
        table, source_options = _streamed(delta_session, options)
        snapshot = table.latest()
        log = opened_log(table, snapshot, source_options)
        if log is not None:
            merge_changes_of_log(table, snapshot, log)
        parsed = None if declared is None else StructType.fromJson(json.loads(declared))
        columns = columns_to_read(table, read_snapshot(snapshot, log), source_options, declared=parsed)
        with self._lock:
            self._analyzed[options] = columns
            self._analyzed.move_to_end(options)
            while len(self._analyzed) > STREAMS_KEPT_MAX:
                self._analyzed.popitem(last=False)
        return str(columns.json())

    def open_stream(self, session: Any, options: str, source_path: str) -> str:
        """Open a source of a query that starts; `source_path` is the source's own folder in the checkpoint.

        Returns, separated by NUL, its key, columns as JSON, path, and whether Spark must report the ends of batches.
        Raises `StreamedSchemaStaleError` and, for a stream with a schema log, the errors of `errors.streaming`.
        """
        delta_session = self._driver.session(session)
        table, source_options = _streamed(delta_session, options)
        snapshot = table.latest()
        tracking = tracking_of(table, snapshot, source_options, source_path=source_path)
        source = StreamSource(
            table.delta_log.snapshots,
            table=table.label,
            snapshot=snapshot,
            options=source_options,
            to_milliseconds=lambda text: to_milliseconds(delta_session, text, option="startingTimestamp"),
            allows_out_of_range=delta_session.flag(OUT_OF_RANGE_SETTING, default=False),
            tracking=tracking,
        )
        schema = stream_schema(source.read_snapshot, source_options, table=table.label)
        self._check_columns(options, schema, table)
        with self._lock:
            key = str(next(self._keys))
            self._open[key] = _OpenSource(table=table, source=source)
        return joined((key, schema.json(), table.path, str(source.tracks).lower()))

    def prepare_for_available_now(self, key: str) -> None:
        """Let the query end with the rows that the table has now."""
        self._source(key).source.prepare_for_available_now()

    def commit_batch(self, key: str, end: str) -> None:
        """Record that a batch is done. Raises `StreamedMetadataEvolvedError`."""
        self._source(key).source.commit(end)

    def latest_offset(self, key: str, start: str | None, is_limited: bool) -> str | None:
        """The position at which the next batch ends; `start` itself if nothing is new."""
        return self._source(key).source.latest_offset(start, is_limited=is_limited)

    def rows_of_batch(self, key: str, start: str | None, end: str) -> Any:
        """The plan of the rows of a batch."""
        opened = self._source(key)
        source = opened.source
        rows = batch_rows(opened.table, source.read_snapshot, source.batch(start, end), source.options)
        return rows._jdf.queryExecution().analyzed()

    def stream_metrics(self, key: str) -> str | None:
        """The files and bytes not yet read, under the names of delta-spark's metrics."""
        outstanding = self._source(key).source.outstanding()
        if outstanding is None:
            return None
        return joined_map(
            {"numFilesOutstanding": str(outstanding.files), "numBytesOutstanding": str(outstanding.size_bytes)}
        )

    def close_stream(self, key: str) -> None:
        """Close a source of a query that has ended."""
        with self._lock:
            self._open.pop(key, None)

    def _check_columns(self, options: str, current: StructType, table: TableRef) -> None:
        """Compare the columns with those of the analysis; Spark itself compares only their number."""
        with self._lock:
            analyzed = self._analyzed.get(options)
        if analyzed is not None:
            check_as_made(analyzed, current, table=table.label)

    def _source(self, key: str) -> _OpenSource:
        with self._lock:
            return self._open[key]


def _streamed(session: DeltaSession, options: str) -> tuple[TableRef, SourceOptions]:
    return streamed_table(session, split_map(options))
