"""The plan of a MERGE, made before anything runs: the schema of its target, which may take columns from the source, its
conditions, the values of its clauses, and what it may read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.commands.definition.column_usage import check_types_unused
from anabranch.commands.definition.table_definition import with_schema
from anabranch.commands.dml.assignments import Value
from anabranch.commands.merge.merge_join import MergeConditions, MergeJoin
from anabranch.commands.merge.merge_source import SourceFacts
from anabranch.commands.merge.merge_statement import (
    DeleteClause,
    InsertClause,
    MergeClause,
    MergeStatement,
    UpdateClause,
)
from anabranch.commands.merge.merge_values import ClauseValues, OutputColumns, ValuePlanner
from anabranch.commands.table_access import TableRef
from anabranch.errors.schema import IncompatibleTypesError
from anabranch.predicates.expressions import FALSE, TRUE, Predicate, conjunction, disjunction
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.properties import compat_versions
from anabranch.schema.logical_types import check_storable
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import FieldPath, as_nullable, fold
from anabranch.schema.schema_evolution import MergeRules, merge_schemas, record_type_changes, visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.conditions.user_condition import JoinCondition, JoinScope, Scope
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.cached_rows import is_small
from anabranch.spark.session.session_settings import CASE_SENSITIVE_SETTING, automatic_widening, store_assignment
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.transactions.proposed_commit import RowsWithColumns

AUTO_MERGE_SETTING = "spark.databricks.delta.schema.autoMerge.enabled"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeTarget:
    """Schema and metadata of the table after the commit, and the actions that change them."""

    schema: StructType
    metadata: Metadata
    actions: tuple[Action, ...] = ()
    """The new protocol and metadata; none where nothing of the table itself changes."""


def may_evolve(table: TableRef, statement: MergeStatement) -> bool:
    """Whether the statement or the session allows schema evolution."""
    return statement.evolves or table.session.flag(AUTO_MERGE_SETTING, default=False)


def merge_target(table: TableRef, snapshot: Snapshot, statement: MergeStatement, source: StructType) -> MergeTarget:
    """The table with those columns and fields of the source added that a clause sets and that the table lacks.

    Raises `IncompatibleTypesError` for columns of both whose types cannot be brought together.
    """
    unchanged = MergeTarget(schema=snapshot.schema, metadata=snapshot.metadata)
    if not may_evolve(table, statement):
        return unchanged
    case_sensitive = table.session.flag(CASE_SENSITIVE_SETTING, default=False)
    taken = _taken(statement, source, str if case_sensitive else fold)
    check_duplicates(taken, where="the source", table=table.label)
    properties = snapshot.properties
    rules = MergeRules(
        widening=automatic_widening(table.session, snapshot.properties),
        casting=store_assignment(table.session),
        iceberg=bool(compat_versions(snapshot.properties)),
    )
    merged = merge_schemas(snapshot.schema, as_nullable(visible_schema(taken)), rules)
    if merged.conflicts:
        raise IncompatibleTypesError(table=table.label, extra={}, mismatched=merged.conflicts, overwriting=False)
    if merged.schema == snapshot.schema:
        return unchanged
    check_storable(merged.schema, table=table.label)
    check_types_unused(snapshot, merged.schema, table=table.label)
    schema = merged.schema
    if merged.retyped and properties.type_widening_enabled:
        schema = record_type_changes(schema, snapshot.schema)
    defined = with_schema(snapshot.metadata, snapshot.protocol, schema, label=table.label, source=table.session.random)
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    return MergeTarget(
        schema=parse_schema(defined.metadata.schema_string, table.label),
        metadata=defined.metadata,
        actions=(*protocol, defined.metadata),
    )


def _taken(statement: MergeStatement, source: StructType, spelled: Callable[[str], str]) -> StructType:
    """The columns and fields of the source that a clause sets in the table; `spelled` makes names comparable."""
    clauses = [
        clause for clause in (*statement.matched, *statement.not_matched) if not isinstance(clause, DeleteClause)
    ]
    paths = [path for clause in clauses for path in _paths(clause.values or {}, statement.alias, spelled)]
    everything = any(clause.values is None for clause in clauses)
    return StructType(list(_taken_fields(source, (), paths, spelled, everything=everything)))


def _paths(values: Mapping[str, Value], alias: RowNames, spelled: Callable[[str], str]) -> Iterator[FieldPath]:
    """The paths of the columns that a clause sets, without the alias of the table."""
    for name in values:
        parts = tuple(spelled(part) for part in split_identifier(name))
        yield parts[1:] if isinstance(alias, str) and len(parts) > 1 and fold(parts[0]) == fold(alias) else parts


def _taken_fields(
    struct: StructType,
    above: FieldPath,
    paths: list[FieldPath],
    spelled: Callable[[str], str],
    *,
    everything: bool,
) -> Iterator[StructField]:
    """The fields that one of the paths names; with `everything` also those that no path leads into."""
    for field in struct.fields:
        path = (*above, spelled(field.name))
        inside = any(other[: len(path)] == path for other in paths)
        if path in paths or (everything and not (inside and isinstance(field.dataType, StructType))):
            yield field
        elif inside and isinstance(field.dataType, StructType):
            inner = StructType(list(_taken_fields(field.dataType, path, paths, spelled, everything=everything)))
            if inner.fields:
                yield StructField(field.name, inner, field.nullable, field.metadata)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """A statement resolved against one version of the table and the schema of the source."""

    table: TableRef
    snapshot: Snapshot
    statement: MergeStatement
    source: DataFrame
    """The source, which is evaluated once."""
    scope: JoinScope
    on: JoinCondition
    matched: tuple[JoinCondition | None, ...]
    not_matched: tuple[JoinCondition | None, ...]
    not_matched_by_source: tuple[JoinCondition | None, ...]
    target: MergeTarget
    planner: ValuePlanner
    updates: Mapping[int, ClauseValues]
    """The values of update clauses, by number of the clause."""
    inserts: tuple[ClauseValues, ...]
    outputs: OutputColumns

    @property
    def repeatable(self) -> bool:
        """Whether it matches the same rows when it is evaluated later with the same source."""
        conditions = (self.on, *self.matched, *self.not_matched, *self.not_matched_by_source)
        return all(condition is None or condition.repeatable for condition in conditions)

    @property
    def columns_of_conditions(self) -> frozenset[str] | None:
        """The table's columns that decide which rows are matched and changed, maybe more; None where not known."""
        conditions = [condition for condition in (self.on, *self.matched) if condition is not None]
        columns: set[str] = set()
        for condition in conditions:
            if condition.target_columns is None:
                return None
            columns.update(condition.target_columns)
        return frozenset(columns)

    def rows_with_columns(self, metadata: Metadata) -> RowsWithColumns:
        """What the MERGE would write if these columns were in the table: `*` means all of its columns."""
        before = set(map(fold, self.snapshot.schema.names))
        new = set(map(fold, parse_schema(metadata.schema_string, self.table.label).names)) - before
        left_out = new & set(map(fold, self.source.columns))
        return RowsWithColumns.OTHER if left_out else RowsWithColumns.UNKNOWN

    def versions_read(self) -> frozenset[int]:
        """The versions of the table that subqueries in values read."""
        return frozenset[int]().union(
            *(versions_read(frame, self.table.path) for frame in self.planner.subquery_frames)
        )

    def parameters(self) -> dict[str, Any]:
        """`operationParameters` of the commit."""
        return {
            "predicate": [self.on.text],
            "matchedPredicates": _logged(self.statement.matched, self.matched),
            "notMatchedPredicates": _logged(self.statement.not_matched, self.not_matched),
            "notMatchedBySourcePredicates": _logged(self.statement.not_matched_by_source, self.not_matched_by_source),
        }

    def join(self, num_source_rows: int) -> MergeJoin:
        """The join of the table and the source."""
        conditions = MergeConditions(
            on=self.on.condition,
            matched=[_as_column(condition) for condition in self.matched],
            not_matched=[_as_column(condition) for condition in self.not_matched],
            not_matched_by_source=[_as_column(condition) for condition in self.not_matched_by_source],
        )
        return MergeJoin(
            self.source,
            conditions,
            alias=self.statement.alias,
            has_keys=bool(self.on.keys),
            source_is_small=self.broadcasts(self.source.schema.fields, num_source_rows),
        )

    def broadcasts(self, fields: Iterable[StructField], num_rows: int) -> bool:
        """Whether so many rows with these columns are broadcast; the session can forbid it, as for any join."""
        threshold = self.table.session.setting("spark.sql.autoBroadcastJoinThreshold") or ""
        return not threshold.strip().startswith("-") and is_small(fields, num_rows)

    @property
    def fields_of_condition(self) -> list[StructField]:
        """The table's columns that the condition reads, maybe more."""
        fields = self.snapshot.schema.fields
        names = self.on.target_columns
        return fields if names is None else [field for field in fields if field.name in names]

    def matched_predicate(self, facts: SourceFacts) -> Predicate:
        """True for every matched row, and maybe for others; in physical names."""
        if facts.matches_nothing:
            return FALSE
        return self.scope.predicate([*self.on.of_target, *facts.bounds])

    def changed_predicate(self, facts: SourceFacts) -> Predicate:
        """True for every row that a clause changes and, where there are inserts, for every matched row."""
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
    """Resolve conditions and values of the statement, and check it as a whole.

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

    def conditions(clauses: Sequence[MergeClause], visible: Scope, kind: str) -> tuple[JoinCondition | None, ...]:
        return tuple(
            None if clause.condition is None else scope.resolve_condition(clause.condition, visible, clause=kind)
            for clause in clauses
        )

    on = scope.resolve_condition(statement.condition, Scope.BOTH, clause="ON")
    matched = conditions(statement.matched, Scope.BOTH, "WHEN MATCHED")
    not_matched = conditions(statement.not_matched, Scope.SOURCE, "WHEN NOT MATCHED")
    by_source = conditions(statement.not_matched_by_source, Scope.TARGET, "WHEN NOT MATCHED BY SOURCE")
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
        table=table,
        snapshot=snapshot,
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


def _logged(clauses: Sequence[MergeClause], conditions: Sequence[JoinCondition | None]) -> list[dict[str, str]]:
    """The clauses of one kind in `operationParameters`."""
    return [
        {**({} if condition is None else {"predicate": condition.text}), "actionType": _ACTIONS[type(clause)]}
        for clause, condition in zip(clauses, conditions, strict=True)
    ]


def _as_column(condition: JoinCondition | None) -> Column | str | None:
    return None if condition is None else condition.condition


def _disjunction(predicates: Sequence[Predicate]) -> Predicate:
    return TRUE if TRUE in predicates else disjunction(predicates)
