"""Reading a table: its version, its files, and the partitions that a path names."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.table_access import NEWEST, TableRef, TimeTravel, split_partitions, split_time_travel, table_at
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.arguments import InvalidOptionError, TimeTravelTwiceError
from anabranch.errors.schema import ReservedColumnsError
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.schema.paths import same_type
from anabranch.schema.schema_evolution import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import check_names
from anabranch.storage.external_files import allowed_prefixes_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderTable:
    """The table in a folder, and what the path says beside it."""

    table: TableRef
    newest: Snapshot | None
    """Its newest version at that moment; None where there is no table."""
    travel: TimeTravel
    """The version to read."""
    partitions: Mapping[str, str | None]
    """The values of partition columns in the path; empty for the whole table."""


def table_in_folder(session: DeltaSession, path: str, options: Mapping[str, str], travel: TimeTravel) -> FolderTable:
    """The table in a folder, whose path may end in a version, a time, or folders of partitions.

    Raises `TimeTravelTwiceError`, and `InvalidOptionError` where the table has no such partition column.
    """
    table = table_at(session, path, options)
    newest = table.delta_log.snapshots.latest_or_none()
    whole = FolderTable(table=table, newest=newest, travel=travel, partitions={})
    if newest is not None:
        return whole
    plain, suffix = split_time_travel(path)
    if not suffix.is_newest and not travel.is_newest:
        problem = "the version is in the path and in an option; use one of them"
        raise TimeTravelTwiceError(option="path", value=path, problem=problem)
    root, partitions = split_partitions(plain)
    if suffix.is_newest and not partitions:
        return whole
    table, travel = table_at(session, root, options), suffix if travel.is_newest else travel
    newest = table.delta_log.snapshots.latest_or_none()
    if newest is None:
        return FolderTable(table=table, newest=None, travel=travel, partitions={})
    for column, value in partitions.items():
        partition_column(table, column, value)
    return FolderTable(table=table, newest=newest, travel=travel, partitions=partitions)


def read(table: TableRef, travel: TimeTravel = NEWEST, *, declared: StructType | str | None = None) -> DataFrame:
    """The rows of one version of a table."""
    snapshot = snapshot_of(table, travel)
    if declared is not None:
        check_declared(table, snapshot, declared)
    return table.session.engine.scan(scan_request(table, snapshot, time_travel=not travel.is_newest))


def snapshot_of(table: TableRef, travel: TimeTravel, *, newest: Snapshot | None = None) -> Snapshot:
    """The version to read; `newest` is the newest, if the caller has just looked it up.

    Raises `NotADeltaTableError`, and typed errors for versions that do not exist.
    """
    if newest is None:
        newest = table.latest()
    if travel.version is not None:
        return table.delta_log.snapshots.at_version(travel.version)
    if travel.timestamp is not None:
        timestamp_ms = to_milliseconds(table.session, travel.timestamp)
        return table.delta_log.snapshots.at_version(table.delta_log.snapshots.version_at_timestamp(timestamp_ms))
    return newest


def scan_request(
    table: TableRef, snapshot: Snapshot, *, time_travel: bool = False, with_positions: bool = False
) -> ScanRequest:
    """The request for an engine to read all live files of `snapshot`.

    Raises `ReservedColumnsError` and `ReadWithoutColumnsError`.
    """
    if not snapshot.schema.fields:
        raise ReadWithoutColumnsError(table=table.label)
    if snapshot.unreadable_columns:
        raise ReservedColumnsError(table=table.label, columns=snapshot.unreadable_columns)
    store = table.delta_log.store

    def prune(predicate: Predicate) -> FileMask:
        return can_be_true(predicate, snapshot.skipping_columns)

    return ScanRequest(
        table_root=table.path,
        version=None if time_travel else snapshot.version,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        column_mapping=snapshot.column_mapping_mode,
        files=snapshot.files.table,
        load_vectors=functools.partial(load_vectors, store),
        prune=prune,
        with_positions=with_positions,
        allowed_prefixes=allowed_prefixes_of(store),
        options=table.storage,
        load_rows=snapshot.files.rows,
    )


def time_travel_of(options: Mapping[str, str]) -> TimeTravel:
    """The version that a reader's options name. Raises `InvalidOptionError`, also for a misspelled option."""
    check_names(options)
    values = {key.lower(): value for key, value in options.items()}
    version, timestamp = values.get("versionasof"), values.get("timestampasof")
    if version is not None and timestamp is not None:
        problem = "use either versionAsOf or timestampAsOf"
        raise InvalidOptionError(option="versionAsOf", value=version, problem=problem)
    return TimeTravel(version=None if version is None else parse_version(version), timestamp=timestamp)


def parse_version(text: str) -> int:
    """The version that an option or VERSION AS OF names. Raises `InvalidOptionError`."""
    if not re.fullmatch(r"\d{1,19}", text.strip()):
        raise InvalidOptionError(
            option="versionAsOf", value=text, problem="a version must be a whole number, 0 or more"
        )
    return int(text)


def check_declared(table: TableRef, snapshot: Snapshot, declared: StructType | str) -> None:
    """Raises `InvalidOptionError` for a schema other than the table's."""
    schema = declared if isinstance(declared, StructType) else _parsed(declared)
    actual = visible_schema(snapshot.schema)
    if schema.fieldNames() != actual.fieldNames() or not same_type(visible_schema(schema), actual):
        own = f"{table.label} has its own schema, {actual.simpleString()}"
        problem = f"{own}; leave the schema out and select the columns you want"
        raise InvalidOptionError(option="schema", value=schema.simpleString(), problem=problem)


def _parsed(ddl: str) -> StructType:
    kind = StructType.fromDDL(ddl)
    assert isinstance(kind, StructType)
    return kind


def equals_partition(frame: DataFrame, table: TableRef, column: str, value: str | None) -> Column:
    """The condition that a row is in the partition of a folder `column=value`. Raises `InvalidOptionError`."""
    snapshot = table.latest()
    name = partition_column(table, column, value)
    return frame[f"`{name}`"].eqNullSafe(F.lit(value).cast(snapshot.schema[name].dataType))


def partition_column(table: TableRef, column: str, value: str | None) -> str:
    """The partition column of a folder `column=value`, as the table spells it. Raises `InvalidOptionError`."""
    snapshot = table.latest()
    names = {name.lower(): name for name in snapshot.partition_columns}
    if column.lower() not in names:
        partitions = ", ".join(snapshot.partition_columns) or "none"
        problem = f"{column} is not a partition column of {table.label} (it has: {partitions})"
        raise InvalidOptionError(option="path", value=f"{column}={value}", problem=problem)
    return names[column.lower()]
