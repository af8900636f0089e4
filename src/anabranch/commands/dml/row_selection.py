"""A DELETE or UPDATE begun on one version: the rows that its condition selects, and what its transaction records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame

from anabranch.commands.dml.target_table import ReadFiles, TargetRows, resolve_row_condition
from anabranch.commands.table_access import TableRef
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import is_opaque
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.conditions.user_condition import ReadCondition
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.hidden_rows import marked_positions
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import FileKey, RowsOfFile
from anabranch.transactions.transaction import Transaction


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowSelection:
    """The rows that a statement selects, before Spark has searched for them."""

    condition: ReadCondition | None
    """None selects all rows."""
    candidates: FileMask
    """Every selected row is in one of these files."""
    fully_matching: FileMask
    """The candidates of which every row is selected, for certain."""

    @property
    def partly_matching(self) -> FileMask:
        """The candidates that must be read to know."""
        return self.candidates & ~self.fully_matching


def select_rows(target: TargetRows, condition: ReadCondition | None) -> RowSelection:
    """Divide the files by what partition values and statistics say about the condition."""
    everything = np.ones(target.snapshot.files.count, dtype=bool)
    if condition is None:
        return RowSelection(condition=None, candidates=everything, fully_matching=everything)
    candidates = target.candidates(condition.predicate)
    return RowSelection(
        condition=condition,
        candidates=candidates,
        fully_matching=target.fully_matching(condition.predicate) & candidates,
    )


def read_candidates(target: TargetRows, selection: RowSelection, files: FileMask) -> ReadFiles:
    """The rows of these files of the selection.

    Spark's filters leave out none that the condition has not left out, unless they know more: the time, or the rows of
    a subquery.
    """
    condition = selection.condition
    return target.read(files, pruned=condition is not None and not condition.repeatable)


def satisfying(read: ReadFiles, condition: ReadCondition | None) -> DataFrame:
    """The rows for which the condition is true, position columns included."""
    return read.frame if condition is None else read.frame.where(condition.condition)


def rows_of_frame(read: ReadFiles, frame: DataFrame) -> list[RowsOfFile]:
    """Run the frame, which was made from `read.frame`, and return which rows of the files it has."""
    return read.rows(marked_positions(frame))


def selected_rows(target: TargetRows, selection: RowSelection) -> list[RowsOfFile]:
    """The selected rows. Spark reads the files for which statistics do not decide."""
    rows = []
    if selection.fully_matching.any():
        rows += whole_files(target, selection.fully_matching)
    if selection.partly_matching.any():
        read = read_candidates(target, selection, selection.partly_matching)
        rows += rows_of_frame(read, satisfying(read, selection.condition))
    return rows


def whole_files(target: TargetRows, files: FileMask) -> list[RowsOfFile]:
    """All rows of these files."""
    return [RowsOfFile(file=add, positions=None) for add in target.snapshot.files.to_actions(files)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BegunStatement:
    """A DELETE or UPDATE on one version of the table, begun and not yet run."""

    transaction: Transaction
    target: TargetRows
    selection: RowSelection

    @property
    def snapshot(self) -> Snapshot:
        return self.target.snapshot

    def versions_read(self) -> frozenset[int]:
        """The versions of the table that subqueries of the condition read."""
        condition = self.selection.condition
        if condition is None or not condition.has_subquery:
            return frozenset()
        rows = satisfying(self.target.read(self.selection.candidates), condition)
        return versions_read(rows, self.target.table.path)


def begin_statement(
    name: str, table: TableRef, snapshot: Snapshot, condition: Column | str | None, *, alias: RowNames
) -> BegunStatement:
    """Begin a statement of that name on the rows for which the condition is true.

    Raises Spark's `AnalysisException` for a condition that makes no sense.
    """
    resolved = None if condition is None else resolve_row_condition(table, snapshot, condition, alias=alias)
    operation = Operation(name=name, parameters={"predicate": [] if resolved is None else [resolved.text]})
    transaction = table.begin_at(operation, snapshot=snapshot)
    target = TargetRows(table, snapshot, transaction.vectors, alias=alias)
    transaction.describe_rows = target.described
    return BegunStatement(transaction=transaction, target=target, selection=select_rows(target, resolved))


def record_selection(
    transaction: Transaction, target: TargetRows, selection: RowSelection, rows: Sequence[RowsOfFile]
) -> None:
    """Record the condition and the rows that it selected, which are all in `rows`."""
    condition = selection.condition
    if condition is None:
        transaction.record_whole_table()
        return
    files = selection.candidates
    if condition.repeatable:
        again = target.evaluating(condition.condition)
        transaction.record_scan(condition.predicate, files=files, rows=_positions(target, rows), reevaluate=again)
    elif condition.has_subquery and not is_opaque(condition.predicate):
        # The subquery has read other tables at one version; evaluated for new rows, it would read newer ones.
        transaction.record_scan(condition.predicate, files=files, rows=_positions(target, rows))
    else:
        transaction.record_scan(condition.predicate, files=files)


def _positions(target: TargetRows, rows: Sequence[RowsOfFile]) -> dict[FileKey, BitMap64] | None:
    """The positions of the rows by file; None where statistics of a whole file do not count its rows."""
    whole = target.all_rows([selected.file for selected in rows if selected.positions is None])
    if whole is None:
        return None
    return whole | {selected.file.key: selected.positions for selected in rows if selected.positions is not None}
