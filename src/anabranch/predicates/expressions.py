"""Conditions on rows, as frozen trees that can be evaluated without Spark.

A predicate is *true*, *false* or *NULL* for each row, as in SQL; a filter keeps the row only when it is true.
A tree means exactly what its source, a Spark expression or SQL, means: a part that was not understood is `Unknown`,
never a weaker or stronger condition, so that any tree may be negated. In normal form (`normalise`) it has few cases for
code that evaluates it.

Values compare as Spark compares them: NaN equals itself and is above all numbers, -0.0 equals 0.0,
text compares by its UTF-8 bytes.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.types import DataType

ColumnPath = tuple[str, ...]
"""The name of a column, followed by the names of the fields inside it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside struct columns."""

    path: ColumnPath


@dataclasses.dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    `value` is what PySpark returns for `data_type`, with two exceptions that avoid time zones: a date is
    days since 1970-01-01, and both timestamp types are microseconds (since the Unix epoch, and since
    1970-01-01 00:00 of the wall clock). None is NULL.
    """

    value: Any
    data_type: DataType


Operand = Column | Literal


class Operator(enum.Enum):
    """How two values are compared."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ_NULL_SAFE = "<=>"

    @property
    def negated(self) -> Operator | None:
        """The operator that is true where this one is false; both are NULL together. None where there is none."""
        return _NEGATED.get(self)

    @property
    def mirrored(self) -> Operator:
        """The operator that means the same with its sides exchanged."""
        return _MIRRORED.get(self, self)


EQ, NE, LT, LE = Operator.EQ, Operator.NE, Operator.LT, Operator.LE
GT, GE, EQ_NULL_SAFE = Operator.GT, Operator.GE, Operator.EQ_NULL_SAFE

_NEGATED = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}
_MIRRORED = {LT: GT, GT: LT, LE: GE, GE: LE}


class Predicate:
    """A condition on a row. One of the classes below."""

    __slots__ = ()

    def __str__(self) -> str:
        from_class = _TEXTS.get(type(self))
        return from_class(self) if from_class else repr(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Truth(Predicate):
    """A condition with the same value for every row; None is NULL."""

    value: bool | None

    __str__ = Predicate.__str__


TRUE = Truth(True)
FALSE = Truth(False)
NULL = Truth(None)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """Two values compared. NULL where either side is, but for `EQ_NULL_SAFE`, which is never NULL."""

    operator: Operator
    left: Column
    right: Operand

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class And(Predicate):
    """False if any operand is, else NULL if any is, else true."""

    operands: tuple[Predicate, ...]

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if any operand is, else NULL if any is, else false."""

    operands: tuple[Predicate, ...]

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True for false, false for true, NULL for NULL."""

    operand: Predicate

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """Never NULL itself."""

    column: Column

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class IsNotNull(Predicate):
    """Never NULL itself."""

    column: Column

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class In(Predicate):
    """Equal to one of the values. NULL where the column is, or where nothing equals and a value is NULL."""

    column: Column
    values: tuple[Literal, ...]

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class StartsWith(Predicate):
    """The text begins with `prefix`, byte for byte. NULL where the column is."""

    column: Column
    prefix: str

    __str__ = Predicate.__str__


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown(Predicate):
    """A condition that was not understood; it may be true, false or NULL for any row."""

    text: str
    columns: tuple[Column, ...] = ()
    """The columns it reads, as far as they were seen."""
    opaque: bool = False
    """The condition is not a function of the row alone: it is non-deterministic, or depends on other rows."""

    __str__ = Predicate.__str__


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """The predicates joined by AND; TRUE for none."""
    operands = _flattened(And, predicates)
    if len(operands) == 1:
        return operands[0]
    return And(operands) if operands else TRUE


def disjunction(predicates: Iterable[Predicate]) -> Predicate:
    """The predicates joined by OR; FALSE for none."""
    operands = _flattened(Or, predicates)
    if len(operands) == 1:
        return operands[0]
    return Or(operands) if operands else FALSE


def nodes_of(predicate: Predicate) -> list[Predicate]:
    """The predicate and everything below it."""
    nodes, pending = [], [predicate]
    while pending:
        node = pending.pop()
        nodes.append(node)
        if isinstance(node, And | Or):
            pending.extend(reversed(node.operands))
        elif isinstance(node, Not):
            pending.append(node.operand)
    return nodes


def columns_named_by(node: Predicate) -> tuple[Column, ...]:
    """The columns that this node itself names, without those of its operands."""
    if isinstance(node, Comparison):
        return (node.left, node.right) if isinstance(node.right, Column) else (node.left,)
    if isinstance(node, IsNull | IsNotNull | In | StartsWith):
        return (node.column,)
    return node.columns if isinstance(node, Unknown) else ()


def references(predicate: Predicate) -> frozenset[ColumnPath]:
    """Every column the predicate reads, those of `Unknown` parts included."""
    return frozenset([column.path for node in nodes_of(predicate) for column in columns_named_by(node)])


def is_exact(predicate: Predicate) -> bool:
    """Whether all of it was understood."""
    return not any(isinstance(node, Unknown) for node in nodes_of(predicate))


def is_opaque(predicate: Predicate) -> bool:
    """Whether a part of it is no function of the row alone, so that rows of a commit cannot be judged by it."""
    return any(isinstance(node, Unknown) and node.opaque for node in nodes_of(predicate))


def with_physical_columns(predicate: Predicate, paths: Mapping[ColumnPath, ColumnPath]) -> Predicate:
    """The same condition over the names that files and statistics use; `paths` has these for each logical path.

    A part with a column that is not in `paths` becomes `Unknown`.
    """
    match predicate:
        case And(operands) | Or(operands):
            return type(predicate)(tuple(with_physical_columns(operand, paths) for operand in operands))
        case Not(operand):
            return Not(with_physical_columns(operand, paths))
        case Unknown():
            physical = [paths.get(column.path) for column in predicate.columns]
            return dataclasses.replace(predicate, columns=tuple(Column(path) for path in physical if path))
    if any(column.path not in paths for column in columns_named_by(predicate)):
        return Unknown(str(predicate))
    match predicate:
        case Comparison(operator, left, Column() as right):
            return Comparison(operator, Column(paths[left.path]), Column(paths[right.path]))
        case Comparison():
            return dataclasses.replace(predicate, left=Column(paths[predicate.left.path]))
        case In() | IsNull() | IsNotNull() | StartsWith():
            return dataclasses.replace(predicate, column=Column(paths[predicate.column.path]))
    return predicate


def _flattened(kind: type[And | Or], predicates: Iterable[Predicate]) -> tuple[Predicate, ...]:
    operands: list[Predicate] = []
    neutral = TRUE if kind is And else FALSE
    for predicate in predicates:
        if isinstance(predicate, kind):
            operands += predicate.operands
        elif predicate != neutral:
            operands.append(predicate)
    return tuple(operands)


def column_text(path: ColumnPath) -> str:
    """The column as SQL writes it, with backticks only where they are needed."""
    return ".".join(
        part if part.isascii() and part.isidentifier() else "`" + part.replace("`", "``") + "`" for part in path
    )


def operand_text(operand: Operand) -> str:
    """The operand much as SQL writes it, with line breaks and quotes escaped."""
    if isinstance(operand, Column):
        return column_text(operand.path)
    value, name = operand.value, operand.data_type.typeName()
    if value is None:
        return "NULL"
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, str):
        return "'" + value.encode("unicode_escape").decode().replace("'", "\\'") + "'"
    if name in ("date", "timestamp", "timestamp_ntz"):
        return f"{name.upper()}({value})"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(word: str, operands: tuple[Predicate, ...]) -> str:
    return f" {word} ".join(f"({part})" if isinstance(part, And | Or) else str(part) for part in operands)


_TEXTS: dict[type[Predicate], Any] = {
    Truth: lambda node: {True: "true", False: "false", None: "NULL"}[node.value],
    Comparison: lambda node: f"{operand_text(node.left)} {node.operator.value} {operand_text(node.right)}",
    And: lambda node: _joined("AND", node.operands),
    Or: lambda node: _joined("OR", node.operands),
    Not: lambda node: f"NOT ({node.operand})",
    IsNull: lambda node: f"{operand_text(node.column)} IS NULL",
    IsNotNull: lambda node: f"{operand_text(node.column)} IS NOT NULL",
    In: lambda node: f"{operand_text(node.column)} IN ({', '.join(operand_text(value) for value in node.values)})",
    StartsWith: lambda node: f"startswith({operand_text(node.column)}, {node.prefix!r})",
    Unknown: lambda node: node.text,
}


def normalise(predicate: Predicate) -> Predicate:
    """A predicate with the same result for every row, in which

    1. `Not` is applied only to `In`, `StartsWith` and `EQ_NULL_SAFE` of two columns;
    2. no literal is NULL, and `EQ_NULL_SAFE` compares two columns;
    3. `And` and `Or` have no operand of their own kind and none without effect.

    The result is monotone: if a part turns from false or NULL to true, the whole turns true or stays. So a bound on
    the parts is a bound on the whole, which it would not be with a `Not` above `And` and `Or`.
    """
    return _normal(predicate, negated=False)


def _normal(predicate: Predicate, *, negated: bool) -> Predicate:
    if isinstance(predicate, Not):
        return _normal(predicate.operand, negated=not negated)
    if isinstance(predicate, And | Or):
        operands = [_normal(operand, negated=negated) for operand in predicate.operands]
        return _all(operands) if isinstance(predicate, And) is not negated else _any(operands)
    if isinstance(predicate, Truth):
        return predicate if predicate.value is None else Truth(predicate.value is not negated)
    if isinstance(predicate, Comparison):
        return _comparison(predicate, negated=negated)
    if isinstance(predicate, IsNull | IsNotNull):
        null = isinstance(predicate, IsNull) is not negated
        return IsNull(predicate.column) if null else IsNotNull(predicate.column)
    if isinstance(predicate, In):
        return _membership(predicate, negated=negated)
    if isinstance(predicate, StartsWith):
        return Not(predicate) if negated else predicate
    if isinstance(predicate, Unknown) and negated:
        return Unknown(f"NOT ({predicate.text})", predicate.columns, predicate.opaque)
    return predicate


def _comparison(comparison: Comparison, *, negated: bool) -> Predicate:
    column, other = comparison.left, comparison.right
    if comparison.operator is EQ_NULL_SAFE:
        if isinstance(other, Column):
            return Not(comparison) if negated else comparison
        if other.value is None:
            return IsNotNull(column) if negated else IsNull(column)
        if negated:
            return Or((IsNull(column), Comparison(NE, column, other)))
        return And((IsNotNull(column), Comparison(EQ, column, other)))
    if isinstance(other, Literal) and other.value is None:
        return NULL
    operator = comparison.operator.negated if negated else None
    return Comparison(operator or comparison.operator, column, other)


def _membership(member: In, *, negated: bool) -> Predicate:
    present = tuple(value for value in member.values if value.value is not None)
    if present:
        inside: Predicate = In(member.column, present)
        inside = Not(inside) if negated else inside
    else:
        inside = Truth(negated)
    if len(present) == len(member.values):
        return inside
    return _all([inside, NULL]) if negated else _any([inside, NULL])


def _all(operands: list[Predicate]) -> Predicate:
    together = conjunction(operands)
    return FALSE if FALSE in (together.operands if isinstance(together, And) else (together,)) else together


def _any(operands: list[Predicate]) -> Predicate:
    together = disjunction(operands)
    return TRUE if TRUE in (together.operands if isinstance(together, Or) else (together,)) else together
