"""Reading a table with Python workers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from anabranch.booleans import parse_boolean
from anabranch.clock import SystemClock
from anabranch.connect.python_source.source_filters import predicate_of
from anabranch.data_skipping.scan_plan import can_be_true
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.errors.arguments import InvalidOptionError, SessionNotEnabledError
from anabranch.predicates.expressions import TRUE, Predicate, conjunction
from anabranch.predicates.normalization import to_physical
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.schema.column_mapping import physical_paths
from anabranch.schema.paths import child, same_type
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.spark.portable.arrow_types import by_position, fit, row_schema
from anabranch.spark.portable.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.spark.rows.file_listing import absolute_names
from anabranch.storage.external_files import allowed_places, open_reaching
from anabranch.storage.log_store import LogStore
from anabranch.transaction.rows.row_ids import row_count

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# The table, and the version of it, that the options of a read or write mean; without Spark.


_NOT_HERE = ("readchangefeed", "readchangedata")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of the format, read once."""

    path: str
    version: int | None
    timestamp: str | None
    time_zone: str
    file_system: Mapping[str, str]
    """Settings of the session, and those among the options that have a dot."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, time_zone: str, file_system: Mapping[str, str]) -> TableOptions:
        """Raises `InvalidOptionError`, `SessionNotEnabledError`."""
        given = {key.lower(): value for key, value in options.items()}
        for name in _NOT_HERE:
            if parse_boolean(given.get(name, "false")) is not False:
                raise SessionNotEnabledError(call="Reading the change feed")
        path = given.get("path")
        if not path:
            raise InvalidOptionError(option="path", value=str(path), problem="it must name the folder of a table")
        version, timestamp = given.get("versionasof"), given.get("timestampasof")
        if version is not None and timestamp is not None:
            raise InvalidOptionError(option="timestampAsOf", value=timestamp, problem="versionAsOf is given as well")
        return cls(
            path=path.rstrip("/") or path,
            version=None if version is None else _version(version),
            timestamp=timestamp,
            time_zone=given.get("timezone", time_zone),
            file_system={**file_system, **{key: value for key, value in options.items() if "." in key}},
        )

    def store(self) -> LogStore:
        return open_reaching(self.path, self.file_system)

    def snapshot(self) -> Snapshot:
        """The version meant, the newest where none is. Raises `TableNotFoundError`, `VersionNotFoundError` …"""
        snapshots = SnapshotCache(self.store(), SystemClock())
        if self.version is not None:
            return snapshots.at_version(self.version)
        if self.timestamp is not None:
            return snapshots.at_timestamp(
                timestamp_ms(self.timestamp, time_zone=self.time_zone, option="timestampAsOf")
            )
        return snapshots.latest()


def timestamp_ms(text: str, *, time_zone: str, option: str) -> int:
    """Milliseconds since the epoch of a time that is written as ISO 8601 says. Raises `InvalidOptionError`."""
    try:
        parsed = datetime.datetime.fromisoformat(text.strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=ZoneInfo(time_zone))
    except (ValueError, ZoneInfoNotFoundError) as error:
        problem = "write it as 2024-01-31 or 2024-01-31 09:30:00, if need be with a zone such as +01:00"
        raise InvalidOptionError(option=option, value=text, problem=problem) from error
    return int(aware.timestamp() * 1000)


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidOptionError(option="versionAsOf", value=text, problem="it must be a whole number from 0 on")
    return int(text)


# Files for one task of a Python worker, in a form that travels.


PARTITION_BYTES = 128 << 20
"""What one task reads, about; as `spark.sql.files.maxPartitionBytes`, which workers do not see."""
OPEN_COST_BYTES = 4 << 20
"""What opening a file counts for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiveFile:
    """A data file and its hidden rows."""

    file: DataFile
    vector: DeletionVectorDescriptor | None
    num_rows: int | None = None
    """What the log says; it bounds the vector."""

    def hidden(self, store: LogStore) -> BitMap64 | None:
        """The positions of the hidden rows; None where there are none. Raises `DeletionVectorError`, `StorageError`."""
        return None if self.vector is None else load_vector(store, self.vector, num_rows=self.num_rows)


def file_batches(files: pa.Table, *, table_root: str, places: Sequence[str]) -> Iterator[list[LiveFile]]:
    """Files in order, cut where the bytes of a task are reached.

    `files` has at least `path`, `partition_values`, `size`, `deletion_vector` and `stats` of `LIVE_FILE_SCHEMA`;
    `places` are those outside the table where it may have files.
    """
    names = absolute_names(files["path"], table_root=table_root, allowed_prefixes=places)
    weights = pc.add(pc.fill_null(files["size"], 0), OPEN_COST_BYTES).to_numpy()
    tasks = (np.cumsum(weights) - 1) // PARTITION_BYTES
    batch: list[LiveFile] = []
    told = (files[name].to_pylist() for name in ("partition_values", "deletion_vector", "stats"))
    for i, (name, values, vector, stats) in enumerate(zip(names.to_pylist(), *told, strict=True)):
        if i and tasks[i] != tasks[i - 1]:
            yield batch
            batch = []
        batch.append(_live_file(name, dict(values or ()), vector, stats))
    if batch:
        yield batch


def _live_file(
    name: str, values: Mapping[str, str | None], vector: Mapping[str, Any] | None, stats: str | None
) -> LiveFile:
    return LiveFile(
        file=DataFile(name=name, partition_values=values),
        vector=None if vector is None else DeletionVectorDescriptor(**vector),
        num_rows=None if vector is None else row_count(stats),
    )


class FileBatch(InputPartition):
    """Files for one task."""

    def __init__(self, files: Sequence[LiveFile]) -> None:
        super().__init__(None)
        self.files = tuple(files)


class DeltaReader(DataSourceReader):
    """Reads one version, which is fixed when the reader is made."""

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        snapshot = options.snapshot()
        self._options = dataclasses.replace(options, version=snapshot.version, timestamp=None)
        self._predicate: Predicate = TRUE
        self._rows = RowReader(
            data_files=DataFiles(snapshot.table_root, options.file_system),
            schema=_declared(schema, snapshot),
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            time_zone=options.time_zone,
        )
        self._expected = row_schema(schema)
        """Names and nullability as Spark has them; it compares."""
        # Workers need no snapshot; it stays behind when the reader travels.
        self._snapshot: Snapshot | None = snapshot

    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._snapshot or self._options.snapshot()
        files = snapshot.files.columns("path", "partition_values", "size", "deletion_vector", "stats")
        if self._predicate != TRUE:
            names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
            mask = can_be_true(to_physical(self._predicate, names), snapshot.skipping_columns)
            files = files.filter(pa.array(mask))
        places = allowed_places(self._options.store())
        batches = file_batches(files, table_root=snapshot.table_root, places=places)
        return [FileBatch(batch) for batch in batches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileBatch)
        store = self._rows.data_files.store()
        for live in partition.files:
            for rows, _ in self._rows.read(live.file, live.hidden(store)):
                arrays = [
                    fit(array, kind, by_position)
                    for array, kind in zip(rows.columns, self._expected.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._expected)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None}


class FilteringDeltaReader(DeltaReader):
    """Leaves out files in which no row can pass the filters. PySpark 4.1 and later."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark still evaluates all of them: a file is kept or left out whole."""
        snapshot = self._snapshot or self._options.snapshot()
        self._predicate = conjunction(predicate_of(given, snapshot.schema) for given in filters)
        return filters


def _declared(schema: StructType, snapshot: Snapshot) -> StructType:
    """The columns that Spark expects, as the table has them. Raises `InvalidOptionError`.

    A table of the catalog brings the schema it was created with, which the table may have outgrown.
    """
    fields = []
    for wanted in schema.fields:
        known = child(snapshot.schema, wanted.name)
        if known is None or not same_type(known.dataType, wanted.dataType):
            has = "no such column" if known is None else f"it as {known.dataType.simpleString()}"
            problem = f"version {snapshot.version} of {snapshot.table_root} has {has}; leave the schema out"
            raise InvalidOptionError(option="schema", value=wanted.simpleString(), problem=problem)
        fields.append(known)
    return StructType(fields)
