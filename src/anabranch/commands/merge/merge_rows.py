"""The rows of the table that a MERGE matches and changes, found by one join, and what its transaction records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.dml import file_sample
from anabranch.commands.dml.row_changes import records_changes
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.dml.target_table import ReadFiles, TargetRows, with_row_counts
from anabranch.commands.merge.merge_join import ACTION_COLUMN, APPLIED, LEFT_ALONE, POSITION, MergeJoin
from anabranch.commands.merge.merge_plan import MergePlan
from anabranch.commands.merge.merge_source import SourceFacts, with_key_filter
from anabranch.commands.merge.merge_statement import DeleteClause, MergeStatement
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.file_skipping import live_row_count
from anabranch.errors.commits import text_of_row
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.log.file_columns import FileMask, num_bytes
from anabranch.predicates.expressions import Predicate
from anabranch.schema.computed_columns import identity_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import metadata_columns
from anabranch.spark.rows.cached_rows import CACHED_ROWS_MAX, CachedRows, cache_rows, is_small
from anabranch.spark.rows.hidden_rows import MarkedRows as RowsOfGroup
from anabranch.spark.rows.hidden_rows import mark_rows as marks_of_frame
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transactions.read_set import FileKey, RowsOfFile
from anabranch.transactions.reserved_numbers import ReservedNumbers
from anabranch.transactions.transaction import Transaction

FILTERED_BYTES_MIN = 1 << 20
"""A smaller read is not worth a filter: Parquet has statistics of each megabyte or so."""


_Positions = dict[int, BitMap64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeRun:
    """One execution of a MERGE: its plan, and the source once it has been evaluated."""

    plan: MergePlan
    target: TargetRows
    facts: SourceFacts
    join: MergeJoin
    predicate: Predicate
    """True for every row of the table that a clause changes and, where there are inserts, for every matched row."""
    candidates: FileMask
    """The files that can hold such a row."""
    files: FileMask
    """Those of the candidates that are read: all, or those with rows that pass a filter of the source's keys."""
    reserved: ReservedNumbers | None = None
    """Numbers of identity columns that are reserved for it."""
    changes_few_files: bool = False
    """Whether few of the candidates hold rows to which a clause applies, as far as a sample tells."""

    @classmethod
    def of(
        cls, plan: MergePlan, target: TargetRows, facts: SourceFacts, *, reserved: ReservedNumbers | None = None
    ) -> MergeRun:
        """Plan the join for a source of which these facts are known."""
        join = plan.join(facts.num_rows)
        predicate = plan.changed_predicate(facts)
        candidates = target.candidates(predicate)
        return cls(
            plan=plan,
            target=target,
            facts=facts,
            join=join,
            predicate=predicate,
            candidates=candidates,
            files=candidates,
            reserved=reserved,
        )

    @property
    def table(self) -> TableRef:
        return self.plan.table

    @property
    def snapshot(self) -> Snapshot:
        return self.plan.snapshot

    @property
    def statement(self) -> MergeStatement:
        return self.plan.statement

    @property
    def has_new_rows(self) -> bool:
        """Whether rows may be inserted."""
        return bool(self.plan.inserts) and self.facts.num_rows > 0

    @property
    def keeps_old_values(self) -> bool:
        """Whether a change data feed may need the old values of changed rows."""
        return records_changes(self.snapshot) and not self.statement.only_inserts

    @property
    def id_columns(self) -> list[str]:
        """The column with the row ids, where the table tracks rows."""
        return [] if self.target.tracking is None else [self.target.tracking.row_id]

    @property
    def caches_new_values(self) -> bool:
        """Whether the rows are few enough to be cached with their new values, so that the table is read once.

        Rows that another evaluation might not match again must be cached in any case.
        """
        few = self.facts.num_rows <= CACHED_ROWS_MAX and not self.updates_unmatched
        return (few and not self.changes_few_files) or not self.plan.repeatable

    @property
    def updates_unmatched(self) -> bool:
        """Whether rows of the table that no row of the source matches may be updated."""
        by_source = range(len(self.plan.matched), len(self.statement.changing))
        return any(number in self.plan.updates for number in by_source)

    @property
    def num_written_max(self) -> float:
        """How many changed and new rows there may be; infinity where that is not known."""
        if self.updates_unmatched:
            return self.num_rows + (self.facts.num_rows if self.has_new_rows else 0)
        return self.facts.num_rows

    @property
    def num_candidate_bytes(self) -> int:
        """The size of all candidates."""
        return num_bytes(self.snapshot.files.table, self.candidates)

    @property
    def num_rows(self) -> float:
        """How many rows the files have; infinity where statistics do not count them."""
        live = live_row_count(self.snapshot.skipping_columns, self.files)
        return math.inf if live is None else live

    @property
    def is_large(self) -> bool:
        """Whether the candidates are so large that a job which says how best to read them saves more than it takes."""
        return self.num_candidate_bytes >= file_sample.SAMPLED_BYTES_MIN

    @property
    def filters_rows(self) -> bool:
        """Whether a filter of the source's keys may save time: not where each row of the table may have a key."""
        if not self.is_large or self.statement.not_matched_by_source:
            return False
        return self.facts.num_rows <= CACHED_ROWS_MAX or self.facts.num_rows < self.num_rows

    def with_key_filter(self) -> MergeRun:
        """The same with a filter of the source's keys, where that can be had."""
        with typed_violations():
            facts = with_key_filter(self.facts, self.join.source, self.plan.on.keys)
        return dataclasses.replace(self, facts=facts)

    def that_may_match(self, rows: DataFrame) -> DataFrame:
        """Rows of the table without some that no clause changes.

        Parquet's own statistics skip parts of the files, and a filter of the keys leaves out nearly all other rows.
        """
        if self.statement.not_matched_by_source or self.num_candidate_bytes < FILTERED_BYTES_MIN:
            return rows
        return self.plan.scope.where(rows, self.facts.row_conditions)

    @property
    def may_read_twice(self) -> bool:
        """Whether the rows can be found by the columns of the conditions first, and read as a whole afterwards.

        False where it is not worth the job that looks for that.
        """
        needs_whole_rows = bool(self.plan.updates) or self.keeps_old_values
        return (
            needs_whole_rows
            and self.is_large
            and self.caches_new_values
            and self.plan.repeatable
            and not self.statement.not_matched_by_source
        )

    @property
    def writes_at_once(self) -> bool:
        """Whether the join that finds the rows also writes them, and none are cached."""
        plan, has_new_rows = self.plan, self.has_new_rows
        # Without vectors, rows that stay are written with the others where these are few, to one file.
        is_for_few = self.is_large and (uses_vectors(self.snapshot) or self.statement.only_inserts)
        return (
            (bool(plan.updates) or has_new_rows)
            and (is_for_few or self.facts.num_rows > CACHED_ROWS_MAX)
            and not self.changes_few_files
            and plan.repeatable
            and bool(plan.on.keys)
            and self.num_written_max < math.inf
            # Spark cannot broadcast a side of a join of which all rows are needed; it shuffles those of the other.
            and not (has_new_rows and self.join.source_is_small and not self.facts.has_key_filter)
            # New rows are numbered in partitions that are fixed before the write.
            and not (plan.inserts and identity_columns(plan.target.schema))
            and bool(self.files.any())
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarkedRows:
    """Rows of the table by what the MERGE does with them."""

    frame: DataFrame | None
    """The joined rows, with the number of their clause in `ACTION_COLUMN`; None where no file can hold such a row."""
    read: ReadFiles | None
    changed: _Positions
    """Rows to which a clause applies, by file id."""
    deleted: _Positions
    """Those of them that a clause deletes."""
    matched: _Positions
    """Rows that are matched, whether or not a clause applies."""
    num_pairs: int
    """How many rows of the frame are matched: one for each row of the source that matches."""
    counts: dict[str, int]
    """How many rows are `matched` or `unmatched`, and `updated` or `deleted`."""
    is_ambiguous: bool
    """Whether several rows of the source change one row."""

    @property
    def num_updated(self) -> int:
        return self.counts["matched updated"] + self.counts["unmatched updated"]

    @property
    def num_deleted(self) -> int:
        return self.counts["matched deleted"] + self.counts["unmatched deleted"]

    @property
    def updated(self) -> _Positions:
        """Those of the changed rows that a clause updates."""
        updated = {file_id: rows - self.deleted.get(file_id, BitMap64()) for file_id, rows in self.changed.items()}
        return {file_id: rows for file_id, rows in updated.items() if rows}

    def changed_rows(self) -> list[RowsOfFile]:
        """The rows that are removed from their files."""
        return self.rows(self.changed)

    def rows(self, positions: _Positions) -> list[RowsOfFile]:
        """Rows of the table by file."""
        return self.read.rows(positions) if self.read is not None and positions else []


def chosen_of(files: FileMask, file_ids: Iterable[int]) -> FileMask:
    """Those of the files that have these ids in a read of them."""
    chosen = np.zeros_like(files)
    chosen[np.flatnonzero(files)[sorted(file_ids)]] = True
    return chosen


def mark_rows(run: MergeRun, cached: list[CachedRows] | None) -> MarkedRows:
    """Join the candidates with the source, and mark the rows by the clause that applies to them.

    Rows that are used again later are cached, and added to `cached`; with None, none are. Raises `AmbiguousMergeError`.
    """
    if not run.files.any():
        return MarkedRows(
            frame=None,
            read=None,
            changed={},
            deleted={},
            matched={},
            num_pairs=0,
            counts=no_counts(),
            is_ambiguous=False,
        )
    read = run.target.read(run.files)
    frame = _joined(run, run.that_may_match(read.frame))
    at_once = run.caches_new_values
    if cached is not None and (
        (at_once and run.plan.updates) or run.statement.not_matched or (at_once and run.keeps_old_values)
    ):
        # Computed once, so that the written rows are the marked ones even where expressions are not deterministic.
        as_rows = is_small(frame.schema.fields, run.facts.num_rows)
        with typed_violations():
            cached.append(cache_rows(frame, as_rows=as_rows))
        frame = cached[-1].frame
    with typed_violations():
        marked = marked_rows(marks_of_frame(frame, group_by=(ACTION_COLUMN,)), read, run.statement, frame=frame)
        if marked.is_ambiguous:
            raise _ambiguity(frame, read, run)
    return marked


def _joined(run: MergeRun, rows: DataFrame) -> DataFrame:
    """The rows that matter, with the columns that later steps need."""
    plan, statement = run.plan, run.statement
    everything = [*run.snapshot.schema.fieldNames(), *metadata_columns(statement.alias)]
    condition_columns = everything if plan.on.target_columns is None else list(plan.on.target_columns)
    keeps = everything if run.keeps_old_values else condition_columns if statement.not_matched else []
    keeps = [*keeps, *run.id_columns]
    if statement.only_inserts:
        return run.join.matched(rows, keeps=keeps).withColumn(ACTION_COLUMN, F.lit(LEFT_ALONE))
    if run.caches_new_values:
        return run.join.decided(rows, plan.updates, keeps=keeps, outputs=plan.outputs.names)
    return run.join.decided(rows, {}, keeps=keeps)


def marked_rows(
    marks: Iterable[RowsOfGroup], read: ReadFiles, statement: MergeStatement, *, frame: DataFrame | None = None
) -> MarkedRows:
    """The rows of `read` by their marks, which are grouped by action; marks of new rows do not count."""
    changed: _Positions = {}
    deleted: _Positions = {}
    matched: _Positions = {}
    counts = no_counts()
    num_pairs = num_changes = 0
    for rows in marks:
        if rows.file_id is None:
            continue
        (action,) = rows.group
        is_matched = action < len(statement.matched)
        if is_matched:
            _add(matched, rows.file_id, rows.positions)
            num_pairs += rows.count
        if action == LEFT_ALONE:
            continue
        _add(changed, rows.file_id, rows.positions)
        num_changes += rows.count
        is_deleted = isinstance(statement.changing[action], DeleteClause)
        if is_deleted:
            _add(deleted, rows.file_id, rows.positions)
        what = "deleted" if is_deleted else "updated"
        counts[f"{'matched' if is_matched else 'unmatched'} {what}"] += len(rows.positions)
    # The frame has a row for each pair, and a row that a clause changes must be in one pair only.
    is_ambiguous = num_changes > sum(map(len, changed.values())) and not statement.deletes_all_matched
    return MarkedRows(
        frame=frame,
        read=read,
        changed=changed,
        deleted=deleted,
        matched=matched,
        num_pairs=num_pairs,
        counts=counts,
        is_ambiguous=is_ambiguous,
    )


def _add(marked: _Positions, file_id: int, positions: BitMap64) -> None:
    marked[file_id] = marked.get(file_id, BitMap64()) | positions


def no_counts() -> dict[str, int]:
    """The counts of `MarkedRows` without any row."""
    return dict.fromkeys(("matched updated", "matched deleted", "unmatched updated", "unmatched deleted"), 0)


def _ambiguity(frame: DataFrame, read: ReadFiles, run: MergeRun) -> AmbiguousMergeError:
    """The error that shows a row which several rows of the source would change, by the columns of the condition."""
    applied = frame.where(APPLIED)
    twice = applied.groupBy(*POSITION).count().where("`count` > 1").limit(1).collect()
    assert twice, "rows were counted twice"
    file_id, position = int(twice[0][0]), int(twice[0][1])
    rows = with_row_counts(read.rows({file_id: BitMap64([position])}), run.table)
    columns: Sequence[str] = () if run.plan.on.target_columns is None else list(run.plan.on.target_columns)
    return AmbiguousMergeError(table=run.table.label, row=text_of_row(run.target.described(rows, columns=columns)[0]))


def record_rows(transaction: Transaction, run: MergeRun, marked: MarkedRows) -> None:
    """Record the conditions of the statement, and the rows for which they are true."""
    statement, target, join = run.statement, run.target, run.join
    if not run.plan.repeatable:
        transaction.record_scan(run.predicate, files=run.candidates)
        return
    if statement.changing:
        transaction.record_scan(
            run.predicate,
            files=run.candidates,
            rows=_by_file(marked, marked.changed),
            reevaluate=lambda rows: target.matching(rows, join.changed),
        )
    if statement.not_matched and not statement.changes_all_matched:
        # A matched row prevents an insert, whether or not a clause changes it.
        transaction.record_scan(
            run.plan.matched_predicate(run.facts),
            files=run.candidates,
            rows=_by_file(marked, marked.matched),
            reevaluate=lambda rows: target.matching(rows, join.matched),
        )


def _by_file(marked: MarkedRows, positions: _Positions) -> dict[FileKey, BitMap64]:
    if marked.read is None:
        return {}
    rows = marked.read.rows(positions)
    return {selected.file.key: selected.positions for selected in rows if selected.positions is not None}
