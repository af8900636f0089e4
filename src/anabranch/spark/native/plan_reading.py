"""Finding our own scans in the plan of a DataFrame."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import conjunction
from anabranch.schema.merging import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.engine import NEWEST_VERSION, Match, OwnRead
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.spark.gateway.jvm_time_zones import zones_of

_ROW_BY_ROW = frozenset(
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
        "ArrowEvalPython",
        "BatchEvalPython",
    }
)
"""Operators that make their rows of single rows, or pairs of rows: not of how many there are, nor in which order."""
_DESCRIPTION = re.compile(r"anabranch: version (\d+|past|newest) of (.*)", re.DOTALL)


def description_of(version: int | None, table_root: str) -> str:
    """How the file index of a scan describes itself; `versions_read` reads it back.

    `delta.TableFiles` describes itself in the same way, as of version `newest`, until a version is chosen.
    """
    return f"anabranch: version {'past' if version is None else version} of {table_root}"


def versions_read(frame: DataFrame, table_root: str) -> frozenset[int]:
    """Which versions of a table the frame reads, other than by time travel.

    A write of such a frame to the same table is no blind append: its rows depend on what it read. `NEWEST_VERSION`
    stands for a read whose version is chosen when the frame runs: none older than what the caller has seen. Subqueries
    and cached frames count; what went through a checkpoint does not show.
    """
    found = set()
    for location in _locations(frame._jdf.queryExecution().analyzed()):
        match = _DESCRIPTION.fullmatch(location)
        if match is not None and match[2] == table_root and match[1] != "past":
            found.add(NEWEST_VERSION if match[1] == "newest" else int(match[1]))
    return frozenset(found)


def reads_table(plan: Any, table_root: str) -> bool:
    """Whether a plan of which versions are chosen reads the newest version of a table, subqueries included."""
    return any(_is_of(location, table_root) for location in _locations(plan))


def _locations(plan: Any) -> Iterator[str]:
    """What the file indexes of the plan, its subqueries included, say of themselves."""
    nested = plan.subqueriesAll()
    for part in (plan, *(nested.apply(i) for i in range(nested.size()))):
        leaves = part.collectLeaves()
        for i in range(leaves.size()):
            location = _location(leaves.apply(i))
            if location is not None:
                yield location


def _location(leaf: Any) -> str | None:
    """What the file index of a relation says of itself; None for other operators."""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = leaf.relation()
    return str(relation.location().toString()) if relation.getClass().getSimpleName() == "HadoopFsRelation" else None


def own_reads(frame: DataFrame, table_root: str, schema: StructType) -> list[OwnRead] | None:
    """What the frame asks of a table of this schema, one entry for each such read.

    None where that cannot be told, and it may depend on any row: where scans are not all found in the plan that Spark
    made, as behind cached rows.

    A filter right above a scan leaves rows out before anything else sees them, so whatever stands above it depends on
    the rows that pass, and on no others. In the optimized plan filters are as far down as Spark can prove it right. A
    join may leave rows out, too, as NOT EXISTS does: those to which no row of the other side belongs.
    """
    execution = frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    wanted = sum(_is_of(location, table_root) for location in _locations(analyzed))
    if wanted and _tells_the_time(frame, analyzed):
        return None
    optimized = execution.optimizedPlan()
    nested = optimized.subqueriesAll()
    reader, joins = _ReadsOfPlan(frame, schema), _Joins(frame.sparkSession._jvm, table_root)
    found = [
        reader.read(leaf, above)
        for part in (optimized, *(nested.apply(i) for i in range(nested.size())))
        for leaf, above in _scans(part, Above(), joins)
        if _is_of(_location(leaf) or "", table_root)
    ]
    return found if len(found) == wanted else None


def _tells_the_time(frame: DataFrame, plan: Any) -> bool:
    """Whether the plan looks at the clock, which shows another time to each run of it."""
    jvm: Any = frame.sparkSession._jvm
    return bool(plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Joined:
    """A join above a scan, of which no row of the scan gets through that no row of the other side belongs to."""

    other: Any
    """The plan of the other side."""
    condition: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Above:
    """What stands above an operator, as far as it says which of the rows below count."""

    filters: tuple[Any, ...] = ()
    """Conditions right above."""
    joins: tuple[_Joined, ...] = ()
    row_by_row: bool = True
    """Whether all above works row by row."""


def _scans(plan: Any, above: Above, joins: _Joins) -> Iterator[tuple[Any, Above]]:
    """The relations below, with what stands above each.

    Filters above anything else may speak of other columns, and of rows that are more than those of the relation.
    """
    name = str(plan.nodeName())
    if name == "Filter":
        here = dataclasses.replace(above, filters=(*above.filters, plan.condition()))
        yield from _scans(plan.child(), here, joins)
        return
    if _location(plan) is not None:
        yield plan, above
    children = plan.children()
    row_by_row = above.row_by_row and name in _ROW_BY_ROW
    for place in range(children.size()):
        below = Above(joins=joins.below(plan, place, above.joins), row_by_row=row_by_row)
        yield from _scans(children.apply(place), below, joins)


_SIDES_THAT_MUST_MATCH = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (1,),
    "RightOuter": (0,),
    "LeftSemi": (0, 1),
    "LeftAnti": (1,),
    "ExistenceJoin": (1,),
}
"""By kind of join the sides of which it takes no row that no row of the other side belongs to."""
_STANDS_STILL = (_ROW_BY_ROW - {"ArrowEvalPython", "BatchEvalPython"}) | {"LocalRelation", "Range", "OneRowRelation"}
"""Operators of a plan that gives the same rows again. What a `LIMIT` takes, or a file of others holds, may differ."""


class _Joins:
    """Finds what joins say of the rows of one table."""

    def __init__(self, jvm: Any, table_root: str) -> None:
        self._jvm = jvm
        self._table_root = table_root
        patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        self._of_user = [patterns.SCALA_UDF(), patterns.PYTHON_UDF()]

    def below(self, plan: Any, place: int, above: Sequence[_Joined]) -> tuple[_Joined, ...]:
        """What the operator, and those above it, say of the rows of one of its children."""
        name = str(plan.nodeName())
        if name == "Project":
            below = ((each.other, self._jvm.delta.Plans.below(each.condition, plan)) for each in above)
            return tuple(
                _Joined(other=other, condition=condition)
                for other, condition in below
                if condition is not None and self._can_be_asked(condition)
            )
        if name != "Join" or place not in _SIDES_THAT_MUST_MATCH.get(_kind_of_join(plan), ()):
            return ()
        other, condition = plan.children().apply(1 - place), plan.condition()
        if condition.isEmpty() or not self._can_be_asked(condition.get()) or not self._stands_still(other):
            return ()
        return (_Joined(other=other, condition=condition.get()),)

    def _can_be_asked(self, condition: Any) -> bool:
        """Whether it tells the same of the same rows, asked again later."""
        if not condition.deterministic() or any(condition.containsPattern(pattern) for pattern in self._of_user):
            return False
        return not self._jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(condition)

    def _stands_still(self, plan: Any) -> bool:
        """Whether the plan gives the same rows whenever it runs, and reads nothing of the table itself.

        A new row of the table may belong to another new one, which the other side, as it was, does not have.
        """
        if not plan.deterministic() or not plan.subqueriesAll().isEmpty():
            return False
        if any(plan.containsPattern(pattern) for pattern in self._of_user):
            return False
        return all(self._is_still(node) for node in _nodes(plan))

    def _is_still(self, node: Any) -> bool:
        location = _location(node)
        if location is None:
            return str(node.nodeName()) in _STANDS_STILL
        match = _DESCRIPTION.fullmatch(location)
        return match is not None and match[1] != "newest" and not _is_of(location, self._table_root)


def _kind_of_join(join: Any) -> str:
    return str(join.joinType().getClass().getSimpleName()).rstrip("$")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for place in range(children.size()):
        yield from _nodes(children.apply(place))


class _ReadsOfPlan:
    """Reads what stands above scans of one table."""

    def __init__(self, frame: DataFrame, schema: StructType) -> None:
        self._spark: Any = frame.sparkSession
        jvm: Any = self._spark._jvm
        self._jvm = jvm
        self._zones = zones_of(jvm.delta)
        self._schema = visible_schema(schema)
        self._types = {field.name: field.dataType.simpleString() for field in self._schema}

    def read(self, leaf: Any, above: Above) -> OwnRead:
        known = [part for condition in above.filters for part in self._conjuncts(condition) if self._is_of_row(part)]
        predicate = conjunction(
            from_catalyst(self._jvm.delta.Conditions.json(part), zones=self._zones) for part in known
        )
        if not above.row_by_row:
            return OwnRead(predicate=predicate)
        condition = None
        for part in known:
            both = self._jvm.org.apache.spark.sql.catalyst.expressions.And
            condition = part if condition is None else both(condition, part)
        return OwnRead(
            predicate=predicate,
            row_by_row=True,
            condition=None if condition is None else self._column(condition),
            matches=tuple(self._match(each) for each in above.joins if self._says_of_row(each, leaf)),
            names=self._names(leaf),
        )

    def _says_of_row(self, joined: _Joined, leaf: Any) -> bool:
        """Whether it can be asked of a row of the relation."""
        theirs, ours = joined.other.outputSet(), leaf.outputSet()
        columns = [each for each in _elements(joined.condition.references()) if not theirs.contains(each)]
        return all(ours.contains(each) for each in columns) and self._are_whole(columns)

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
        """Whether it tells the same of the same row of the table, asked again later. Without it more rows count."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        if not part.deterministic() or expressions.SubqueryExpression.hasSubquery(part):
            return False
        if not self._are_whole(_elements(part.references())):
            return False
        try:
            part.toJSON()
        except Py4JError:
            # Functions of the user, some of which cannot be written down.
            return False
        return True

    def _are_whole(self, columns: Iterable[Any]) -> bool:
        """Whether they are columns of the table, as it has them.

        Spark may have taken fields that nobody asks for out of a struct: then the others stand at other places. Some
        columns are ours, and say which rows of a file are hidden.
        """
        return all(self._types.get(str(each.name())) == str(each.dataType().catalogString()) for each in columns)

    def _names(self, leaf: Any) -> BoundAttributes:
        """The scan's attributes for the table's columns. One that it does not read has one that nobody asks for."""
        output = leaf.output()
        scanned = {str(output.apply(i).name()): output.apply(i) for i in range(output.size())}
        jvm = self._jvm.org.apache.spark.sql
        fresh = jvm.catalyst.types.DataTypeUtils.toAttributes(jvm.types.DataType.fromJson(self._schema.json()))
        chosen = [scanned.get(name, fresh.apply(place)) for place, name in enumerate(self._schema.fieldNames())]
        return BoundAttributes(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(chosen))


def _elements(attributes: Any) -> Iterator[Any]:
    """Of an `AttributeSet`."""
    columns = attributes.toSeq()
    return (columns.apply(place) for place in range(columns.size()))


def _is_of(location: str, table_root: str) -> bool:
    match = _DESCRIPTION.fullmatch(location)
    return match is not None and match[2] == table_root and match[1] != "past"
