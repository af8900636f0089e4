"""Finds scans of Delta tables in the plan of a DataFrame, and the conditions under which their rows matter."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import conjunction
from anabranch.schema.schema_evolution import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.engine import NEWEST_VERSION, Match, OwnRead
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.spark.gateway.jvm_sessions import zones_of
from anabranch.spark.native.plan_joins import Joined, Joins, conjuncts, elements

_DESCRIPTION = re.compile(r"anabranch: version (\d+|past|newest) of (.*)", re.DOTALL)


def description_of(version: int | None, table_root: str) -> str:
    """The description of the file index of a scan, which `versions_read` parses.

    `anabranch.TableFiles` has the same description, with version `newest`, until a version is chosen.
    """
    return f"anabranch: version {'past' if version is None else version} of {table_root}"


def versions_read(frame: DataFrame, table_root: str) -> frozenset[int]:
    """The versions of a table that the frame reads, except by time travel.

    A write of such a frame to the same table is no blind append: its rows depend on the rows read. `NEWEST_VERSION` is
    a read whose version is chosen when the frame runs, not older than the one the caller has. Subqueries and cached
    frames are included; reads before a checkpoint of the frame are not in its plan.
    """
    versions = set()
    for location in _locations(frame.sparkSession._jvm, frame._jdf.queryExecution().analyzed()):
        match = _DESCRIPTION.fullmatch(location)
        if match is not None and match[2] == table_root and match[1] != "past":
            versions.add(NEWEST_VERSION if match[1] == "newest" else int(match[1]))
    return frozenset(versions)


def reads_table(jvm: Any, plan: Any, table_root: str) -> bool:
    """Whether a plan with chosen versions reads the newest version of a table, also in subqueries."""
    return any(_is_of(location, table_root) for location in _locations(jvm, plan))


def _locations(jvm: Any, plan: Any) -> list[str]:
    """The descriptions of the file indexes of the plan and its subqueries."""
    return str(jvm.anabranch.PlanFunctions.locations(plan)).split("\0")[:-1]


def own_reads(frame: DataFrame, table_root: str, schema: StructType) -> list[OwnRead] | None:
    """The reads that the frame makes of a table of this schema.

    None where that is not known and the frame may depend on any row: if not all scans are in the optimized plan, as
    with cached rows.

    A filter directly above a scan leaves rows out before any other operator, so the operators above depend only on rows
    that pass it, also those that count rows or take the first of them. In the optimized plan Spark has pushed filters
    down as far as is correct. A join may leave rows out, too, as NOT EXISTS does: those without a match on the other
    side.
    """
    spark, execution = frame.sparkSession, frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    expected = sum(_is_of(location, table_root) for location in _locations(spark._jvm, analyzed))
    if expected and _reads_clock(spark._jvm, analyzed):
        return None
    optimized = execution.optimizedPlan()
    nested = optimized.subqueriesAll()
    reader, joins = _ReadsOfPlan(spark, schema), _joins(spark._jvm, table_root)
    scans = [
        (leaf, above)
        for part in (optimized, *(nested.apply(i) for i in range(nested.size())))
        for leaf, above in _scans(part, Above(), joins)
        if _is_of(joins.location(leaf) or "", table_root)
    ]
    return list(reader.distinct(scans)) if len(scans) == expected else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryRead:
    """What a query in a transaction of several statements reads of one table."""

    table_root: str
    version: int
    read: OwnRead | None
    """None where it may depend on any row."""


def reads_of_query(
    spark: SparkSession, plan: Any, transaction: str, schema_of: Callable[[str, int], StructType]
) -> list[QueryRead]:
    """The reads that an optimized plan without its subqueries makes in the transaction of that key.

    `schema_of` returns the schema of a table, by root and version.
    """
    jvm: Any = spark._jvm
    reads_clock = _reads_clock(jvm, plan)
    reads = []
    for root in dict.fromkeys(match[2] for match in map(_DESCRIPTION.fullmatch, _locations(jvm, plan)) if match):
        joins = _joins(jvm, root)
        for leaf, above in _scans(plan, Above(), joins):
            match = _DESCRIPTION.fullmatch(joins.location(leaf) or "")
            if match is None or match[2] != root or not match[1].isdecimal():
                continue
            if jvm.anabranch.Transactions.key(leaf) != transaction:
                continue
            version = int(match[1])
            read = None if reads_clock else _ReadsOfPlan(spark, schema_of(root, version)).read(leaf, above)
            reads.append(QueryRead(table_root=root, version=version, read=read))
    return reads


def _reads_clock(jvm: Any, plan: Any) -> bool:
    """Whether the plan reads the clock, so that each run may have other rows."""
    return bool(plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Above:
    """The operators above an operator, as far as they decide which of its rows matter."""

    filters: tuple[Any, ...] = ()
    """The conditions of filters directly above."""
    joins: tuple[Joined, ...] = ()


def _scans(plan: Any, above: Above, joins: Joins) -> Iterator[tuple[Any, Above]]:
    """The relations below a plan, each with the operators above it.

    Filters that are not directly above a relation may be about other columns, or about rows of another.
    """
    name = str(plan.nodeName())
    if name == "Filter":
        filtered = dataclasses.replace(above, filters=(*above.filters, plan.condition()))
        yield from _scans(plan.child(), filtered, joins)
        return
    if joins.location(plan) is not None:
        yield plan, above
    children = plan.children()
    for side in range(children.size()):
        below = Above(joins=joins.below(plan, side, above.joins))
        yield from _scans(children.apply(side), below, joins)


class _ReadsOfPlan:
    """Makes an `OwnRead` of a scan of one table and the operators above it."""

    def __init__(self, spark: Any, schema: StructType) -> None:
        self._spark: Any = spark
        jvm: Any = self._spark._jvm
        self._jvm = jvm
        self._zones = zones_of(jvm.anabranch)
        self._schema = visible_schema(schema)
        self._types = {field.name: field.dataType.simpleString() for field in self._schema}

    def distinct(self, scans: Iterable[tuple[Any, Above]]) -> Iterator[OwnRead]:
        """The reads, one for all scans on whose same rows the query depends: each is evaluated for later commits."""
        earlier: list[Any] = []
        for leaf, above in scans:
            conditions, matches = self._conditions(above), self._matches(above, leaf)
            others, of_matches = [other for other, _ in matches], [condition for _, condition in matches]
            filters = self._all(conditions) if conditions else None
            depends = self._jvm.anabranch.PlanFunctions.dependence(leaf, filters, others, of_matches)
            if not any(depends.equals(other) for other in earlier):
                earlier.append(depends)
                yield self.read(leaf, above)

    def read(self, leaf: Any, above: Above) -> OwnRead:
        conditions = self._conditions(above)
        predicate = conjunction(
            from_catalyst(self._jvm.anabranch.ConditionJson.json(part), zones=self._zones) for part in conditions
        )
        return OwnRead(
            predicate=predicate,
            condition=self._column(self._all(conditions)) if conditions else None,
            matches=tuple(
                Match(rows=self._frame(other), condition=self._column(condition))
                for other, condition in self._matches(above, leaf)
            ),
            names=self._names(leaf),
        )

    def _conditions(self, above: Above) -> list[Any]:
        return [part for condition in above.filters for part in conjuncts(condition) if self._is_of_row(part)]

    def _matches(self, above: Above, leaf: Any) -> list[tuple[Any, Any]]:
        """What the relation is joined with and on which condition, as far as that is about its whole columns."""
        matches = []
        for join in above.joins:
            conditions = [part for part in join.conditions if self._is_of_relation(part, join.other, leaf)]
            if conditions:
                matches.append((join.other, self._all(conditions)))
        return matches

    def _frame(self, plan: Any) -> DataFrame:
        frames = self._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(frames.ofRows(self._spark._jsparkSession, plan), self._spark)

    def _is_of_relation(self, condition: Any, other: Any, leaf: Any) -> bool:
        """Whether the condition reads whole columns of the relation and of the other side, and no others."""
        theirs, ours = other.outputSet(), leaf.outputSet()
        columns = [column for column in elements(condition.references()) if not theirs.contains(column)]
        return all(ours.contains(column) for column in columns) and self._are_whole(columns)

    def _column(self, expression: Any) -> Column:
        return column_of(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _all(self, conditions: Iterable[Any]) -> Any:
        return functools.reduce(self._jvm.org.apache.spark.sql.catalyst.expressions.And, conditions)

    def _is_of_row(self, part: Any) -> bool:
        """Whether the conjunct has the same value for the same row of the table later. Without it more rows matter."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        if not part.deterministic() or expressions.SubqueryExpression.hasSubquery(part):
            return False
        if not self._are_whole(elements(part.references())):
            return False
        try:
            part.toJSON()
        except Py4JError:
            # Some functions of users have no JSON.
            return False
        return True

    def _are_whole(self, columns: Iterable[Any]) -> bool:
        """Whether these are columns of the table with their whole types.

        Spark may have removed unused fields from a struct, so that the others have other positions. Some columns are
        our own, and are about hidden rows of a file.
        """
        return all(self._types.get(str(column.name())) == str(column.dataType().catalogString()) for column in columns)

    def _names(self, leaf: Any) -> BoundAttributes:
        """The scan's attributes for the table's columns. A column that it does not read gets a new attribute."""
        output = leaf.output()
        scanned = {str(output.apply(i).name()): output.apply(i) for i in range(output.size())}
        jvm = self._jvm.org.apache.spark.sql
        fresh = jvm.catalyst.types.DataTypeUtils.toAttributes(jvm.types.DataType.fromJson(self._schema.json()))
        chosen = [scanned.get(name, fresh.apply(index)) for index, name in enumerate(self._schema.fieldNames())]
        return BoundAttributes(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(chosen))


def _joins(jvm: Any, table_root: str) -> Joins:
    def is_fixed(location: str) -> bool:
        match = _DESCRIPTION.fullmatch(location)
        return match is not None and match[1] != "newest" and not _is_of(location, table_root)

    return Joins(jvm, is_fixed)


def _is_of(location: str, table_root: str) -> bool:
    match = _DESCRIPTION.fullmatch(location)
    return match is not None and match[2] == table_root and match[1] != "past"
