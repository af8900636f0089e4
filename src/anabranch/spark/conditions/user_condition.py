"""A user's condition on the rows of a table, or on pairs of rows in a MERGE, resolved before it is used.

It decides which files must be read: by conditions on the table alone and, for a MERGE, by values of the source that
rows of the table must equal. It also decides whether it may be evaluated for other rows later: only then can single
rows decide a conflict.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.dml import NonDeterministicConditionError, SubqueryInConditionError
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import (
    TRUE,
    ColumnPath,
    Predicate,
    Truth,
    Unknown,
    conjunction,
    with_physical_columns,
)
from anabranch.schema.column_mapping import ColumnMappingMode, physical_paths
from anabranch.schema.paths import fold
from anabranch.schema.schema_evolution import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames, metadata_columns, named
from anabranch.spark.conditions.repeatable_rows import fix_clock
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.spark.gateway.jvm_sessions import session_zone, zones_of

_NO_VERSION_CHOSEN = "delta: "
"""The beginning of the description of the Java class `TableFiles`."""
_LEAVES_OF_FIXED_DATA = frozenset(
    {"LogicalRelation", "HiveTableRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation"}
)
"""Leaves of a plan that show what they read. Rows of a checkpoint are an RDD's and fixed, like a MERGE's source."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadCondition:
    """A condition on rows of a table, resolved by Spark's analyzer."""

    condition: Column | str
    """The condition for Spark; clock functions in a text are replaced by literals."""
    text: str
    """The condition for people and the log: as the user wrote it, where it was text."""
    predicate: Predicate
    """A predicate in physical names. It is true for every row that satisfies the condition, maybe for more."""
    repeatable: bool
    """Whether it has the same value for the same row when it is evaluated again later."""
    has_subquery: bool
    """Whether it holds a subquery, which may read anything."""


def resolve_condition(
    spark: SparkSession,
    condition: Column | str,
    *,
    schema: StructType,
    column_mapping: ColumnMappingMode,
    alias: RowNames = None,
    now_ms: int,
    reads_table: Callable[[DataFrame], bool],
) -> ReadCondition:
    """The condition, resolved for rows of a table of this schema, which it may call `alias`.

    `reads_table` returns whether a frame reads rows of that table; it is called for a frame with the condition's
    subqueries. Raises Spark's `AnalysisException` for a condition that cannot be resolved for such rows.
    """
    physical = physical_paths(schema, column_mapping)
    text = text_of(condition)
    timed: Column | str = condition
    if isinstance(condition, str):
        columns = {name.lower() for name in schema.fieldNames()}
        timed = fix_clock(condition, columns=columns, time_zone=session_zone(spark), now_ms=now_ms)
    frame = empty_frame(spark, schema, alias).where(timed)
    resolved = _resolved(frame, physical, condition=timed, text=text, reads_table=reads_table)
    return dataclasses.replace(resolved, repeatable=resolved.repeatable and not metadata_columns(alias))


def has_subquery(frame: DataFrame) -> bool:
    """Whether an expression that `frame` computes holds a subquery."""
    return bool(_classes(frame).PlanFunctions.subqueries(frame._jdf) > 0)


def subqueries_may_read(frame: DataFrame, reads_table: Callable[[DataFrame], bool]) -> bool:
    """Whether the subqueries of a frame that reads nothing else may read rows of a table; True where not known."""
    analyzed = frame._jdf.queryExecution().analyzed()
    return has_subquery(frame) and (not _subqueries_show_their_tables(analyzed) or reads_table(frame))


def _resolved(
    frame: DataFrame,
    physical: Mapping[ColumnPath, ColumnPath],
    *,
    condition: Column | str,
    text: str,
    reads_table: Callable[[DataFrame], bool],
) -> ReadCondition:
    classes = _classes(frame)
    facts = json.loads(classes.ConditionJson.facts(frame._jdf, not isinstance(condition, str)))
    if facts["subquery"]:
        # A subquery reads other tables at one version. Of this table, any row may matter to it.
        rest = Unknown(text, opaque=subqueries_may_read(frame, reads_table))
        beside = conjunction(_beside_subqueries(frame))
        return ReadCondition(
            condition=condition,
            text=text,
            predicate=with_physical_columns(conjunction([beside, rest]), physical),
            repeatable=False,
            has_subquery=True,
        )
    # Clock functions in a Column are not replaced: midnight may pass between now and the job.
    steady = not facts["clock"]
    return ReadCondition(
        condition=condition,
        text=text if isinstance(condition, str) else facts["sql"],
        predicate=with_physical_columns(conjunction(_predicates(facts["filters"], classes)), physical)
        if steady
        else Unknown(text),
        repeatable=steady and facts["deterministic"],
        has_subquery=False,
    )


def _classes(frame: DataFrame) -> Any:
    """Our Java classes."""
    jvm: Any = frame.sparkSession._jvm
    return jvm.anabranch


def _beside_subqueries(frame: DataFrame) -> Iterator[Predicate]:
    """The conjuncts of the frame's condition that have no subquery and read no clock."""
    spark: Any = frame.sparkSession
    jvm = spark.sparkContext._jvm
    conditions = _classes(frame).ConditionJson
    subqueries = jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression
    filtered = frame._jdf.queryExecution().analyzed()
    waiting = [filtered.condition()]
    while waiting:
        part = waiting.pop()
        if part.nodeName() == "And":
            waiting += [part.left(), part.right()]
        elif not subqueries.hasSubquery(part) and not conditions.readsClock(part):
            alone = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(part, filtered.child())
            rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, alone)
            passed = json.loads(conditions.passed(rows.queryExecution().optimizedPlan()))
            yield from _predicates(passed, _classes(frame))


def _subqueries_show_their_tables(plan: Any) -> bool:
    """Whether every leaf of the plan's subqueries shows which table it reads."""
    subqueries = plan.subqueriesAll()
    for index in range(subqueries.size()):
        leaves = subqueries.apply(index).collectLeaves()
        if not all(_shows_its_table(leaves.apply(i)) for i in range(leaves.size())):
            return False
    return True


def _shows_its_table(leaf: Any) -> bool:
    name = leaf.nodeName()
    if name != "LogicalRelation" or leaf.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return name in _LEAVES_OF_FIXED_DATA
    # The leaf of a Delta table without a chosen version does not show the table's path.
    return not str(leaf.relation().location().toString()).startswith(_NO_VERSION_CHOSEN)


def empty_frame(spark: SparkSession, schema: StructType, alias: RowNames) -> DataFrame:
    """A frame with these columns and no rows, which the optimizer cannot see: it keeps all conditions in the plan."""
    visible = _nullable(visible_schema(schema))
    if isinstance(alias, BoundAttributes) and alias.metadata:
        visible = visible.add("_metadata", StructType.fromJson(json.loads(alias.metadata.dataType().json())))
    jvm: Any = spark._jvm
    return named(DataFrame(jvm.anabranch.ConditionJson.empty(spark._jsparkSession, visible.json()), spark), alias)


def _nullable(schema: StructType) -> StructType:
    """The schema with nullable columns: for others the optimizer drops conditions, without a change of meaning."""
    for field in schema.fields:
        field.nullable = True
    return schema


def passed_filters(frame: DataFrame) -> list[Predicate]:
    """The conditions of the filters between a frame and its `empty_frame`, as the optimizer has them."""
    classes = _classes(frame)
    return _predicates(json.loads(classes.ConditionJson.passed(frame._jdf.queryExecution().optimizedPlan())), classes)


def _predicates(passed: Iterable[Sequence[str]], classes: Any) -> list[Predicate]:
    """The predicates that `ConditionJson.java` lists."""
    predicates: list[Predicate] = []
    for kind, text in passed:
        if kind == "never":
            return [Truth(False)]
        predicates.append(from_catalyst(text, zones=zones_of(classes)) if kind == "filter" else Unknown(text))
    return predicates


def text_of(condition: Column | str) -> str:
    """The condition for people: as the user wrote it, or as PySpark shows a Column."""
    return condition if isinstance(condition, str) else str(condition).removeprefix("Column<'").removesuffix("'>")


class Scope(enum.Enum):
    """Whose columns a condition may name."""

    BOTH = "both"
    SOURCE = "source"
    TARGET = "target"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinKey:
    """Two values that are equal in all rows for which the condition is true."""

    target: Column
    """A value of `JoinScope.target`."""
    source: Column
    data_type: str
    """Spark's name for the type of both; empty where the types differ."""
    null_safe: bool
    column: str | None
    """The table's column, where the target value is a column and no other expression."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinCondition:
    """A condition of a MERGE, resolved by Spark's analyzer."""

    condition: Column | str
    """The condition for Spark; clock functions in a text are replaced by literals."""
    text: str
    """The condition for people and the log: as the user wrote it, where it was text."""
    repeatable: bool
    """Whether it has the same value for the same rows when it is evaluated again later."""
    of_target: tuple[Column, ...] = ()
    """Conditions on `JoinScope.target` that are true whenever this one is."""
    keys: tuple[JoinKey, ...] = ()
    target_columns: tuple[str, ...] | None = None
    """The table's columns that it reads, maybe more; None where that is not known."""


class JoinScope:
    """The columns of a table and of a source, as conditions see them."""

    def __init__(
        self,
        spark: SparkSession,
        source: DataFrame,
        *,
        table: str,
        schema: StructType,
        column_mapping: ColumnMappingMode,
        alias: RowNames,
        now_ms: int,
    ) -> None:
        self.target = empty_frame(spark, schema, alias)
        """An empty frame with the table's columns."""
        self.source = source
        self._spark = spark
        self._repeatable = not metadata_columns(alias)
        self._table = table
        self._schema = schema
        self._physical = physical_paths(schema, column_mapping)
        self._now_ms = now_ms

    def frame(self, scope: Scope) -> DataFrame:
        """A frame with the columns that a condition of the scope may name."""
        if scope is Scope.BOTH:
            return self._pairs
        return self.source if scope is Scope.SOURCE else self.target

    @functools.cached_property
    def _pairs(self) -> DataFrame:
        return self.target.join(self.source)

    def with_fixed_clock(self, value: Column | str) -> Column | str:
        """`value`, with literals for its clock functions where it is text."""
        if not isinstance(value, str):
            return value
        columns = {fold(name) for name in (*self._schema.fieldNames(), *self.source.columns)}
        return fix_clock(value, columns=columns, time_zone=session_zone(self._spark), now_ms=self._now_ms)

    def has_subquery(self, frame: DataFrame, scope: Scope) -> bool:
        """Whether one of the values that `frame` computes in the scope holds a subquery."""
        whole, without = (_subqueries(part) for part in (frame, self.frame(scope)))
        return whole > without

    def resolve_condition(self, condition: Column | str, scope: Scope, *, clause: str) -> JoinCondition:
        """The condition, resolved in its scope.

        Raises `NonDeterministicConditionError`, `SubqueryInConditionError`, and Spark's `AnalysisException` for a
        condition that cannot be resolved in its scope.
        """
        timed = self.with_fixed_clock(condition)
        text = text_of(condition)
        facts = {"table": self._table, "clause": clause, "expression": text}
        filtered = self.frame(scope).where(timed)
        jvm: Any = self._spark._jvm
        resolved = jvm.anabranch.JoinCondition(filtered._jdf, self.target._jdf, not isinstance(condition, str))
        described = json.loads(resolved.facts())
        if described["subquery"]:
            raise SubqueryInConditionError(**facts)
        if not described["deterministic"]:
            raise NonDeterministicConditionError(**facts)
        shown = text if isinstance(condition, str) else described["sql"]
        columns = tuple(described["columns"])
        if described["clock"]:
            # Clock functions of a Column are not replaced: their values change.
            return JoinCondition(condition=timed, text=shown, repeatable=False, target_columns=columns)
        return JoinCondition(
            condition=timed,
            text=shown,
            repeatable=self._repeatable,
            of_target=tuple(
                column_of(resolved.column(part["target"])) for part in described["parts"] if "source" not in part
            ),
            keys=tuple(_key(resolved, part) for part in described["parts"] if "source" in part),
            target_columns=columns,
        )

    def predicate(self, conditions: Sequence[Column]) -> Predicate:
        """A predicate in physical names: true whenever all these conditions on `target` are, maybe for more rows."""
        if not conditions:
            return TRUE
        return with_physical_columns(conjunction(passed_filters(self._filtered(conditions))), self._physical)

    def where(self, rows: DataFrame, conditions: Sequence[Column]) -> DataFrame:
        """The rows for which these conditions on `target` are true; `rows` begins with the table's columns."""
        if not conditions:
            return rows
        jvm: Any = self._spark._jvm
        filtered = self._filtered(conditions)
        return DataFrame(
            jvm.anabranch.PlanFunctions.filteredLike(rows._jdf, filtered._jdf, self.target._jdf), self._spark
        )

    def _filtered(self, conditions: Sequence[Column]) -> DataFrame:
        frame = self.target
        for condition in conditions:
            frame = frame.where(condition)
        return frame


def _key(resolved: Any, part: Mapping[str, Any]) -> JoinKey:
    """The key that a part of a `JoinCondition` of ours in the JVM describes."""
    return JoinKey(
        target=column_of(resolved.column(part["target"])),
        source=column_of(resolved.column(part["source"])),
        data_type=part["type"],
        null_safe=part["nullSafe"],
        column=part["column"],
    )


def _subqueries(frame: DataFrame) -> int:
    jvm: Any = frame.sparkSession._jvm
    return int(jvm.anabranch.PlanFunctions.subqueries(frame._jdf))
