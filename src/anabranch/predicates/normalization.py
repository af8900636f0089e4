"""Predicates in a normal form, so that code which evaluates them has few cases."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    FALSE,
    NE,
    NULL,
    TRUE,
    And,
    Column,
    ColumnPath,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    conjunction,
    disjunction,
)


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


def with_physical_columns(predicate: Predicate, physical_paths: Mapping[ColumnPath, ColumnPath]) -> Predicate:
    """The same predicate over the names that files and statistics use.

    `physical_paths` has every column, and every field inside it, by logical path. An exact match wins over one that
    differs in case. A condition on a missing column becomes `Unknown`.
    """
    folded = {_folded(logical): physical for logical, physical in physical_paths.items()}
    return _renamed(predicate, physical_paths, folded)


def _renamed(
    predicate: Predicate, exact: Mapping[ColumnPath, ColumnPath], folded: Mapping[ColumnPath, ColumnPath]
) -> Predicate:
    def renamed(column: Column) -> Column | None:
        path = exact.get(column.path) or folded.get(_folded(column.path))
        return Column(path) if path else None

    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(_renamed(operand, exact, folded) for operand in predicate.operands))
    if isinstance(predicate, Not):
        return Not(_renamed(predicate.operand, exact, folded))
    if isinstance(predicate, Truth):
        return predicate
    if isinstance(predicate, Unknown):
        columns = tuple(physical for column in predicate.columns if (physical := renamed(column)))
        return Unknown(predicate.text, columns, predicate.opaque)
    if isinstance(predicate, Comparison):
        left = renamed(predicate.left)
        right = renamed(predicate.right) if isinstance(predicate.right, Column) else predicate.right
        if left is None or right is None:
            return Unknown(str(predicate))
        return Comparison(predicate.operator, left, right)
    column = renamed(predicate.column) if isinstance(predicate, IsNull | IsNotNull | In | StartsWith) else None
    if column is None:
        return Unknown(str(predicate))
    if isinstance(predicate, In):
        return In(column, predicate.values)
    if isinstance(predicate, StartsWith):
        return StartsWith(column, predicate.prefix)
    return IsNull(column) if isinstance(predicate, IsNull) else IsNotNull(column)


def _folded(path: ColumnPath) -> ColumnPath:
    return tuple(part.casefold() for part in path)
