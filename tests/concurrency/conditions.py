"""Conditions on rows of two columns, as Python and as predicates for transactions."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pyspark.sql.types import LongType

from anabranch.predicates.expressions import TRUE, Column, Comparison, Literal, Operator, Predicate, Unknown


class Row(NamedTuple):
    """One row. `v` may be NULL."""

    k: int
    v: int | None


OPERATORS: dict[str, tuple[Callable[[int, int], bool], Operator]] = {
    "=": (operator.eq, Operator.EQ),
    "<": (operator.lt, Operator.LT),
    ">=": (operator.ge, Operator.GE),
}


@dataclasses.dataclass(frozen=True)
class Where:
    """`column op value`, or every row."""

    column: str = ""
    op: str = "="
    value: int = 0
    is_predicate: bool = True
    """Whether transactions get the condition as a predicate. If not, they can only evaluate it for rows."""

    def __call__(self, row: Row) -> bool:
        if not self.column:
            return True
        value = getattr(row, self.column)
        return value is not None and OPERATORS[self.op][0](value, self.value)

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value}" if self.column else "true"

    @property
    def predicate(self) -> Predicate:
        if not self.column:
            return TRUE
        if not self.is_predicate:
            return Unknown("f(k, v)", (Column(("k",)), Column(("v",))))
        return Comparison(OPERATORS[self.op][1], Column((self.column,)), Literal(self.value, LongType()))


EVERY = Where()


@dataclasses.dataclass(frozen=True)
class KeyIn:
    """The rows that a MERGE finds in its source, or to which a row of other tables belongs."""

    keys: frozenset[int]
    where: Where = EVERY

    def __call__(self, row: Row) -> bool:
        return row.k in self.keys and self.where(row)

    def __str__(self) -> str:
        return f"k in {sorted(self.keys)}" + (f" and {self.where}" if self.where.column else "")

    @property
    def predicate(self) -> Predicate:
        return Unknown("source.k = target.k", (Column(("k",)),))


@dataclasses.dataclass(frozen=True)
class KeyNotIn:
    """The rows that a MERGE does not find in its source and to which a clause applies."""

    keys: frozenset[int]
    where: Where

    def __call__(self, row: Row) -> bool:
        return row.k not in self.keys and self.where(row)

    def __str__(self) -> str:
        return f"k not in {sorted(self.keys)} and {self.where}"

    @property
    def predicate(self) -> Predicate:
        return Unknown("no source row", (Column(("k",)), Column(("v",))))


class Condition(Protocol):
    """A function of a row, with its predicate for transactions."""

    def __call__(self, row: Row) -> bool: ...

    @property
    def predicate(self) -> Predicate: ...


@dataclasses.dataclass(frozen=True)
class Change:
    """`SET column = value`, or `= column + value`."""

    column: str
    value: int
    adds: bool

    def __call__(self, row: Row) -> Row:
        before = getattr(row, self.column)
        after = None if self.adds and before is None else (before + self.value if self.adds else self.value)
        return row._replace(**{self.column: after})

    def __str__(self) -> str:
        return f"{self.column} = {f'{self.column} + ' if self.adds else ''}{self.value}"
