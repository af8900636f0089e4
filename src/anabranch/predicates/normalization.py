"""Predicates in one shape, so that what asks about them has few cases to know."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    FALSE,
    GE,
    GT,
    LE,
    LT,
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
    Operator,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    conjunction,
    disjunction,
)
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import UTC, TimeZone


def normalise(predicate: Predicate) -> Predicate:
    """A predicate with the same result for every row, in which

    1. `Not` stands only before `In`, `StartsWith` and `EQ_NULL_SAFE` of two columns;
    2. no literal is NULL, and `EQ_NULL_SAFE` compares two columns;
    3. `And` and `Or` have no operand of their own kind and none that changes nothing.

    What is left grows with each part: if a part turns from false or NULL to true, the whole does or stays. So a bound
    on the parts is a bound on the whole, which with a `Not` above `And` and `Or` it would not be.
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


def to_physical(predicate: Predicate, physical_paths: Mapping[ColumnPath, ColumnPath]) -> Predicate:
    """The same predicate over the names that files and statistics use.

    `physical_paths` has every column, and every field below it, by logical path. Names fit by case first, then
    without it. A condition on a column that is not there becomes `Unknown`.
    """
    folded = {_folded(logical): physical for logical, physical in physical_paths.items()}
    return _renamed(predicate, physical_paths, folded)


def _renamed(
    predicate: Predicate, exact: Mapping[ColumnPath, ColumnPath], folded: Mapping[ColumnPath, ColumnPath]
) -> Predicate:
    def of(column: Column) -> Column | None:
        path = exact.get(column.path) or folded.get(_folded(column.path))
        return Column(path) if path else None

    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(_renamed(operand, exact, folded) for operand in predicate.operands))
    if isinstance(predicate, Not):
        return Not(_renamed(predicate.operand, exact, folded))
    if isinstance(predicate, Truth):
        return predicate
    if isinstance(predicate, Unknown):
        known = tuple(found for column in predicate.columns if (found := of(column)))
        return Unknown(predicate.text, known, predicate.opaque)
    if isinstance(predicate, Comparison):
        left = of(predicate.left)
        right = of(predicate.right) if isinstance(predicate.right, Column) else predicate.right
        if left is None or right is None:
            return Unknown(str(predicate))
        return Comparison(predicate.operator, left, right)
    column = of(predicate.column) if isinstance(predicate, IsNull | IsNotNull | In | StartsWith) else None
    if column is None:
        return Unknown(str(predicate))
    if isinstance(predicate, In):
        return In(column, predicate.values)
    if isinstance(predicate, StartsWith):
        return StartsWith(column, predicate.prefix)
    return IsNull(column) if isinstance(predicate, IsNull) else IsNotNull(column)


def _folded(path: ColumnPath) -> ColumnPath:
    return tuple(part.casefold() for part in path)


# Literals brought to the type of the column they are compared with, where Spark would do the same.


_WHOLE = re.compile(r"-?\d{1,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(Z|[+-]\d{2}:\d{2})?")
_FLOAT_WHOLE_MAX = 1 << 24
_MICROS_PER_DAY = 86_400_000_000
_DIGITS_OF_WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DOUBLE_WHOLE_DIGITS = 10
"""Spark compares whole numbers with doubles as doubles: up to int, none of them is rounded."""


def coerced(literal: Literal, data_type: DataType, *, zone: TimeZone | None) -> Literal | None:
    """The literal as a value to compare with a column of this type; None where Spark might compare otherwise.

    Text becomes a number, date or timestamp only when written plainly; `zone` is that of the session.
    """
    value, given = literal.value, literal.data_type
    if value is None or isinstance(given, NullType):
        return Literal(None, data_type)
    if isinstance(given, StringType) and not isinstance(data_type, StringType):
        found = _from_text(value, data_type, zone)
        return None if found is None else Literal(found, data_type)
    if isinstance(data_type, DoubleType) and isinstance(given, IntegralType | DecimalType | FloatType):
        return Literal(float(value), data_type)
    if isinstance(data_type, FloatType) and isinstance(given, IntegralType | DecimalType):
        # Compared as doubles, but whole numbers in some versions as floats: alike while a float holds them.
        exact = isinstance(given, DecimalType) or abs(value) <= _FLOAT_WHOLE_MAX
        return Literal(float(value), DoubleType()) if exact else None
    if isinstance(given, DateType) and isinstance(data_type, TimestampNTZType):
        return Literal(value * _MICROS_PER_DAY, data_type)
    if isinstance(given, DateType) and isinstance(data_type, TimestampType):
        start = utc_micros(value * _MICROS_PER_DAY, zone)
        return None if start is None else Literal(start, data_type)
    numbers = (IntegralType, DecimalType)
    if type(given) is type(data_type) or (isinstance(given, numbers) and isinstance(data_type, numbers)):
        return literal
    return literal if isinstance(data_type, FloatType) and isinstance(given, DoubleType) else None


def keeps_order(old: DataType, new: DataType) -> bool:
    """Whether a cast gives every value another one of the new type, in the same order, and NULL only for NULL."""
    if old == new:
        return True
    if isinstance(old, IntegralType):
        digits = _DIGITS_OF_WHOLE[old.typeName()]
        if isinstance(new, IntegralType):
            return _DIGITS_OF_WHOLE[new.typeName()] >= digits
        if isinstance(new, DecimalType):
            return new.precision - new.scale >= digits
        return isinstance(new, DoubleType) and digits <= _DOUBLE_WHOLE_DIGITS
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    return isinstance(old, FloatType) and isinstance(new, DoubleType)


def utc_micros(on_wall: int, zone: TimeZone | None) -> int | None:
    """The one moment at which clocks in `zone` show this; None where there are two or none, or no such zone."""
    return zone.to_utc(on_wall) if zone is not None and zone.is_unambiguous(on_wall) else None


def moment_of_text(text: str, *, zone: TimeZone | None) -> int | None:
    """Microseconds since the epoch of a timestamp's text, in `zone` if it names none; None if in doubt."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        if match[4]:
            return value_text.parse_micros(text, UTC)
        return utc_micros(value_text.parse_local_micros(text), zone)
    except ValueError:
        return None


def single(value: float) -> float:
    """The float nearest to a double, as a double."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _from_text(text: str, data_type: DataType, zone: TimeZone | None) -> Any:
    plain = text.strip()
    try:
        if isinstance(data_type, IntegralType):
            # `IN` may compare as text instead; a number in its usual spelling is the same either way.
            return int(plain) if _WHOLE.fullmatch(plain) and str(int(plain)) == text else None
        if isinstance(data_type, DoubleType):
            return float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", plain) else None
        if isinstance(data_type, DecimalType) and re.fullmatch(r"[+-]?\d{1,15}(\.\d{1,15})?", plain):
            value = decimal.Decimal(plain)
            # Compared as doubles, or as decimals, by version and mode: alike only where both are exact.
            return value if value == int(value) else None
        if isinstance(data_type, DateType) and _DATE.fullmatch(plain):
            return value_text.parse_days(plain)
        if isinstance(data_type, TimestampType):
            return moment_of_text(plain, zone=zone)
        if isinstance(data_type, TimestampNTZType) and (match := _MOMENT.fullmatch(plain)) and not match[4]:
            return value_text.parse_local_micros(plain)
    except ValueError:
        return None
    if isinstance(data_type, BooleanType):
        return {"true": True, "false": False}.get(plain.lower())
    return None


# Conditions on the day or year of a column, as ranges of the column itself.


_EPOCH = datetime.date(1970, 1, 1)


def year_condition(
    column: Column, data_type: DataType, operator: Operator, year: int, *, zone: TimeZone | None
) -> Predicate | None:
    """`year(column) <operator> year`, or None where it is no plain range."""
    if not datetime.MINYEAR <= year < datetime.MAXYEAR:
        return None
    first, after = (datetime.date(each, 1, 1) - _EPOCH for each in (year, year + 1))
    return _between(column, data_type, operator, first.days, after.days, zone)


def day_condition(
    column: Column, data_type: DataType, operator: Operator, day: int, *, zone: TimeZone | None
) -> Predicate | None:
    """`CAST(column AS DATE) <operator> day`, counted from 1970-01-01, or None where it is no plain range."""
    return _between(column, data_type, operator, day, day + 1, zone)


def _between(
    column: Column, data_type: DataType, operator: Operator, first_day: int, day_after: int, zone: TimeZone | None
) -> Predicate | None:
    first, after = (_start_of(day, data_type, zone) for day in (first_day, day_after))
    if first is None or after is None:
        return None
    from_first, before_first = Comparison(GE, column, first), Comparison(LT, column, first)
    from_after, before_after = Comparison(GE, column, after), Comparison(LT, column, after)
    return {
        EQ: And((from_first, before_after)),
        NE: Or((before_first, from_after)),
        LT: before_first,
        LE: before_after,
        GT: from_after,
        GE: from_first,
    }.get(operator)


def _start_of(day: int, data_type: DataType, zone: TimeZone | None) -> Literal | None:
    """The least value of the column's type that is on that day or later."""
    if isinstance(data_type, DateType):
        return Literal(day, data_type)
    if isinstance(data_type, TimestampNTZType):
        return Literal(day * _MICROS_PER_DAY, data_type)
    if isinstance(data_type, TimestampType):
        # Where clocks change at midnight the days may interlock; that is left to Spark.
        start = utc_micros(day * _MICROS_PER_DAY, zone)
        return None if start is None else Literal(start, data_type)
    return None
