"""Finding our own scans in the plan of a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import conjunction
from anabranch.schema.merging import visible_schema
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.engine import NEWEST_VERSION, OwnRead
from anabranch.spark.native.jvm_classes import column_of
from anabranch.spark.native.jvm_time_zones import zones_of

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
    the rows that pass, and on no others. In the optimized plan filters are as far down as Spark can prove it right.
    """
    execution = frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    wanted = sum(_is_of(location, table_root) for location in _locations(analyzed))
    if wanted and _tells_the_time(frame, analyzed):
        return None
    optimized = execution.optimizedPlan()
    nested = optimized.subqueriesAll()
    reader = _ReadsOfPlan(frame, schema)
    found = [
        reader.read(leaf, filters, row_by_row=row_by_row)
        for part in (optimized, *(nested.apply(i) for i in range(nested.size())))
        for leaf, filters, row_by_row in _scans(part, (), row_by_row=True)
        if _is_of(_location(leaf) or "", table_root)
    ]
    return found if len(found) == wanted else None


def _tells_the_time(frame: DataFrame, plan: Any) -> bool:
    """Whether the plan looks at the clock, which shows another time to each run of it."""
    jvm: Any = frame.sparkSession._jvm
    return bool(plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


def _scans(plan: Any, filters: tuple[Any, ...], *, row_by_row: bool) -> Iterator[tuple[Any, tuple[Any, ...], bool]]:
    """The relations below, with the filters right above each, and whether all above them works row by row.

    Filters above anything else may speak of other columns, and of rows that are more than those of the relation.
    """
    name = str(plan.nodeName())
    if name == "Filter":
        yield from _scans(plan.child(), (*filters, plan.condition()), row_by_row=row_by_row)
        return
    if _location(plan) is not None:
        yield plan, filters, row_by_row
    children = plan.children()
    for i in range(children.size()):
        yield from _scans(children.apply(i), (), row_by_row=row_by_row and name in _ROW_BY_ROW)


class _ReadsOfPlan:
    """Reads the filters above scans of one table."""

    def __init__(self, frame: DataFrame, schema: StructType) -> None:
        self._spark: Any = frame.sparkSession
        jvm: Any = self._spark._jvm
        self._jvm = jvm
        self._zones = zones_of(jvm.delta)
        self._schema = visible_schema(schema)
        self._types = {field.name: field.dataType.simpleString() for field in self._schema}

    def read(self, leaf: Any, filters: Sequence[Any], *, row_by_row: bool) -> OwnRead:
        known = [part for condition in filters for part in self._conjuncts(condition) if self._is_of_row(part)]
        predicate = conjunction(
            from_catalyst(self._jvm.delta.Conditions.json(part), zones=self._zones) for part in known
        )
        if not known or not row_by_row:
            return OwnRead(predicate=predicate)
        condition = known[0]
        for part in known[1:]:
            condition = self._jvm.org.apache.spark.sql.catalyst.expressions.And(condition, part)
        column = column_of(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(condition))
        return OwnRead(predicate=predicate, condition=column, names=self._names(leaf))

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
        # Spark may have taken fields that nobody asks for out of a struct: then the others stand at other places.
        # Some columns are ours, and say which rows of a file are hidden.
        columns = part.references().toSeq()
        asked = (columns.apply(i) for i in range(columns.size()))
        if not all(self._types.get(str(column.name())) == str(column.dataType().catalogString()) for column in asked):
            return False
        try:
            part.toJSON()
        except Py4JError:
            # Functions of the user, some of which cannot be written down.
            return False
        return True

    def _names(self, leaf: Any) -> BoundAttributes:
        """The scan's attributes for the table's columns. One that it does not read has one that nobody asks for."""
        output = leaf.output()
        scanned = {str(output.apply(i).name()): output.apply(i) for i in range(output.size())}
        jvm = self._jvm.org.apache.spark.sql
        fresh = jvm.catalyst.types.DataTypeUtils.toAttributes(jvm.types.DataType.fromJson(self._schema.json()))
        chosen = [scanned.get(name, fresh.apply(place)) for place, name in enumerate(self._schema.fieldNames())]
        return BoundAttributes(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(chosen))


def _is_of(location: str, table_root: str) -> bool:
    match = _DESCRIPTION.fullmatch(location)
    return match is not None and match[2] == table_root and match[1] != "past"
