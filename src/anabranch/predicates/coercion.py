"""Literals brought to the type of the column they are compared with, where Spark would do the same."""

from __future__ import annotations

import datetime
import decimal
import re
import zoneinfo
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
from anabranch.protocol import date_times

_WHOLE = re.compile(r"-?\d{1,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?(Z|[+-]\d{2}:\d{2})?")
_NAMED_ZONE = re.compile(r"[A-Za-z_]+(/[A-Za-z0-9_+\-]+)*")
_FLOAT_WHOLE_MAX = 1 << 24
_MICROS_PER_DAY = 86_400_000_000
_DIGITS_OF_WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DOUBLE_WHOLE_DIGITS = 10
"""Spark compares whole numbers with doubles as doubles: up to int, none of them is rounded."""


def coerced(literal: Literal, data_type: DataType, *, zone: str) -> Literal | None:
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


def utc_micros(on_wall: int, zone: str) -> int | None:
    """The one moment at which clocks in `zone` show this; None where there are two or none, or no such zone."""
    text = date_times.format_local_micros(on_wall)
    try:
        first = date_times.parse_micros(text, zone)
        if _NAMED_ZONE.fullmatch(zone) and zone.upper() not in {"Z", "UTC", "GMT"}:
            moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=on_wall)
            region = zoneinfo.ZoneInfo(zone)
            # Offsets differ before and after a change of clocks, and only times around it belong to both.
            if region.utcoffset(moment) != region.utcoffset(moment.replace(fold=1)):
                return None
    except (ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError):
        return None
    return first


def moment_of_text(text: str, *, zone: str) -> int | None:
    """Microseconds since the epoch of a timestamp's text, in `zone` if it names none; None if in doubt."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        if match[4]:
            return date_times.parse_micros(text, zone)
        return utc_micros(date_times.parse_local_micros(text), zone)
    except ValueError:
        return None


def single(value: float) -> float:
    """The float nearest to a double, as a double."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _from_text(text: str, data_type: DataType, zone: str) -> Any:
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
            return date_times.parse_days(plain)
        if isinstance(data_type, TimestampType):
            return moment_of_text(plain, zone=zone)
        if isinstance(data_type, TimestampNTZType) and (match := _MOMENT.fullmatch(plain)) and not match[4]:
            return date_times.parse_local_micros(plain)
    except ValueError:
        return None
    if isinstance(data_type, BooleanType):
        return {"true": True, "false": False}.get(plain.lower())
    return None
