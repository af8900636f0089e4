"""Reading a table: which version, which files, as which rows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.table_access import TableRef, table_at
from anabranch.data_skipping.scan_plan import can_be_true
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.schema.merging import visible_schema
from anabranch.schema.names import check_own_names
from anabranch.schema.paths import same_type
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.external_files import allowed_places

_VERSION_SUFFIX = re.compile(r"^(.*)@[vV](\d+)$", re.DOTALL)
_TIMESTAMP_SUFFIX = re.compile(r"^(.*)@(\d{17})$", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravel:
    """Which version to read; the newest where neither is said."""

    version: int | None = None
    timestamp: str | datetime | None = None
    """As Spark casts it to a timestamp, in the session's time zone."""

    @property
    def is_newest(self) -> bool:
        return self.version is None and self.timestamp is None


NEWEST = TimeTravel()


def table_to_write(session: DeltaSession, path: str, options: Mapping[str, str] | None = None) -> TableRef:
    """The table, existing or not, that a write to `path` means.

    A folder may be called `base@v0`. Only where no table is in it, and one is in `base`, does the path mean a version:
    then this raises `InvalidOptionError`.
    """
    handle = table_at(session, path, options)
    plain, travel = split_time_travel(path)
    if (
        travel.is_newest
        or handle.table.snapshots.latest_or_none() is not None
        or table_at(session, plain, options).table.snapshots.latest_or_none() is None
    ):
        return handle
    raise InvalidOptionError(option="path", value=path, problem=f"an old version cannot be written to; use {plain}")


def read(handle: TableRef, travel: TimeTravel = NEWEST, *, declared: StructType | str | None = None) -> DataFrame:
    """The rows of one version of a table."""
    snapshot = snapshot_of(handle, travel)
    if declared is not None:
        check_declared(handle, snapshot, declared)
    return handle.session.engine.scan(scan_request(handle, snapshot, time_travel=not travel.is_newest))


def snapshot_of(handle: TableRef, travel: TimeTravel) -> Snapshot:
    """The version meant. Raises `NotADeltaTableError`, and typed errors for versions there are not."""
    newest = handle.latest()
    if travel.version is not None:
        return handle.table.snapshots.at_version(travel.version)
    if travel.timestamp is not None:
        timestamp_ms = to_milliseconds(handle.session, travel.timestamp)
        return handle.table.snapshots.at_version(handle.table.snapshots.version_at_timestamp(timestamp_ms))
    return newest


def scan_request(
    handle: TableRef, snapshot: Snapshot, *, time_travel: bool = False, with_positions: bool = False
) -> ScanRequest:
    """What an engine needs to read all live files of `snapshot`.

    Raises `ReservedColumnsError` and `ReadWithoutColumnsError`.
    """
    if not snapshot.schema.fields:
        raise ReadWithoutColumnsError(table=handle.label)
    check_own_names(snapshot.schema, table=handle.label)
    store = handle.table.store

    def load(descriptor: DeletionVectorDescriptor) -> Any:
        return load_vector(store, descriptor)

    def prune(predicate: Predicate) -> FileMask:
        return can_be_true(predicate, snapshot.skipping_columns)

    return ScanRequest(
        table_root=handle.path,
        version=None if time_travel else snapshot.version,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        column_mapping=snapshot.column_mapping_mode,
        files=snapshot.files.table,
        load_vector=load,
        prune=prune,
        with_positions=with_positions,
        allowed_prefixes=allowed_places(store),
        options=handle.storage,
    )


def split_time_travel(path: str) -> tuple[str, TimeTravel]:
    """A path or name without `@v3` or `@20240131093000000`, and what that said."""
    if match := _VERSION_SUFFIX.match(path):
        return match[1], TimeTravel(version=int(match[2]))
    if match := _TIMESTAMP_SUFFIX.match(path):
        digits = match[2]
        text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
        return match[1], TimeTravel(timestamp=text)
    return path, NEWEST


def time_travel_of(given: Mapping[str, str]) -> TimeTravel:
    """What a reader's options say, their names in small letters. Raises `InvalidOptionError`."""
    version, timestamp = given.get("versionasof"), given.get("timestampasof")
    if version is not None and timestamp is not None:
        problem = "give either versionAsOf or timestampAsOf"
        raise InvalidOptionError(option="versionAsOf", value=version, problem=problem)
    return TimeTravel(version=None if version is None else parse_version(version), timestamp=timestamp)


def parse_version(text: str) -> int:
    """A version as written in an option or after VERSION AS OF."""
    if not re.fullmatch(r"\d{1,19}", text.strip()):
        raise InvalidOptionError(option="versionAsOf", value=text, problem="a version is a whole number, 0 or more")
    return int(text)


def check_declared(handle: TableRef, snapshot: Snapshot, declared: StructType | str) -> None:
    """Raises `InvalidOptionError` for a schema other than the table's."""
    wanted = declared if isinstance(declared, StructType) else _parsed(declared)
    actual = visible_schema(snapshot.schema)
    if wanted.fieldNames() != actual.fieldNames() or not same_type(visible_schema(wanted), actual):
        own = f"{handle.label} has its own schema, {actual.simpleString()}"
        problem = f"{own}; leave the schema out and select the columns you want"
        raise InvalidOptionError(option="schema", value=wanted.simpleString(), problem=problem)


def _parsed(ddl: str) -> StructType:
    kind = StructType.fromDDL(ddl)
    assert isinstance(kind, StructType)
    return kind


def split_partitions(path: str) -> tuple[str, dict[str, str]]:
    """`/t/date=2024-01-01/part=2` as `/t` and the values; a path without such folders as it is."""
    found: dict[str, str] = {}
    rest = path.rstrip("/")
    while "=" in rest.rsplit("/", 1)[-1]:
        rest, folder = rest.rsplit("/", 1)
        column, value = folder.split("=", 1)
        found[column] = value
    return rest, dict(reversed(found.items()))


def equals_partition(frame: DataFrame, handle: TableRef, column: str, value: str) -> Column:
    """Whether a row is of the partition that a folder's name says. Raises `InvalidOptionError`."""
    snapshot = handle.latest()
    name = partition_column(handle, column, value)
    return frame[f"`{name}`"].eqNullSafe(F.lit(value).cast(snapshot.schema[name].dataType))


def partition_column(handle: TableRef, column: str, value: str) -> str:
    """The partition column that a folder `column=value` is of. Raises `InvalidOptionError`."""
    snapshot = handle.latest()
    names = {name.lower(): name for name in snapshot.partition_columns}
    if column.lower() not in names:
        partitions = ", ".join(snapshot.partition_columns) or "none"
        problem = f"{column} is not a partition column of {handle.label} (it has: {partitions})"
        raise InvalidOptionError(option="path", value=f"{column}={value}", problem=problem)
    return names[column.lower()]
