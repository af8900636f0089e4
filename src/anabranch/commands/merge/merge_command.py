"""MERGE: rows of a source change, delete and join rows of a table."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.change_feed.change_files import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.data_files import rows_kept_tags
from anabranch.commands.dml.change_data import files_show_changes, records_changes, tell
from anabranch.commands.dml.identity_high_water import with_moved_marks
from anabranch.commands.dml.query_reads import record_query_reads
from anabranch.commands.dml.row_deletion import Replacement, delete_rows, replace_rows
from anabranch.commands.dml.statement import (
    Outcome,
    Prepared,
    Stopwatch,
    check_may_change_rows,
    execute,
    uses_vectors,
)
from anabranch.commands.dml.target_table import TargetRows
from anabranch.commands.merge.merge_join import ACTION_COLUMN, LEFT_ALONE, POSITION, MergeJoin
from anabranch.commands.merge.merge_plan import MergeMarks, MergePlan, ambiguity, mark, no_marks, plan_merge, record
from anabranch.commands.merge.merge_source import MergeStatement, SourceFacts, freeze, measure
from anabranch.commands.merge.merge_write import merge_metrics, write_merged
from anabranch.commands.table_access import TableRef
from anabranch.errors.dml import MergeOfOtherColumnsError
from anabranch.log.file_columns import FileMask
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, Metadata
from anabranch.protocol.features import check_writable
from anabranch.schema.computed_columns import identity_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import check_resolved, metadata_columns
from anabranch.spark.conditions.repeatable_rows import CachedRows, cache_rows
from anabranch.spark.engine import WrittenFiles
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.transaction import Transaction

KEPT_ROWS_MAX = 500_000
"""Rows of a source up to which the rows that it changes are kept between two jobs."""
_PARTS = ("materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs")


def merge(
    table: TableRef, make_statement: Callable[[], MergeStatement], *, conflict_retries: int | str | None = None
) -> Outcome:
    """Change, delete and insert rows of the table as the statement says; `counts` of the outcome has how many.

    Each execution makes the statement again, so that its source may read newer versions. Raises the errors of
    `errors.dml`, `AssignmentError`, those of columns and values that do not fit (`errors.schema`,
    `errors.constraints`), `AppendOnlyTableError`, Spark's `AnalysisException`, and the errors of `errors.commits`.
    """
    outcome = execute(table, lambda: prepare_merge(table, make_statement()), conflict_retries=conflict_retries)
    register_if_changed(table, outcome.committed)
    return outcome


def prepare_merge(table: TableRef, statement: MergeStatement) -> Prepared:
    """All of a MERGE but its commit."""
    snapshot = table.latest()
    statement.check(table=table.label)
    read = versions_read(statement.source, table.path)
    if read and min(read) < snapshot.version:
        # The statement depends on what the source saw; commits since then must count as winners.
        snapshot = table.delta_log.snapshots.at_version(min(read))
    try:
        return _Execution(table, snapshot, statement, read).prepared()
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("MISSING_ATTRIBUTES"):
            raise
        missing = (error.getMessageParameters() or {}).get("missingAttributes", "")
        raise MergeOfOtherColumnsError(table=table.label, columns=missing) from None


class _Execution:
    """One execution of a MERGE on one version of the table."""

    def __init__(
        self, table: TableRef, snapshot: Snapshot, statement: MergeStatement, source_reads: frozenset[int]
    ) -> None:
        self.table = table
        self.snapshot = snapshot
        self.statement = statement
        self.source_reads = source_reads
        """The versions of the table that the source reads."""
        self.watch = Stopwatch(table)
        self.kept: list[CachedRows] = []

    @property
    def keeps_old_values(self) -> bool:
        """Whether a change data feed may have to tell changed rows as they were."""
        return records_changes(self.snapshot) and not self.statement.only_inserts

    def prepared(self) -> Prepared:
        """The statement, its files written. What was kept is let go of if that fails."""
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self._let_go)
            frozen = freeze(self.statement.source, counts=False)
            self.kept += frozen.kept
            found = self._prepared(frozen.frame)
            on_failure.pop_all()
            return found

    def _prepared(self, source: DataFrame) -> Prepared:
        _check_allowed(self.table, self.snapshot, self.statement)
        plan = plan_merge(self.table, self.snapshot, self.statement, source)
        versions = plan.versions_read(self.table)
        if min(versions, default=self.snapshot.version) < self.snapshot.version:
            self.snapshot = self.table.delta_log.snapshots.at_version(min(versions))
            return self._prepared(source)
        operation = Operation(name="MERGE", parameters=plan.parameters())
        transaction = self.table.begin_at(operation, snapshot=self.snapshot)
        target = TargetRows(self.table, self.snapshot, transaction.vectors, alias=self.statement.alias)
        transaction.describe_rows = target.described
        self._record_reads_beside(plan, transaction)
        with self.watch.measured("materializeSourceTimeMs"), typed_violations():
            facts = measure(source, plan.on.keys, partition_columns=self.snapshot.partition_columns)
        join = plan.join(facts.num_rows, self.table.session.all_settings())
        candidates = target.candidates(plan.changed_predicate(facts))
        with self.watch.measured("scanTimeMs"):
            frame, marks = self._marked(plan, target, join, candidates, at_once=_is_small_change(plan, facts))
        record(transaction, target, plan, facts, join, marks, candidates)
        with self.watch.measured("rewriteTimeMs"):
            changed = self._changed(plan, target, join, frame, marks, candidates)
            replacement = self._replacement(plan, target, facts, marks)
            changes = replacement.changes
            tells = records_changes(self.snapshot) and (marks.num_updated > 0 or not files_show_changes(changes))
            written, actions, told = self._written(
                plan, target, facts, join, frame, changed, marks, replacement, tells=tells
            )
            if tells and changed is not None:
                told += self._tell_changed(plan, changed)
            changes = dataclasses.replace(changes, change_files=told)
        counts = {
            "updated": marks.num_updated,
            "deleted": marks.num_deleted,
            "inserted": (written.num_rows if written is not None else 0) - marks.num_updated,
        }
        metrics = merge_metrics(changes.metrics(written), {**marks.counts, **counts}, num_source_rows=facts.num_rows)
        return Prepared(
            transaction,
            [*actions, *changes.actions(written)],
            num_affected_rows=sum(counts.values()),
            deleted_rows=changes.deleted_rows,
            counts=counts,
            metrics={**metrics, **self.watch.metrics(*_PARTS)},
            tags=rows_kept_tags(self.table, self.snapshot),
            kept=self.kept,
        )

    def _record_reads_beside(self, plan: MergePlan, transaction: Transaction) -> None:
        """What the statement reads of the table beside the rows that its conditions ask for."""
        if plan.planner.asking:
            transaction.record_whole_table()
        if not self.source_reads:
            return
        if self.source_reads != {self.snapshot.version}:
            # A row that it saw, and that came and went since this version, would never be checked.
            transaction.record_whole_table()
            return
        record_query_reads(self.table, self.statement.source, self.snapshot, transaction, at_snapshot=True)

    def _marked(
        self, plan: MergePlan, target: TargetRows, join: MergeJoin, candidates: FileMask, *, at_once: bool
    ) -> tuple[DataFrame | None, MergeMarks]:
        """The rows that matter, and which they are; `at_once` with what they become."""
        if not candidates.any():
            return None, no_marks()
        read = target.read(candidates)
        named = plan.on.target_columns
        everything = [*self.snapshot.schema.fieldNames(), *metadata_columns(self.statement.alias)]
        columns = everything if named is None else list(named)
        keeps = everything if self.keeps_old_values else columns if self.statement.not_matched else []
        keeps = [*keeps, *_id_columns(target)]
        if self.statement.only_inserts:
            frame = join.matched(read.frame, keeps=keeps).withColumn(ACTION_COLUMN, F.lit(LEFT_ALONE))
        elif at_once:
            frame = join.decided(read.frame, plan.updates, keeps=keeps, outputs=plan.outputs.names)
        else:
            frame = join.decided(read.frame, {}, keeps=keeps)
        if (at_once and plan.updates) or self.statement.not_matched or (at_once and self.keeps_old_values):
            # Computed once: what is written is what was marked, whatever the expressions are.
            rows = cache_rows(frame)
            self.kept.append(rows)
            frame = rows.frame
        with typed_violations():
            marks = mark(frame, read, self.statement)
            if marks.is_ambiguous:
                raise ambiguity(frame, marks, target, columns if named is not None else ())
        return frame, marks

    def _changed(
        self,
        plan: MergePlan,
        target: TargetRows,
        join: MergeJoin,
        frame: DataFrame | None,
        marks: MergeMarks,
        candidates: FileMask,
    ) -> DataFrame | None:
        """The rows to which a clause applies, with what updates make of them."""
        if frame is None or not marks.changed:
            return None
        if marks.num_updated and not set(plan.outputs.columns) <= set(frame.columns):
            # They are many, so they were not kept: the same join finds the same rows again.
            files = np.zeros_like(candidates)
            files[np.flatnonzero(candidates)[sorted(marks.changed)]] = True
            keeps = [*(self.snapshot.schema.fieldNames() if self.keeps_old_values else ()), *_id_columns(target)]
            frame = join.decided(target.read(files).frame, plan.updates, keeps=keeps, outputs=plan.outputs.names)
        return frame.where(F.col(ACTION_COLUMN) != LEFT_ALONE)

    def _replacement(self, plan: MergePlan, target: TargetRows, facts: SourceFacts, marks: MergeMarks) -> Replacement:
        """The rows that go, and those of their files that stay, to be written beside new values."""
        by_vectors, rows = uses_vectors(self.snapshot), marks.changed_rows()
        writes = marks.num_updated > 0 or (bool(plan.inserts) and facts.num_rows > 0)
        # Rows that stay have the columns of now. By the files of new rows alone it is told how far numbers have got.
        is_alike = plan.target.schema == self.snapshot.schema and not identity_columns(self.snapshot.schema)
        if writes and is_alike:
            return replace_rows(target, rows, by_vectors=by_vectors)
        return Replacement(changes=delete_rows(target, rows, by_vectors=by_vectors))

    def _tell_changed(self, plan: MergePlan, changed: DataFrame) -> tuple[AddCDCFile, ...]:
        """Write the rows as they were, for the change data feed."""
        if self.statement.deletes_all_matched:
            # A row that several rows of the source match is deleted once.
            changed = changed.dropDuplicates(list(POSITION))
        is_update = F.col(ACTION_COLUMN).isin(sorted(plan.updates))
        change = F.when(is_update, UPDATE_PREIMAGE).otherwise(DELETE)
        return tell(self.table, self.snapshot, changed.withColumn(CHANGE_TYPE, change))

    def _written(
        self,
        plan: MergePlan,
        target: TargetRows,
        facts: SourceFacts,
        join: MergeJoin,
        frame: DataFrame | None,
        changed: DataFrame | None,
        marks: MergeMarks,
        replacement: Replacement,
        *,
        tells: bool,
    ) -> tuple[WrittenFiles | None, list[Action], tuple[AddCDCFile, ...]]:
        """The files of changed and new rows, what changes of the table itself, and what tells of these rows."""
        frames = {}
        if changed is not None and marks.num_updated:
            frames[UPDATE_POSTIMAGE] = changed.where(F.col(ACTION_COLUMN).isin(sorted(plan.updates)))
        has_new_rows = bool(plan.inserts) and facts.num_rows > 0
        if has_new_rows:
            matched = None
            if frame is not None and marks.matched:
                matched = frame.where(F.col(ACTION_COLUMN) < len(self.statement.matched))
            frames[INSERT] = join.inserted(matched, plan.inserts, plan.outputs.names)
        if not frames:
            return None, list(plan.target.actions), ()
        merged = write_merged(
            self.table,
            plan.target,
            plan.planner,
            frames,
            plan.outputs,
            rows_max=marks.num_updated + (facts.num_rows if has_new_rows else 0),
            has_new_rows=has_new_rows,
            tells=tells,
            replacement=replacement,
            tracking=target.tracking,
        )
        actions = self._table_actions(plan, merged.written.adds, merged.plan.generates_identity)
        return merged.written, actions, merged.change_files

    def _table_actions(self, plan: MergePlan, adds: Iterable[AddFile], generated: frozenset[str]) -> list[Action]:
        """What changes of the table itself: its schema, and how far its identity columns have counted."""
        metadata = with_moved_marks(plan.target.metadata, adds, generated, table=self.table.label)
        others: list[Action] = [action for action in plan.target.actions if not isinstance(action, Metadata)]
        return others if metadata == self.snapshot.metadata else [*others, metadata]

    def _let_go(self) -> None:
        for rows in self.kept:
            rows.release()


def _is_small_change(plan: MergePlan, facts: SourceFacts) -> bool:
    """Whether the changed rows are few enough to be kept, so that the table is read once for them.

    Where the clock runs on between two reads, they must be.
    """
    by_source = range(len(plan.matched), len(plan.statement.changing))
    few = facts.num_rows <= KEPT_ROWS_MAX and not any(number in plan.updates for number in by_source)
    return few or not plan.repeatable


def _id_columns(target: TargetRows) -> list[str]:
    """In which rows of the table have their ids, where they have some."""
    return [] if target.tracking is None else [target.tracking.row_id]


def _check_allowed(table: TableRef, snapshot: Snapshot, statement: MergeStatement) -> None:
    """New rows alone are an append, which every table takes that can be written."""
    check_resolved(statement.alias, snapshot)
    if statement.only_inserts:
        check_writable(snapshot.protocol, table=table.label)
        return
    check_may_change_rows(table, snapshot, "MERGE")
