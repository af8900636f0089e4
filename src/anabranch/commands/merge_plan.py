"""A MERGE, looked through before anything runs: what its conditions ask, what its clauses set, what it may read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from anabranch.commands.merge_clauses import DeleteClause, InsertClause, MergeClause, MergeStatement, UpdateClause
from anabranch.commands.merge_join import MergeConditions, MergeJoin
from anabranch.commands.merge_schema import MergeTarget, may_evolve, merge_target
from anabranch.commands.merge_source import SourceFacts, is_small
from anabranch.commands.merge_values import ClauseValues, ValuePlanner
from anabranch.commands.merge_write import OutputColumns
from anabranch.commands.table_access import TableHandle
from anabranch.commands.write_target import store_assignment
from anabranch.predicates.expressions import FALSE, TRUE, Predicate, conjunction, disjunction
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.join_conditions import JoinCondition, JoinScope, Scope


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

    def versions_read(self, handle: TableHandle) -> frozenset[int]:
        """The versions of the table that subqueries in values read."""
        engine = handle.session.engine
        return frozenset[int]().union(*(engine.versions_read(frame, handle.path) for frame in self.planner.asking))

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


def plan_merge(handle: TableHandle, snapshot: Snapshot, statement: MergeStatement, source: DataFrame) -> MergePlan:
    """Look the statement through.

    Raises `NonDeterministicConditionError`, `SubqueryInConditionError`, `AssignmentError`, `MergeColumnNotFoundError`,
    the errors of columns that do not fit, and Spark's `AnalysisException`.
    """
    scope = JoinScope(
        handle.session.spark,
        source,
        table=handle.label,
        schema=snapshot.schema,
        column_mapping=snapshot.column_mapping_mode,
        alias=statement.alias,
        now_ms=handle.session.clock.now_ms(),
    )

    def asked(clauses: Sequence[MergeClause], visible: Scope, kind: str) -> tuple[JoinCondition | None, ...]:
        return tuple(
            None if each.condition is None else scope.understood(each.condition, visible, clause=kind)
            for each in clauses
        )

    on = scope.understood(statement.condition, Scope.BOTH, clause="ON")
    matched = asked(statement.matched, Scope.BOTH, "WHEN MATCHED")
    not_matched = asked(statement.not_matched, Scope.SOURCE, "WHEN NOT MATCHED")
    by_source = asked(statement.not_matched_by_source, Scope.TARGET, "WHEN NOT MATCHED BY SOURCE")
    target = merge_target(handle, snapshot, statement, source.schema)
    planner = ValuePlanner(
        statement,
        scope,
        schema=target.schema,
        old_schema=snapshot.schema,
        evolves=may_evolve(handle, statement),
        casting=store_assignment(handle.session),
        table=handle.label,
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
