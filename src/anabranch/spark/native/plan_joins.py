"""Joins of a plan that decide which rows of one table matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

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
_SIDES_WITHOUT_NEW_VALUES = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "RightOuter": (1,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
    "ExistenceJoin": (0,),
}
"""By kind of join the sides of which the result has rows, without NULL for those that have no match."""
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
_ROWS_OF_THE_CHILD = frozenset(
    {
        "Filter",
        "Sort",
        "Window",
        "WindowGroupLimit",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Generate",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
    }
)
"""Operators with rows of their child, with further columns or some rows left out, but without other values."""
_EXACT_TYPES = frozenset(
    {"tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"}
)
"""Types in which equal values are the same, so that a group has one value. Zeros of `double` and collated strings may
differ and be equal."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """A join above a scan. Only rows of the scan with a match on the other side affect its result."""

    other: Any
    """A plan that has every row of the other side, in whatever state the table is; maybe more rows."""
    conditions: tuple[Any, ...]
    """A match satisfies all of these."""


class Joins:
    """Finds joins that decide which rows of one table matter."""

    def __init__(self, jvm: Any, is_fixed: Callable[[str], bool]) -> None:
        """`is_fixed` says of the location of a scan whether it gives the same rows again, whatever the table has."""
        self._functions = jvm.anabranch.PlanFunctions
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._is_fixed = is_fixed
        patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        self._user_functions = [patterns.SCALA_UDF(), patterns.PYTHON_UDF()]

    def location(self, operator: Any) -> str | None:
        """The description of the file index of a relation; None for other operators."""
        location: str | None = self._functions.location(operator)
        return location

    def below(self, plan: Any, side: int, above: Sequence[Joined]) -> tuple[Joined, ...]:
        """The joins, of the operator and of those above it, that decide on rows of one of its children."""
        name = str(plan.nodeName())
        if name in ("Project", "Union"):
            columns = plan.projectList() if name == "Project" else self._functions.columns(plan, side)
            passed = (Joined(other=join.other, conditions=self._passed(join.conditions, columns)) for join in above)
            return tuple(join for join in passed if join.conditions)
        if name != "Join":
            return ()
        kind, child = _kind_of_join(plan), plan.children().apply(side)
        if side in _SIDES_THAT_MUST_MATCH.get(kind, ()) and plan.condition().isDefined():
            conditions = tuple(filter(self._is_repeatable_condition, conjuncts(plan.condition().get())))
            joined = self._widened(plan.children().apply(1 - side), child.outputSet(), conditions)
            if joined:
                return joined
        if side not in _SIDES_WITHOUT_NEW_VALUES.get(kind, ()):
            return ()
        # A row of this side decides only on rows of the result that have its values.
        passed = (
            Joined(other=join.other, conditions=self._within(join.conditions, join.other.outputSet(), child))
            for join in above
        )
        return tuple(join for join in passed if join.conditions)

    def _widened(self, other: Any, ours: Any, conditions: tuple[Any, ...]) -> tuple[Joined, ...]:
        """The join, of which the other side has more rows where it may differ when it is read again.

        Operators are left out as long as their result has no other values than their child in the columns of the
        conditions, and conditions where it has. So a table that is joined with what depends on itself is judged by
        what is below, such as the keys of a batch: no row of the table, old or new, that matches none of these can
        match what is made of them. `ours` are the columns on the side of the scan.
        """
        while conditions and not self._is_repeatable_plan(other):
            below = self._child(other, ours, conditions)
            if below is None:
                return ()
            other, conditions = below
        return (Joined(other=other, conditions=conditions),) if conditions else ()

    def _child(self, other: Any, ours: Any, conditions: Sequence[Any]) -> tuple[Any, tuple[Any, ...]] | None:
        """A child of an operator and the conditions on its rows; None if the operator makes values of its own."""
        name, children = str(other.nodeName()), other.children()
        if name == "Join":
            sides = _SIDES_WITHOUT_NEW_VALUES.get(_kind_of_join(other), ())
            inputs = [(children.apply(side), self._within(conditions, ours, children.apply(side))) for side in sides]
            return max(inputs, key=lambda side: len(side[1]), default=None)
        if name == "Project":
            return other.child(), self._passed(conditions, other.projectList())
        if name == "Aggregate" and not other.groupingExpressions().isEmpty():
            made = self._passed(conditions, other.aggregateExpressions())
            child = other.child()
            return child, tuple(part for part in self._within(made, ours, child) if self._is_exact(part, child))
        if name in _ROWS_OF_THE_CHILD:
            return other.child(), self._within(conditions, ours, other.child())
        return None

    def _passed(self, conditions: Iterable[Any], columns: Any) -> tuple[Any, ...]:
        """The conditions on the columns as ones on what the columns are made of; without those that may differ."""
        below = (self._functions.below(condition, columns) for condition in conditions)
        return tuple(part for part in below if part is not None and self._is_repeatable_condition(part))

    @staticmethod
    def _within(conditions: Iterable[Any], ours: Any, plan: Any) -> tuple[Any, ...]:
        """The conditions that read only these columns and those of the plan."""
        theirs = plan.outputSet()
        return tuple(
            part
            for part in conditions
            if all(ours.contains(column) or theirs.contains(column) for column in elements(part.references()))
        )

    @staticmethod
    def _is_exact(condition: Any, plan: Any) -> bool:
        theirs = plan.outputSet()
        read = (column for column in elements(condition.references()) if theirs.contains(column))
        types = (str(column.dataType().catalogString()) for column in read)
        return all(name in _EXACT_TYPES or name.startswith("decimal(") for name in types)

    def _is_repeatable_condition(self, condition: Any) -> bool:
        """Whether the condition has the same value for the same rows when it is evaluated again later."""
        if not condition.deterministic() or any(condition.containsPattern(pattern) for pattern in self._user_functions):
            return False
        return not self._expressions.SubqueryExpression.hasSubquery(condition)

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
        location = self.location(node)
        if location is not None:
            return self._is_fixed(location)
        return str(node.nodeName()) in _REPEATABLE or bool(self._functions.isCheckpoint(node))


def conjuncts(condition: Any) -> Iterator[Any]:
    """The parts of a condition that must all be true."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.nodeName() == "And":
            waiting += [part.left(), part.right()]
        else:
            yield part


def elements(attributes: Any) -> Iterator[Any]:
    """The attributes of an `AttributeSet`."""
    columns = attributes.toSeq()
    return (columns.apply(index) for index in range(columns.size()))


def _kind_of_join(join: Any) -> str:
    return str(join.joinType().getClass().getSimpleName()).rstrip("$")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
