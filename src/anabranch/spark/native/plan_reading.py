"""Finds scans of Delta tables in the plan of a DataFrame, and the conditions under which their rows matter."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import conjunction
from anabranch.schema.merging import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.engine import NEWEST_VERSION, Match, OwnRead
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.spark.gateway.jvm_time_zones import zones_of

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


def _location(jvm: Any, operator: Any) -> str | None:
    """The description of the file index of a relation; None for other operators."""
    location: str | None = jvm.anabranch.PlanFunctions.location(operator)
    return location


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
    reader, joins = _ReadsOfPlan(spark, schema), _Joins(spark._jvm, table_root)
    reads = [
        reader.read(leaf, above)
        for part in (optimized, *(nested.apply(i) for i in range(nested.size())))
        for leaf, above in _scans(part, Above(), joins)
        if _is_of(_location(joins.jvm, leaf) or "", table_root)
    ]
    return reads if len(reads) == expected else None


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
        joins = _Joins(jvm, root)
        for leaf, above in _scans(plan, Above(), joins):
            match = _DESCRIPTION.fullmatch(_location(jvm, leaf) or "")
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
class _Joined:
    """A join above a scan. Only rows of the scan with a match on the other side affect its result."""

    other: Any
    """The plan of the other side."""
    condition: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Above:
    """The operators above an operator, as far as they decide which of its rows matter."""

    filters: tuple[Any, ...] = ()
    """The conditions of filters directly above."""
    joins: tuple[_Joined, ...] = ()


def _scans(plan: Any, above: Above, joins: _Joins) -> Iterator[tuple[Any, Above]]:
    """The relations below a plan, each with the operators above it.

    Filters that are not directly above a relation may be about other columns, or about rows of another.
    """
    name = str(plan.nodeName())
    if name == "Filter":
        filtered = dataclasses.replace(above, filters=(*above.filters, plan.condition()))
        yield from _scans(plan.child(), filtered, joins)
        return
    if _location(joins.jvm, plan) is not None:
        yield plan, above
    children = plan.children()
    for side in range(children.size()):
        below = Above(joins=joins.below(plan, side, above.joins))
        yield from _scans(children.apply(side), below, joins)


_SIDES_THAT_MUST_MATCH = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (1,),
    "RightOuter": (0,),
    "LeftSemi": (0, 1),
    "LeftAnti": (1,),
    "ExistenceJoin": (1,),
}
"""By kind of join the sides whose rows affect the result only if they match a row of the other side."""
_REPEATABLE = frozenset(
    {
        "Project",
        "Filter",
        "Join",
        "Union",
        "Generate",
        "Sort",
        "Repartition",
        "RepartitionByExpression",
        "SubqueryAlias",
        "ResolvedHint",
        "LocalRelation",
        "Range",
        "OneRowRelation",
    }
)
"""Operators of a plan that gives the same rows each time. The rows of a `LIMIT`, or of other files, may differ."""


class _Joins:
    """Finds joins that decide which rows of one table matter."""

    def __init__(self, jvm: Any, table_root: str) -> None:
        self.jvm = jvm
        self._table_root = table_root
        patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        self._user_functions = [patterns.SCALA_UDF(), patterns.PYTHON_UDF()]

    def below(self, plan: Any, side: int, above: Sequence[_Joined]) -> tuple[_Joined, ...]:
        """The joins, of the operator and of those above it, that decide on rows of one of its children."""
        name = str(plan.nodeName())
        if name == "Project":
            below = ((join.other, self.jvm.anabranch.PlanFunctions.below(join.condition, plan)) for join in above)
            return tuple(
                _Joined(other=other, condition=condition)
                for other, condition in below
                if condition is not None and self._is_repeatable_condition(condition)
            )
        if name != "Join" or side not in _SIDES_THAT_MUST_MATCH.get(_kind_of_join(plan), ()):
            return ()
        other, condition = plan.children().apply(1 - side), plan.condition()
        if (
            condition.isEmpty()
            or not self._is_repeatable_condition(condition.get())
            or not self._is_repeatable_plan(other)
        ):
            return ()
        return (_Joined(other=other, condition=condition.get()),)

    def _is_repeatable_condition(self, condition: Any) -> bool:
        """Whether the condition has the same value for the same rows when it is evaluated again later."""
        if not condition.deterministic() or any(condition.containsPattern(pattern) for pattern in self._user_functions):
            return False
        return not self.jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(condition)

    def _is_repeatable_plan(self, plan: Any) -> bool:
        """Whether the plan gives the same rows each time, and does not read the table itself.

        A new row of the table may match another new one, which an older state of the other side does not have.
        """
        if not plan.deterministic() or not plan.subqueriesAll().isEmpty():
            return False
        if any(plan.containsPattern(pattern) for pattern in self._user_functions):
            return False
        return all(self._is_repeatable_node(node) for node in _nodes(plan))

    def _is_repeatable_node(self, node: Any) -> bool:
        location = _location(self.jvm, node)
        if location is None:
            return str(node.nodeName()) in _REPEATABLE
        match = _DESCRIPTION.fullmatch(location)
        return match is not None and match[1] != "newest" and not _is_of(location, self._table_root)


def _kind_of_join(join: Any) -> str:
    return str(join.joinType().getClass().getSimpleName()).rstrip("$")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


class _ReadsOfPlan:
    """Makes an `OwnRead` of a scan of one table and the operators above it."""

    def __init__(self, spark: Any, schema: StructType) -> None:
        self._spark: Any = spark
        jvm: Any = self._spark._jvm
        self._jvm = jvm
        self._zones = zones_of(jvm.anabranch)
        self._schema = visible_schema(schema)
        self._types = {field.name: field.dataType.simpleString() for field in self._schema}

    def read(self, leaf: Any, above: Above) -> OwnRead:
        conjuncts = [
            part for condition in above.filters for part in self._conjuncts(condition) if self._is_of_row(part)
        ]
        predicate = conjunction(
            from_catalyst(self._jvm.anabranch.ConditionJson.json(part), zones=self._zones) for part in conjuncts
        )
        condition = None
        for part in conjuncts:
            both = self._jvm.org.apache.spark.sql.catalyst.expressions.And
            condition = part if condition is None else both(condition, part)
        return OwnRead(
            predicate=predicate,
            condition=None if condition is None else self._column(condition),
            matches=tuple(self._match(join) for join in above.joins if self._is_of_relation(join, leaf)),
            names=self._names(leaf),
        )

    def _is_of_relation(self, joined: _Joined, leaf: Any) -> bool:
        """Whether the join's condition reads whole columns of the relation and of the other side, and no others."""
        theirs, ours = joined.other.outputSet(), leaf.outputSet()
        columns = [column for column in _elements(joined.condition.references()) if not theirs.contains(column)]
        return all(ours.contains(column) for column in columns) and self._are_whole(columns)

    def _match(self, joined: _Joined) -> Match:
        sessions = self._jvm.org.apache.spark.sql.classic.Dataset
        rows = DataFrame(sessions.ofRows(self._spark._jsparkSession, joined.other), self._spark)
        return Match(rows=rows, condition=self._column(joined.condition))

    def _column(self, expression: Any) -> Column:
        return column_of(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _conjuncts(self, condition: Any) -> Iterator[Any]:
        waiting = [condition]
        while waiting:
            part = waiting.pop()
            if part.nodeName() == "And":
                waiting += [part.left(), part.right()]
            else:
                yield part

    def _is_of_row(self, part: Any) -> bool:
        """Whether the conjunct has the same value for the same row of the table later. Without it more rows matter."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        if not part.deterministic() or expressions.SubqueryExpression.hasSubquery(part):
            return False
        if not self._are_whole(_elements(part.references())):
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


def _elements(attributes: Any) -> Iterator[Any]:
    """The attributes of an `AttributeSet`."""
    columns = attributes.toSeq()
    return (columns.apply(index) for index in range(columns.size()))


def _is_of(location: str, table_root: str) -> bool:
    match = _DESCRIPTION.fullmatch(location)
    return match is not None and match[2] == table_root and match[1] != "past"
