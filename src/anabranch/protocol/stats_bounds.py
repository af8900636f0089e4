"""Smallest and largest values of a column, as statistics write them. See "Per-file Statistics".

A lower bound may be lower than the true minimum and an upper bound higher than the true maximum, never
the other way round; where no such value can be written, there is none, and readers keep the file.
"""

from __future__ import annotations

import decimal
import math
from typing import Any, Final

from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.protocol import date_times
from anabranch.protocol.float_text import java_float_text

ASCII_MAX: Final = "\x7f"
CODE_POINT_MAX: Final = "\U0010ffff"
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_FLOATS: Final = (FloatType, DoubleType)
_TIMESTAMPS: Final = (TimestampType, TimestampNTZType)
_BINARY_COLLATION: Final = "UTF8_BINARY"
_FIRST_DAY: Final = date_times.parse_days("0001-01-01")
_LAST_DAY: Final = date_times.parse_days("9999-12-31")


def has_bounds(data_type: DataType) -> bool:
    """Whether statistics hold minimum and maximum: numbers, dates, timestamps, strings in byte order."""
    match data_type:
        case StringType():
            # A collation orders strings another way than their bytes, and bounds in bytes would mislead.
            return getattr(data_type, "collation", _BINARY_COLLATION) == _BINARY_COLLATION
        case CharType() | VarcharType() | DateType() | DecimalType():
            return True
        case _:
            return isinstance(data_type, (*_INTEGERS, *_FLOATS, *_TIMESTAMPS))


def lower_bound(value: Any, data_type: DataType, *, prefix_length: int) -> Any:
    """`value` as JSON holds it, cut so that it is no larger; None for no bound."""
    if isinstance(data_type, StringType | CharType | VarcharType):
        return _valid_text(value[:prefix_length])
    return _bound(value, data_type, upper=False)


def upper_bound(value: Any, data_type: DataType, *, prefix_length: int) -> Any:
    """`value` as JSON holds it, cut so that it is no smaller; None for no bound."""
    if isinstance(data_type, StringType | CharType | VarcharType):
        return truncate_max(value, prefix_length)
    return _bound(value, data_type, upper=True)


def truncate_max(text: str, prefix_length: int) -> str | None:
    """A string of about `prefix_length` characters that is not smaller than `text` in UTF-8 bytes.

    A character above all others goes behind the prefix. The highest code point of all cannot be topped,
    so it stays and the prefix grows, at most to twice its length; beyond that there is no bound.
    """
    if len(text) <= prefix_length:
        return _valid_text(text)
    if prefix_length == 0:
        return None
    for length in range(prefix_length, min(2 * prefix_length, len(text)) + 1):
        if length == len(text):
            return _valid_text(text)
        if text[length] < ASCII_MAX:
            return _valid_text(text[:length] + ASCII_MAX)
        if text[length] < CODE_POINT_MAX:
            return _valid_text(text[:length] + CODE_POINT_MAX)
    return None


def _bound(value: Any, data_type: DataType, *, upper: bool) -> Any:
    match data_type:
        case FloatType() | DoubleType():
            return _float_bound(float(value), single=isinstance(data_type, FloatType))
        case DecimalType():
            return decimal.Decimal(value)
        case DateType():
            days = date_times.date_to_days(value)
            return date_times.format_days(days) if _FIRST_DAY <= days <= _LAST_DAY else None
        case TimestampType() | TimestampNTZType():
            return _timestamp_bound(date_times.datetime_to_micros(value), data_type, upper=upper)
        case _:
            return int(value)


def _float_bound(value: float, *, single: bool) -> float | None:
    """Only finite numbers: JSON has no others, and engines differ in how they write and order them."""
    if not math.isfinite(value):
        return None
    # The shortest digits of a 32-bit float, since those of its 64-bit neighbour look like another number.
    return float(java_float_text(value, single=True)) if single else value


def _timestamp_bound(micros: int, data_type: DataType, *, upper: bool) -> str | None:
    """Whole milliseconds: a minimum is floored, a maximum rounded up.

    Delta floors both and adds a millisecond to every maximum it reads. Rounding up is right for such a
    reader, and also for one that takes the maximum at its word.
    """
    millis = -(-micros // 1000) if upper else micros // 1000
    if not _FIRST_DAY <= millis // 86_400_000 <= _LAST_DAY:
        return None
    zone = "Z" if isinstance(data_type, TimestampType) else ""
    return date_times.format_millis(millis * 1000) + zone


def _valid_text(text: str) -> str | None:
    """None for text that UTF-8 cannot hold."""
    return None if any("\ud800" <= character <= "\udfff" for character in text) else text
