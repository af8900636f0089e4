"""The files of a write: those it adds, and those that an overwrite takes away."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.commands.read import scan_request
from anabranch.commands.table_access import TableHandle
from anabranch.commands.write_options import WriteOptions
from anabranch.commands.write_target import WriteTarget
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.predicates.expressions import (
    EQ,
    TRUE,
    Column,
    Comparison,
    IsNull,
    Literal,
    Predicate,
    conjunction,
    disjunction,
)
from anabranch.predicates.normalisation import to_physical
from anabranch.predicates.sql import parse_predicate
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.partition_values import parse as parse_partition_value
from anabranch.schema.column_mapping import physical_paths
from anabranch.schema.void import without_void
from anabranch.snapshot.scan_plan import can_be_true, files_wholly_true, live_row_count
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conforming import conform
from anabranch.spark.engine import FILE_ID_COLUMN, FileMask, ScanRequest, WriteRequest, WrittenFiles
from anabranch.spark.row_checks import refuse_when, typed_violations
from anabranch.spark.table_identifiers import quote
from anabranch.transaction.transaction import Transaction

PARTITIONS_NAMED_MAX = 200
"""More partitions than these are not told apart when other commits are checked against ours."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What an overwrite takes away, and the rows of it that stay, written anew."""

    removes: tuple[RemoveFile, ...] = ()
    adds: tuple[AddFile, ...] = ()
    num_copied_rows: int = 0
    num_deleted_rows: int | None = None

    def metrics(self) -> dict[str, int]:
        """By Delta's names; nothing where nothing was taken away."""
        if not self.removes and self.num_deleted_rows is None:
            return {}
        found = {
            "numRemovedFiles": len(self.removes),
            "numRemovedBytes": sum(remove.size or 0 for remove in self.removes),
        }
        if self.num_deleted_rows is not None:
            found |= {"numDeletedRows": self.num_deleted_rows, "numCopiedRows": self.num_copied_rows}
        return found


def write_rows(handle: TableHandle, frame: DataFrame, target: WriteTarget, options: WriteOptions) -> WrittenFiles:
    """Run the frame and write its rows as the target's files. Nothing is committed."""
    rows = conform(frame, target.plan, table=handle.label)
    if options.replace_where is not None and options.check_replace_where:
        rows = _checked(rows, options.replace_where, table=handle.label)
    with typed_violations():
        return handle.session.engine.write(
            WriteRequest(
                table_root=handle.path,
                frame=rows,
                schema=target.file_schema(handle.label),
                partition_columns=target.partition_columns,
                column_mapping=target.column_mapping,
                properties=target.properties,
                max_records_per_file=options.max_records_per_file,
                options=(*handle.storage, *options.parquet),
            )
        )


def replaced_files(
    handle: TableHandle,
    snapshot: Snapshot,
    transaction: Transaction,
    options: WriteOptions,
    written: Sequence[AddFile],
) -> Replacement:
    """What the overwrite takes away; recorded as read, since it depends on what was there."""
    now_ms = handle.session.clock.now_ms()
    if options.replace_where is not None:
        return _replaced_where(handle, snapshot, transaction, options.replace_where, now_ms)
    if options.dynamic_partition_overwrite and snapshot.partition_columns:
        mask = _same_partitions(snapshot, written)
        transaction.record_scan(in_partitions(snapshot, written), files=mask)
        return Replacement(removes=_removals(snapshot, mask, now_ms))
    transaction.record_whole_table()
    everything = np.ones(snapshot.files.count, dtype=bool)
    return Replacement(removes=_removals(snapshot, everything, now_ms))


def _replaced_where(
    handle: TableHandle, snapshot: Snapshot, transaction: Transaction, condition: str, now_ms: int
) -> Replacement:
    predicate = physical_predicate(snapshot, condition)
    candidates = can_be_true(predicate, snapshot.skipping_columns)
    transaction.record_scan(predicate, files=candidates)
    whole = _wholly_true(snapshot, predicate) & candidates
    doubtful = candidates & ~whole
    touched, num_deleted = _touched(handle, snapshot, doubtful, condition)
    kept = _keep_other_rows(handle, snapshot, touched, condition)
    rows_of_whole = live_row_count(snapshot.skipping_columns, whole)
    return Replacement(
        removes=_removals(snapshot, whole | touched, now_ms),
        adds=() if kept is None else kept.adds,
        num_copied_rows=0 if kept is None else kept.num_rows,
        num_deleted_rows=None if rows_of_whole is None else rows_of_whole + num_deleted,
    )


def physical_predicate(snapshot: Snapshot, condition: str) -> Predicate:
    """A SQL condition over the names that files use. Raises a typed error for text that is no condition."""
    logical = parse_predicate(condition, schema=snapshot.schema)
    return to_physical(logical, physical_paths(snapshot.schema, snapshot.column_mapping_mode))


def _touched(handle: TableHandle, snapshot: Snapshot, doubtful: FileMask, condition: str) -> tuple[FileMask, int]:
    """Which of the doubtful files hold a row that satisfies the condition, and how many such rows there are."""
    touched = np.zeros(snapshot.files.count, dtype=bool)
    if not doubtful.any():
        return touched, 0
    positions = np.flatnonzero(doubtful)
    frame = handle.session.engine.scan(_request(handle, snapshot, doubtful, with_positions=True))
    counted = frame.where(F.expr(condition)).groupBy(FILE_ID_COLUMN).count().collect()
    for row in counted:
        touched[positions[row[0]]] = True
    return touched, sum(row[1] for row in counted)


def _keep_other_rows(handle: TableHandle, snapshot: Snapshot, touched: FileMask, condition: str) -> WrittenFiles | None:
    """Write the rows of the touched files that do not satisfy the condition into new files."""
    if not touched.any():
        return None
    schema = without_void(snapshot.schema)
    frame = handle.session.engine.scan(_request(handle, snapshot, touched))
    return handle.session.engine.write(
        WriteRequest(
            table_root=handle.path,
            frame=frame.where(~F.coalesce(F.expr(condition), F.lit(False))).select(*_columns(frame, schema)),
            schema=schema,
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            properties=snapshot.properties,
            options=handle.storage,
        )
    )


def _request(handle: TableHandle, snapshot: Snapshot, mask: FileMask, *, with_positions: bool = False) -> ScanRequest:
    request = scan_request(handle, snapshot, with_positions=with_positions)
    everything = np.ones(int(mask.sum()), dtype=bool)
    return dataclasses.replace(request, files=request.files.filter(pa.array(mask)), prune=lambda _: everything)


def _columns(frame: DataFrame, schema: StructType) -> list[SparkColumn]:
    return [frame[quote(name)] for name in schema.fieldNames()]


def _checked(rows: DataFrame, condition: str, *, table: str) -> DataFrame:
    """The rows, of which each must satisfy the condition."""
    first, *others = rows.columns
    violated = ~F.coalesce(F.expr(condition), F.lit(False))
    facts = {"table": table, "predicate": condition}
    sample = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)))
    column = F.col(quote(first))
    checked = refuse_when(violated, column, ReplaceWhereMismatchError, facts, shown=("row", sample)).alias(first)
    return rows.select(checked, *(F.col(quote(name)) for name in others))


def _same_partitions(snapshot: Snapshot, written: Sequence[AddFile]) -> FileMask:
    """The files that lie in a partition that one of the written files lies in."""
    columns = snapshot.physical_partition_columns
    wanted = {tuple(add.partition_values.get(name) for name in columns) for add in written}
    mask = np.zeros(snapshot.files.count, dtype=bool)
    for position, values in enumerate(snapshot.files.columns("partition_values")["partition_values"].to_pylist()):
        found = dict(values)
        mask[position] = tuple(found.get(name) or None for name in columns) in wanted
    return mask


def in_partitions(snapshot: Snapshot, written: Sequence[AddFile]) -> Predicate:
    """Rows of the partitions that the written files lie in, in physical names; all rows where they are too many."""
    fields = [snapshot.physical_schema[name] for name in snapshot.physical_partition_columns]
    keys = {tuple(add.partition_values.get(field.name) for field in fields) for add in written}
    if len(keys) > PARTITIONS_NAMED_MAX:
        return TRUE
    return disjunction(
        conjunction(_has_value(field, text) for field, text in zip(fields, key, strict=True))
        for key in sorted(keys, key=str)
    )


def _has_value(field: StructField, text: str | None) -> Predicate:
    column = Column((field.name,))
    if text is None or text == "":
        return IsNull(column)
    value = parse_partition_value(text, field.dataType)
    if isinstance(value, datetime.datetime):
        zone = datetime.UTC if value.tzinfo else None
        value = (value - datetime.datetime(1970, 1, 1, tzinfo=zone)) // datetime.timedelta(microseconds=1)
    elif isinstance(value, datetime.date):
        value = (value - datetime.date(1970, 1, 1)).days
    return Comparison(EQ, column, Literal(value, field.dataType))


def _wholly_true(snapshot: Snapshot, predicate: Predicate) -> FileMask:
    return files_wholly_true(
        snapshot.files.table,
        predicate,
        physical_schema=snapshot.physical_schema,
        partition_columns=snapshot.physical_partition_columns,
        columns=snapshot.skipping_columns,
    )


def _removals(snapshot: Snapshot, mask: FileMask, now_ms: int) -> tuple[RemoveFile, ...]:
    return tuple(removal(add, now_ms=now_ms) for add in snapshot.files.to_actions(mask))


def removal(add: AddFile, *, now_ms: int) -> RemoveFile:
    """The tombstone of a file that leaves the table with all its rows."""
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now_ms,
        data_change=True,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
