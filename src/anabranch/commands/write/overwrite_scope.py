"""The rows that an overwrite replaces: all rows, those of some partitions, or those that satisfy a condition."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import numpy as np
from pyspark.sql.types import StructField

from anabranch.commands.dml.row_changes import RowChanges, delete_rows, with_deletes_recorded
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.dml.target_table import (
    TargetRows,
    record_selection,
    resolve_row_condition,
    select_rows,
    selected_rows,
)
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import WriteOptions
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.log.file_columns import FileMask
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
from anabranch.protocol.actions import AddFile
from anabranch.protocol.partition_values import parse_partition_value
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.rows.deletion_vector_actions import removal
from anabranch.transactions.transaction import Transaction

PARTITIONS_NAMED_MAX = 200
"""With more partitions than these, the conflict checks take every partition for one that the overwrite replaces."""


def replaced_rows(
    table: TableRef,
    snapshot: Snapshot,
    transaction: Transaction,
    options: WriteOptions,
    written: Sequence[AddFile],
) -> RowChanges:
    """Remove what the overwrite replaces, and record it as read, as the result depends on it."""
    if options.replace_where is not None or options.replaced is not None:
        return _replaced_where(table, snapshot, transaction, options)
    now_ms = table.session.clock.now_ms()
    if options.dynamic_partition_overwrite and snapshot.partition_columns:
        mask = _same_partitions(snapshot, written)
        transaction.record_scan(in_partitions(snapshot, written), files=mask)
        return _whole_files(snapshot, mask, now_ms)
    transaction.record_whole_table()
    return _whole_files(snapshot, np.ones(snapshot.files.count, dtype=bool), now_ms)


def _replaced_where(table: TableRef, snapshot: Snapshot, transaction: Transaction, options: WriteOptions) -> RowChanges:
    """Delete the rows that satisfy the condition, as DELETE does."""
    condition, alias = options.replace_where, options.target_alias
    if options.replaced is not None:
        condition, alias = options.replaced.condition, options.replaced.alias
    assert condition is not None
    resolved = resolve_row_condition(table, snapshot, condition, alias=alias)
    if resolved.has_subquery and options.replaced is None:
        raise UnsupportedOperationError(
            operation=f"replaceWhere with a subquery ({resolved.text}), on {table.label},",
            instead="Write its result into the condition, or use MERGE.",
        )
    target = TargetRows(table, snapshot, transaction.vectors, alias=alias)
    transaction.describe_rows = target.described
    selection = select_rows(target, resolved)
    rows = selected_rows(target, selection)
    if options.data_change:
        record_selection(transaction, target, selection, rows)
        changes = delete_rows(target, rows, by_vectors=uses_vectors(snapshot))
        return with_deletes_recorded(target, rows, changes)
    # The user says that no row changes, which holds only while no other commit changes these files.
    transaction.record_scan(resolved.predicate, files=selection.candidates)
    return dataclasses.replace(delete_rows(target, rows, by_vectors=False), deleted_rows={})


def _same_partitions(snapshot: Snapshot, written: Sequence[AddFile]) -> FileMask:
    """The files of the partitions to which the written files belong."""
    columns = snapshot.physical_partition_columns
    wanted = {tuple(add.partition_values.get(name) for name in columns) for add in written}
    mask = np.zeros(snapshot.files.count, dtype=bool)
    for position, values in enumerate(snapshot.files.columns("partition_values")["partition_values"].to_pylist()):
        partition = dict(values)
        mask[position] = tuple(partition.get(name) or None for name in columns) in wanted
    return mask


def in_partitions(snapshot: Snapshot, written: Sequence[AddFile]) -> Predicate:
    """True for rows of the partitions of the written files, in physical names; for all rows where they are too many."""
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


def _whole_files(snapshot: Snapshot, mask: FileMask, now_ms: int) -> RowChanges:
    removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in snapshot.files.to_actions(mask)]
    # With it the conflict checks find the rows again where an OPTIMIZE has moved them meanwhile.
    every_row: dict[FileKey, None] = {remove.key: None for remove in removes}
    return RowChanges(removes=tuple(removes), adds=(), deleted_rows=every_row, num_rows=None)
