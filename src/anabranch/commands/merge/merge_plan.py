"""A MERGE, looked through before anything runs: what its conditions ask, what its clauses set, what it may read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.dml.target_table import ReadFiles, TargetRows, with_row_counts
from anabranch.commands.merge.merge_join import ACTION_COLUMN, LEFT_ALONE, POSITION, MergeConditions, MergeJoin
from anabranch.commands.merge.merge_source import (
    DeleteClause,
    InsertClause,
    MergeClause,
    MergeStatement,
    MergeTarget,
    SourceFacts,
    UpdateClause,
    is_small,
    may_evolve,
    merge_target,
)
from anabranch.commands.merge.merge_values import ClauseValues, ValuePlanner
from anabranch.commands.merge.merge_write import OutputColumns
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_target import CASE_SENSITIVE_SETTING, store_assignment
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import FALSE, TRUE, Predicate, conjunction, disjunction
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.join_conditions import JoinCondition, JoinScope, Scope
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.hidden_rows import mark_rows
from anabranch.transaction.read_set import FileKey, RowsOfFile
from anabranch.transaction.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """What is known of the statement by its words, the table's schema and the source's."""

    statement: MergeStatement
    source: DataFrame
    """Frozen."""
    scope: JoinScope
    on: JoinCondition
    matched: tuple[JoinCondition | None, ...]
    not_matched: tuple[JoinCondition | None, ...]
    not_matched_by_source: tuple[JoinCondition | None, ...]
    target: MergeTarget
    planner: ValuePlanner
    updates: Mapping[int, ClauseValues]
    """By number of the clause."""
    inserts: tuple[ClauseValues, ...]
    outputs: OutputColumns

    @property
    def repeatable(self) -> bool:
        """Whether it finds the same rows again, asked again later with the same source."""
        asked = (self.on, *self.matched, *self.not_matched, *self.not_matched_by_source)
        return all(condition is None or condition.repeatable for condition in asked)

    def versions_read(self, table: TableRef) -> frozenset[int]:
        """The versions of the table that subqueries in values read."""
        return frozenset[int]().union(*(versions_read(frame, table.path) for frame in self.planner.asking))

    def parameters(self) -> dict[str, Any]:
        """`operationParameters` of the commit."""
        return {
            "predicate": [self.on.text],
            "matchedPredicates": _told(self.statement.matched, self.matched),
            "notMatchedPredicates": _told(self.statement.not_matched, self.not_matched),
            "notMatchedBySourcePredicates": _told(self.statement.not_matched_by_source, self.not_matched_by_source),
        }

    def join(self, num_source_rows: int, settings: Mapping[str, str]) -> MergeJoin:
        """The join that finds the rows."""
        conditions = MergeConditions(
            on=self.on.condition,
            matched=[_asked(condition) for condition in self.matched],
            not_matched=[_asked(condition) for condition in self.not_matched],
            not_matched_by_source=[_asked(condition) for condition in self.not_matched_by_source],
        )
        return MergeJoin(
            self.source,
            conditions,
            alias=self.statement.alias,
            source_is_small=is_small(self.source, num_source_rows, settings),
        )

    def matched_predicate(self, facts: SourceFacts) -> Predicate:
        """True for every row that is matched, maybe for more; in physical names."""
        if facts.matches_nothing:
            return FALSE
        return self.scope.predicate([*self.on.of_target, *facts.bounds])

    def changed_predicate(self, facts: SourceFacts) -> Predicate:
        """True for every row that a clause changes, and for every one that is matched if there are inserts."""
        matched = self.matched_predicate(facts)
        if self.statement.only_matched:
            matched = conjunction([matched, self._any_of(self.matched)])
        if not self.not_matched_by_source:
            return matched
        return _disjunction([matched, self._any_of(self.not_matched_by_source)])

    def _any_of(self, conditions: Sequence[JoinCondition | None]) -> Predicate:
        return _disjunction(
            [TRUE if condition is None else self.scope.predicate(condition.of_target) for condition in conditions]
        )


def plan_merge(table: TableRef, snapshot: Snapshot, statement: MergeStatement, source: DataFrame) -> MergePlan:
    """Look the statement through.

    Raises `NonDeterministicConditionError`, `SubqueryInConditionError`, `AssignmentError`, `MergeColumnNotFoundError`,
    the errors of columns that do not fit, and Spark's `AnalysisException`.
    """
    scope = JoinScope(
        table.session.spark,
        source,
        table=table.label,
        schema=snapshot.schema,
        column_mapping=snapshot.column_mapping_mode,
        alias=statement.alias,
        now_ms=table.session.clock.now_ms(),
    )

    def asked(clauses: Sequence[MergeClause], visible: Scope, kind: str) -> tuple[JoinCondition | None, ...]:
        return tuple(
            None if each.condition is None else scope.resolve_condition(each.condition, visible, clause=kind)
            for each in clauses
        )

    on = scope.resolve_condition(statement.condition, Scope.BOTH, clause="ON")
    matched = asked(statement.matched, Scope.BOTH, "WHEN MATCHED")
    not_matched = asked(statement.not_matched, Scope.SOURCE, "WHEN NOT MATCHED")
    by_source = asked(statement.not_matched_by_source, Scope.TARGET, "WHEN NOT MATCHED BY SOURCE")
    target = merge_target(table, snapshot, statement, source.schema)
    planner = ValuePlanner(
        statement,
        scope,
        schema=target.schema,
        old_schema=snapshot.schema,
        evolves=may_evolve(table, statement),
        casting=store_assignment(table.session),
        case_sensitive=table.session.flag(CASE_SENSITIVE_SETTING, default=False),
        table=table.label,
    )
    updates = {
        number: planner.update(clause, Scope.BOTH if number < len(statement.matched) else Scope.TARGET)
        for number, clause in enumerate(statement.changing)
        if isinstance(clause, UpdateClause)
    }
    inserts = tuple(planner.insert(clause) for clause in statement.not_matched)
    return MergePlan(
        statement=statement,
        source=source,
        scope=scope,
        on=on,
        matched=matched,
        not_matched=not_matched,
        not_matched_by_source=by_source,
        target=target,
        planner=planner,
        updates=updates,
        inserts=inserts,
        outputs=OutputColumns.of(planner, [*updates.values(), *inserts]),
    )


_ACTIONS = {UpdateClause: "update", DeleteClause: "delete", InsertClause: "insert"}


def _told(clauses: Sequence[MergeClause], conditions: Sequence[JoinCondition | None]) -> list[dict[str, str]]:
    return [
        {**({} if condition is None else {"predicate": condition.text}), "actionType": _ACTIONS[type(clause)]}
        for clause, condition in zip(clauses, conditions, strict=True)
    ]


def _asked(condition: JoinCondition | None) -> Column | str | None:
    return None if condition is None else condition.condition


def _disjunction(predicates: Sequence[Predicate]) -> Predicate:
    return TRUE if TRUE in predicates else disjunction(predicates)


# Which rows of the table a MERGE matches and changes, and what its transaction remembers of that.


_Positions = dict[int, BitMap64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeMarks:
    """Rows of the table by what is to become of them."""

    read: ReadFiles | None
    """None where no file can hold a row that matters."""
    changed: _Positions
    """Rows to which a clause applies, by file id."""
    matched: _Positions
    """Rows that are matched, whether a clause applies or not."""
    counts: dict[str, int]
    """Rows by `matched` or `unmatched`, and `updated` or `deleted`."""
    is_ambiguous: bool
    """Whether a row is changed by several rows of the source."""

    @property
    def num_updated(self) -> int:
        return self.counts["matched updated"] + self.counts["unmatched updated"]

    @property
    def num_deleted(self) -> int:
        return self.counts["matched deleted"] + self.counts["unmatched deleted"]

    def changed_rows(self) -> list[RowsOfFile]:
        """Those that leave their files."""
        return self.read.rows(self.changed) if self.read is not None and self.changed else []


def no_marks() -> MergeMarks:
    """Where nothing is matched and no clause applies."""
    return MergeMarks(read=None, changed={}, matched={}, counts=_no_counts(), is_ambiguous=False)


def mark(frame: DataFrame, read: ReadFiles, statement: MergeStatement) -> MergeMarks:
    """Run the frame, which `MergeJoin.decided` gave for the rows of `read`."""
    changed: _Positions = {}
    matched: _Positions = {}
    counts = _no_counts()
    given = 0
    for marks in mark_rows(frame, group_by=(ACTION_COLUMN,)):
        (action,) = marks.group
        assert marks.file_id is not None, "the rows are those of files"
        is_matched = action < len(statement.matched)
        if is_matched:
            matched[marks.file_id] = matched.get(marks.file_id, BitMap64()) | marks.positions
        if action == LEFT_ALONE:
            continue
        changed[marks.file_id] = changed.get(marks.file_id, BitMap64()) | marks.positions
        given += marks.count
        what = "deleted" if isinstance(statement.changing[action], DeleteClause) else "updated"
        counts[f"{'matched' if is_matched else 'unmatched'} {what}"] += len(marks.positions)
    # Each pair of rows was given; a row that a clause changes must be in one of them only.
    twice = given > sum(map(len, changed.values())) and not statement.deletes_all_matched
    return MergeMarks(read=read, changed=changed, matched=matched, counts=counts, is_ambiguous=twice)


def ambiguity(frame: DataFrame, marks: MergeMarks, target: TargetRows, columns: Sequence[str]) -> AmbiguousMergeError:
    """The error that names a row which several rows of the source would change, by these columns of it."""
    applied = frame.where(F.col(ACTION_COLUMN) != LEFT_ALONE)
    twice = applied.groupBy(*POSITION).count().where("`count` > 1").limit(1).collect()
    assert twice, "rows were counted twice"
    assert marks.read is not None
    file_id, position = int(twice[0][0]), int(twice[0][1])
    rows = with_row_counts(marks.read.rows({file_id: BitMap64([position])}), target.table)
    return AmbiguousMergeError(table=target.table.label, row=target.described(rows, columns=columns)[0])


def record(
    transaction: Transaction,
    target: TargetRows,
    plan: MergePlan,
    facts: SourceFacts,
    join: MergeJoin,
    marks: MergeMarks,
    candidates: FileMask,
) -> None:
    """Remember what the statement asked of the table, and which rows that gave."""
    statement, predicate = plan.statement, plan.changed_predicate(facts)
    if not plan.repeatable:
        transaction.record_scan(predicate, files=candidates)
        return
    if statement.changing:
        transaction.record_scan(
            predicate,
            files=candidates,
            rows=_by_key(marks, marks.changed),
            again=lambda rows: target.answers(rows, join.changed),
        )
    if statement.not_matched and not statement.changes_all_matched:
        # A row that is matched keeps an insert away, whether a clause changes it or not.
        transaction.record_scan(
            plan.matched_predicate(facts),
            files=candidates,
            rows=_by_key(marks, marks.matched),
            again=lambda rows: target.answers(rows, join.matched),
        )


def _by_key(marks: MergeMarks, positions: _Positions) -> dict[FileKey, BitMap64]:
    if marks.read is None:
        return {}
    found: Iterable[RowsOfFile] = marks.read.rows(positions)
    return {each.file.key: each.positions for each in found if each.positions is not None}


def _no_counts() -> dict[str, int]:
    return dict.fromkeys(("matched updated", "matched deleted", "unmatched updated", "unmatched deleted"), 0)
