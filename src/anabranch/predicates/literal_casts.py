"""Literals cast to the type of the column they are compared with, where Spark does the same."""

from __future__ import annotations

import decimal
import re
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

from anabranch.predicates.expressions import Literal
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import UTC, TimeZone

_WHOLE = re.compile(r"-?\d{1,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(Z|[+-]\d{2}:\d{2})?")
_FLOAT_WHOLE_MAX = 1 << 24
MICROS_PER_DAY = 86_400_000_000
_DIGITS_OF_WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DOUBLE_WHOLE_DIGITS = 10
"""Spark compares whole numbers with doubles as doubles. Numbers of up to this many digits are not rounded by that."""


def coerced(literal: Literal, data_type: DataType, *, zone: TimeZone | None) -> Literal | None:
    """The literal as a value to compare with a column of this type; None where Spark may compare otherwise.

    Text becomes a number, date or timestamp only when written plainly; `zone` is that of the session.
    """
    value, literal_type = literal.value, literal.data_type
    if value is None or isinstance(literal_type, NullType):
        return Literal(None, data_type)
    if isinstance(literal_type, StringType) and not isinstance(data_type, StringType):
        parsed = _from_text(value, data_type, zone)
        return None if parsed is None else Literal(parsed, data_type)
    if isinstance(data_type, DoubleType) and isinstance(literal_type, IntegralType | DecimalType | FloatType):
        return Literal(float(value), data_type)
    if isinstance(data_type, FloatType) and isinstance(literal_type, IntegralType | DecimalType):
        # Spark compares them as doubles, some versions whole numbers as floats: the same while a float holds them.
        exact = isinstance(literal_type, DecimalType) or abs(value) <= _FLOAT_WHOLE_MAX
        return Literal(float(value), DoubleType()) if exact else None
    if isinstance(literal_type, DateType) and isinstance(data_type, TimestampNTZType):
        return Literal(value * MICROS_PER_DAY, data_type)
    if isinstance(literal_type, DateType) and isinstance(data_type, TimestampType):
        start = utc_micros(value * MICROS_PER_DAY, zone)
        return None if start is None else Literal(start, data_type)
    numbers = (IntegralType, DecimalType)
    if type(literal_type) is type(data_type) or (isinstance(literal_type, numbers) and isinstance(data_type, numbers)):
        return literal
    return literal if isinstance(data_type, FloatType) and isinstance(literal_type, DoubleType) else None


def keeps_order(old: DataType, new: DataType) -> bool:
    """Whether a cast maps different values to different ones, in the same order, and only NULL to NULL."""
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
    """The moment at which clocks in `zone` show `on_wall`; None where there are two or none, or without a zone."""
    return zone.to_utc(on_wall) if zone is not None and zone.is_unambiguous(on_wall) else None


def moment_of_text(text: str, *, zone: TimeZone | None) -> int | None:
    """Microseconds since the epoch of a timestamp's text, in `zone` if it names none; None if it is ambiguous."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        if match[4]:
            return value_text.parse_micros(text, UTC)
        return utc_micros(value_text.parse_local_micros(text), zone)
    except ValueError:
        return None


def nearest_float(value: float) -> float:
    """The float nearest to a double, as a double."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _from_text(text: str, data_type: DataType, zone: TimeZone | None) -> Any:
    plain = text.strip()
    try:
        if isinstance(data_type, IntegralType):
            # `IN` may compare as text instead; for a number in its usual spelling the result is the same.
            return int(plain) if _WHOLE.fullmatch(plain) and str(int(plain)) == text else None
        if isinstance(data_type, DoubleType):
            return float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", plain) else None
        if isinstance(data_type, DecimalType) and re.fullmatch(r"[+-]?\d{1,15}(\.\d{1,15})?", plain):
            value = decimal.Decimal(plain)
            # Spark compares as doubles or as decimals, by version and mode: the same only where both are exact.
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
