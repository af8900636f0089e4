"""What a user's condition asks of a table, before it is asked.

Decides which files must be read, and whether the same question may be asked of other rows later: only then can single
rows decide a race.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import Predicate, Truth, Unknown, conjunction
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.merging import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames, metadata_named, named
from anabranch.spark.conditions.physical_predicates import PhysicalNames
from anabranch.spark.conditions.repeatable_rows import stop_clock
from anabranch.spark.gateway.jvm_time_zones import session_zone, zones_of

_TIME_CLASSES = ("CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentTimestampLike", "LocalTimestamp", "Now")
_NO_VERSION_CHOSEN = "delta: "
"""How the Java class `TableFiles` begins to describe itself."""
_KNOWN_LEAVES = frozenset(
    {"LogicalRelation", "HiveTableRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation"}
)
"""Rows of a checkpoint are an RDD's: they stand still, like the source of a MERGE."""
_ROW_BY_ROW = frozenset({"Project", "Filter", "ArrowEvalPython", "BatchEvalPython"})
"""Operators whose input rows are those of their output, or more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadCondition:
    """A condition on rows of a table, as far as it is understood."""

    condition: Column | str
    """To hand to Spark; the clock in it stands still where it is text."""
    text: str
    """For people and the log: as it was written, where it was text."""
    predicate: Predicate
    """In physical names. True for every row that satisfies the condition, maybe for more."""
    repeatable: bool
    """Whether it tells the same of the same row, asked again later."""
    has_subquery: bool
    """Whether it holds a subquery, which may read anything."""


def understood(
    spark: SparkSession,
    condition: Column | str,
    *,
    schema: StructType,
    column_mapping: ColumnMappingMode,
    alias: RowNames = None,
    now_ms: int,
    reads_table: Callable[[DataFrame], bool],
) -> ReadCondition:
    """What `condition` asks of rows of a table of this schema, which it may call `alias`.

    `reads_table` tells of a frame whether it reads rows of that table; asked of one that has the condition's
    subqueries. Raises Spark's `AnalysisException` for a condition that makes no sense for such rows.
    """
    names = PhysicalNames(schema, column_mapping)
    text = text_of(condition)
    asked: Column | str = condition
    if isinstance(condition, str):
        columns = {name.lower() for name in schema.fieldNames()}
        asked = stop_clock(condition, columns=columns, time_zone=session_zone(spark), now_ms=now_ms)
    frame = stand_in(spark, schema, alias).where(asked)
    found = _resolved(frame, names, asked=asked, text=text, reads_table=reads_table)
    return dataclasses.replace(found, repeatable=found.repeatable and not metadata_named(alias))


def has_subquery(frame: DataFrame) -> bool:
    """Whether an expression that `frame` computes holds a subquery."""
    return not frame._jdf.queryExecution().analyzed().subqueriesAll().isEmpty()


def subqueries_may_read(frame: DataFrame, reads_table: Callable[[DataFrame], bool]) -> bool:
    """Whether the subqueries of a frame that reads nothing else may read rows of a table. In doubt they may."""
    analyzed = frame._jdf.queryExecution().analyzed()
    return has_subquery(frame) and (not _reads_known_tables(analyzed) or reads_table(frame))


def _resolved(
    frame: DataFrame,
    names: PhysicalNames,
    *,
    asked: Column | str,
    text: str,
    reads_table: Callable[[DataFrame], bool],
) -> ReadCondition:
    execution = frame._jdf.queryExecution()
    resolved = execution.analyzed().condition()
    if _has_subquery(frame.sparkSession, resolved):
        # What a subquery asks of other tables stands still. Of this one, any row may matter to it.
        rest = Unknown(text, opaque=subqueries_may_read(frame, reads_table))
        beside = conjunction(_beside_subqueries(frame))
        return ReadCondition(
            condition=asked,
            text=text,
            predicate=names.of(conjunction([beside, rest])),
            repeatable=False,
            has_subquery=True,
        )
    # The clock in a Column goes on: between now and the job it may strike midnight.
    steady = not tells_the_time(resolved)
    return ReadCondition(
        condition=asked,
        text=text if isinstance(asked, str) else str(resolved.sql()),
        predicate=names.of(conjunction(passed_filters(frame.sparkSession, execution.optimizedPlan())))
        if steady
        else Unknown(text),
        repeatable=steady and bool(resolved.deterministic()),
        has_subquery=False,
    )


def _has_subquery(spark: SparkSession, expression: Any) -> bool:
    jvm: Any = spark.sparkContext._jvm
    return bool(jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(expression))


def _beside_subqueries(frame: DataFrame) -> Iterator[Predicate]:
    """What the parts of the frame's condition without a subquery say, each of which must be true."""
    spark: Any = frame.sparkSession
    jvm = spark.sparkContext._jvm
    filtered = frame._jdf.queryExecution().analyzed()
    waiting = [filtered.condition()]
    while waiting:
        part = waiting.pop()
        if part.nodeName() == "And":
            waiting += [part.left(), part.right()]
        elif not _has_subquery(spark, part) and not tells_the_time(part):
            alone = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(part, filtered.child())
            rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, alone)
            yield from passed_filters(spark, rows.queryExecution().optimizedPlan())


def _reads_known_tables(plan: Any) -> bool:
    """Whether every leaf of the plan's subqueries is of a kind that says what it reads."""
    subqueries = plan.subqueriesAll()
    for place in range(subqueries.size()):
        leaves = subqueries.apply(place).collectLeaves()
        if not all(_is_known(leaves.apply(at)) for at in range(leaves.size())):
            return False
    return True


def _is_known(leaf: Any) -> bool:
    name = leaf.nodeName()
    if name != "LogicalRelation" or leaf.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return name in _KNOWN_LEAVES
    # A Delta table of which no version has been chosen does not tell where it is.
    return not str(leaf.relation().location().toString()).startswith(_NO_VERSION_CHOSEN)


def stand_in(spark: SparkSession, schema: StructType, alias: RowNames) -> DataFrame:
    """No rows of these columns, of which the optimizer does not know that there are none."""
    empty: Any = spark.sparkContext.emptyRDD()
    visible = _nullable(visible_schema(schema))
    if isinstance(alias, BoundAttributes) and alias.metadata:
        visible = visible.add("_metadata", StructType.fromJson(json.loads(alias.metadata.dataType().json())))
    return named(spark.createDataFrame(empty, visible), alias)


def _nullable(schema: StructType) -> StructType:
    """A column that allows no nulls lets the optimizer drop conditions; what they mean is the same."""
    for field in schema.fields:
        field.nullable = True
    return schema


def passed_filters(spark: SparkSession, plan: Any) -> list[Predicate]:
    """The conditions that rows pass on their way up from the stand-in."""
    found: list[Predicate] = []
    while True:
        name = str(plan.nodeName())
        if name == "Filter":
            condition = plan.condition()
            found.append(_predicate(spark, condition))
        if name == "LocalRelation":
            return [Truth(False)]
        if plan.children().isEmpty():
            return found
        if name not in _ROW_BY_ROW:
            return [*found, Unknown(name)]
        plan = plan.children().apply(0)


def _predicate(spark: SparkSession, condition: Any) -> Predicate:
    try:
        jvm: Any = spark._jvm
        return from_catalyst(jvm.delta.Conditions.json(condition), zones=zones_of(jvm.delta))
    except Py4JError:
        # Some expressions, such as functions in Python, cannot be written down.
        return Unknown(str(condition.toString()))


def tells_the_time(expression: Any) -> bool:
    """Whether a resolved expression of the JVM reads the clock. In doubt it does."""
    try:
        nodes = expression.toJSON()
    except Py4JError:
        return True
    return any(f'expressions.{name}"' in nodes for name in _TIME_CLASSES)


def text_of(condition: Column | str) -> str:
    """For people: as it was written, or as PySpark shows it."""
    return condition if isinstance(condition, str) else str(condition).removeprefix("Column<'").removesuffix("'>")
