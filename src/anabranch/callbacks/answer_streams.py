"""Tables as sinks of streaming queries."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from collections import OrderedDict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.callbacks.answer_tables import entry_of, facts_of
from anabranch.callbacks.answer_writes import CLUSTERING_OPTION
from anabranch.callbacks.driver import Driver, joined, split_map
from anabranch.callbacks.resolved_commands import Command
from anabranch.commands.definition.clustering import check_clustering
from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.table_access import TableRef, table_of_entry, table_to_write
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.gateway.jvm_classes import joined_map
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


class Streams:
    """Tables as sinks of streaming queries."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def answers(self) -> dict[str, Answer]:
        return {
            "open sink": self.open,
            "add batch": self.add,
            "entry of path": self.entry_of_path,
            "refuse to stream by name": self.refuse_name,
            "refuse to stream changes": self.refuse_changes,
        }

    def commands(self) -> dict[str, Command]:
        return {}

    def open(self, session: Any, options: str, partitions: str, mode: str, entry: Any) -> None:
        """A query is about to start.

        Raises `InvalidOptionError` for what a stream cannot be told, and `ClusteringMismatchError`.
        """
        table, told = self._told(self._driver.session(session), options, partitions, mode, entry)
        if told.write.cluster_by and (snapshot := table.delta_log.snapshots.latest_or_none()) is not None:
            # Not with each batch: ALTER TABLE may change the clustering of a table while queries write to it.
            check_clustering(told.write.cluster_by, snapshot, table=table.label)

    def add(
        self, session: Any, options: str, partitions: str, mode: str, entry: Any, number: int, rows: Any, plan: Any
    ) -> None:
        """Writes a batch, once; `plan` is how the query makes its rows."""
        own = self._driver.session(session)
        table, told = self._told(own, options, partitions, mode, entry)
        batch = DataFrame(rows, own.spark)
        check_batch(batch.schema, table=table.label)
        write = dataclasses.replace(told.write, reads_target=reads_table(plan, table.path))
        write_batch(table, batch, write, query_id=query_id_of_thread(own), number=number)

    def entry_of_path(self, session: Any, table: Any) -> Any:
        """What Spark wants of a name, for a path, which has no entry in a catalog. Raises `InvalidOptionError`."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        path = facts.table.path
        if facts.version is not None:
            problem = f"a stream has no version; use {path}, to read it from a version on with startingVersion"
            raise InvalidOptionError(option="path", value=f"{path}@v{facts.version}", problem=problem)
        if facts.shows_less:
            problem = "a stream follows the whole table; filter its rows"
            raise InvalidOptionError(option="path", value=path, problem=problem)
        columns = StructType.fromJson(json.loads(facts.schema_json))
        return ClassicCatalog(self._driver.spark(session)).entry_of_path(path, columns)

    def refuse_name(self, path: str) -> None:
        """A path has no entry in a catalog, which is what Spark wants of a name into which it writes."""
        operation = f"a stream into delta.`{path}` by toTable"
        raise UnsupportedOperationError(operation=operation, instead='Use format("delta") and start(path).')

    def refuse_changes(self, name: str) -> None:
        """Spark streams `CHANGES FROM` by scans, which our tables lack. Streams of the feed have the same rows."""
        instead = f'Use spark.readStream.option("readChangeFeed", "true").table("{name}"), which has the same rows.'
        raise UnsupportedOperationError(operation=f"a stream by CHANGES of {name}", instead=instead)

    def _told(
        self, own: DeltaSession, options: str, partitions: str, mode: str, entry: Any
    ) -> tuple[TableRef, StreamOptions]:
        given = split_map(options)
        clustering = json.loads(given.pop(CLUSTERING_OPTION, "[]"))
        told = StreamOptions.parse(
            given,
            output_mode=mode,
            partition_by=tuple(partitions.split("\0")) if partitions else (),
            cluster_by=tuple(clustering),
            query_name=None,
            trigger={},
            settings=own,
        )
        path = told.write.path
        if path is None:
            problem = "start needs the path of the table; toTable takes its name"
            raise InvalidOptionError(option="path", value="None", problem=problem)
        if entry is not None:
            return table_of_entry(own, entry_of(entry, path)), told
        return table_to_write(own, path, told.write.file_system), told


# Tables as sources of streaming queries.


FRAMES_KEPT_MAX = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """One source of one run of a query."""

    table: TableRef
    source: StreamSource


class StreamSources:
    """Sources that queries have open, by keys that Spark's side of each has."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._open: dict[str, _Open] = {}
        self._seen: OrderedDict[str, StructType] = OrderedDict()
        """The columns of streams when they were last made, by what their readers were told."""
        self._keys = itertools.count(1)
        self._lock = threading.Lock()

    def answers(self) -> dict[str, Answer]:
        return {
            "stream columns": self.columns,
            "open stream": self.open,
            "stream until now": lambda key: self._of(key).source.prepare_for_available_now(),
            "stream position": self.position,
            "stream batch": self.batch,
            "stream committed": self.commit,
            "stream metrics": self.metrics,
            "close stream": self.close,
        }

    def commands(self) -> dict[str, Command]:
        return {}

    def columns(self, session: Any, told: str, declared: str | None) -> str:
        """The columns of the stream to be, as JSON. `declared` are those that its reader was told.

        Raises `InvalidOptionError`, `NotADeltaTableError`, `ReadWithoutColumnsError`.
        """
        own = self._driver.session(session)
        table, options = _told(own, told)
        snapshot = table.latest()
        log = opened_log(table, snapshot, options)
        if log is not None:
            merge_changes_of_log(table, snapshot, log)
        parsed = None if declared is None else StructType.fromJson(json.loads(declared))
        found = columns_to_read(table, read_snapshot(snapshot, log), options, declared=parsed)
        with self._lock:
            self._seen[told] = found
            self._seen.move_to_end(told)
            while len(self._seen) > FRAMES_KEPT_MAX:
                self._seen.popitem(last=False)
        return str(found.json())

    def open(self, session: Any, told: str, source_path: str) -> str:
        """A query starts; `source_path` is the source's own folder in its checkpoint.

        Key, columns as JSON, path, and whether ends of batches are to be told, parted by NUL. Raises
        `StreamedSchemaStaleError` and, of a stream with a schema log, the errors of `errors.streaming`.
        """
        own = self._driver.session(session)
        table, options = _told(own, told)
        snapshot = table.latest()
        tracking = tracking_of(table, snapshot, options, source_path=source_path)
        source = StreamSource(
            table.delta_log.snapshots,
            table=table.label,
            snapshot=snapshot,
            options=options,
            to_milliseconds=lambda text: to_milliseconds(own, text, option="startingTimestamp"),
            allows_out_of_range=own.flag(OUT_OF_RANGE_SETTING, default=False),
            tracking=tracking,
        )
        schema = stream_schema(source.read_snapshot, options, table=table.label)
        self._check_seen(told, schema, table)
        with self._lock:
            key = str(next(self._keys))
            self._open[key] = _Open(table=table, source=source)
        return joined((key, schema.json(), table.path, str(source.tracks).lower()))

    def commit(self, key: str, end: str) -> None:
        """A batch is done. Raises `StreamedMetadataEvolvedError`."""
        self._of(key).source.commit(end)

    def position(self, key: str, start: str | None, is_limited: bool) -> str | None:
        """Where the next batch ends."""
        return self._of(key).source.latest_offset(start, is_limited=is_limited)

    def batch(self, key: str, start: str | None, end: str) -> Any:
        """The plan of the rows of a batch."""
        found = self._of(key)
        source = found.source
        rows = batch_rows(found.table, source.read_snapshot, source.batch(start, end), source.options)
        return rows._jdf.queryExecution().analyzed()

    def metrics(self, key: str) -> str | None:
        """How far the query lags behind, in Delta's names."""
        outstanding = self._of(key).source.outstanding()
        if outstanding is None:
            return None
        return joined_map(
            {"numFilesOutstanding": str(outstanding.files), "numBytesOutstanding": str(outstanding.size_bytes)}
        )

    def close(self, key: str) -> None:
        """The query has ended."""
        with self._lock:
            self._open.pop(key, None)

    def _check_seen(self, told: str, now: StructType, table: TableRef) -> None:
        """Whether the query was made for the columns that the table has now; Spark itself compares their number."""
        with self._lock:
            seen = self._seen.get(told)
        if seen is not None:
            check_as_made(seen, now, table=table.label)

    def _of(self, key: str) -> _Open:
        with self._lock:
            return self._open[key]


def _told(session: DeltaSession, told: str) -> tuple[TableRef, SourceOptions]:
    return streamed_table(session, split_map(told))
