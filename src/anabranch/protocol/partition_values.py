"""Partition values in Python, in the strings of the log, and in Arrow. See "Partition Value Serialization".

Names of partition directories, on which nothing in the log depends, are in `data_paths`.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import UTC, TimeZone
from anabranch.protocol.value_text import java_float_text

VALUE_CHARACTERS_MAX: Final = 1 << 20
_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_NOT_FINITE: Final[dict[str, float]] = {
    "nan": float("nan"),
    "inf": float("inf"),
    "+inf": float("inf"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-inf": float("-inf"),
    "-infinity": float("-inf"),
}


def serialize_partition_value(value: Any, data_type: DataType) -> str | None:
    """The string for `add.partitionValues`; None for null and for empty strings and binaries.

    Timestamps are written in UTC, `1970-01-01T00:00:00.123456Z`, so that no reader needs to know our time
    zone. Raises `PartitionValueError`, also for binaries that are not UTF-8, which a string cannot hold.
    """
    if value is None:
        return None
    try:
        text = _text(value, data_type)
    except UnicodeDecodeError as error:
        reason = "the log stores partition values as text, also those of BINARY columns"
        raise PartitionValueError(
            value=f"X'{bytes(value).hex().upper()}'"[:200], data_type="UTF-8 string", reason=reason
        ) from error
    except (ValueError, TypeError, ArithmeticError) as error:
        raise PartitionValueError(
            value=str(value)[:200], data_type=data_type.simpleString(), reason=str(error)
        ) from error
    return text or None


def parse_partition_value(text: str | None, data_type: DataType, *, zone: TimeZone = UTC) -> Any:
    """The value of a partition string; None for null and for an empty string, of any type.

    `zone` is for timestamps without an offset. Timestamps are returned in UTC; dates and timestamps of years
    that `datetime` lacks as `numpy.datetime64`. Raises `PartitionValueError`.
    """
    if not text or isinstance(data_type, NullType):
        return None
    stored = _parse_stored(text, data_type, zone)
    match data_type:
        case DateType():
            return value_text.days_to_date(stored)
        case TimestampType():
            return value_text.micros_to_datetime(stored, utc=True)
        case TimestampNTZType():
            return value_text.micros_to_datetime(stored, utc=False)
        case _:
            return stored


def parse_column(texts: pa.Array | pa.ChunkedArray, data_type: DataType, *, zone: TimeZone = UTC) -> pa.Array:
    """`parse_partition_value` for a column of strings, typed for comparing. Each distinct string is parsed once."""
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    coded = pc.dictionary_encode(whole)
    parsed = [None if not text else _parse_stored(text, data_type, zone) for text in coded.dictionary.to_pylist()]
    return pa.array(parsed, arrow_type(data_type)).take(coded.indices)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a partition column; raises `PartitionValueError` for types that cannot partition."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    for kind, arrow in _ARROW.items():
        if isinstance(data_type, kind):
            return arrow
    raise _not_partitionable(data_type)


_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    StringType: pa.string(),
    CharType: pa.string(),
    VarcharType: pa.string(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    BinaryType: pa.binary(),
    NullType: pa.null(),
}


def _text(value: Any, data_type: DataType) -> str:
    match data_type:
        case StringType() | CharType() | VarcharType():
            return str(_require(value, str))
        case BooleanType():
            return "true" if _require(value, bool | np.bool_) else "false"
        case ByteType() | ShortType() | IntegerType() | LongType():
            return str(_in_range(int(_require(value, int | np.integer)), data_type))
        case FloatType() | DoubleType():
            return java_float_text(float(value), single=isinstance(data_type, FloatType))
        case DecimalType():
            return f"{_to_scale(decimal.Decimal(value), data_type):f}"
        case DateType():
            return value_text.format_days(value_text.date_to_days(value))
        case TimestampType():
            if isinstance(value, datetime.datetime) and value.tzinfo is None:
                raise ValueError("a timestamp needs a time zone")
            return value_text.format_utc_micros(value_text.datetime_to_micros(value))
        case TimestampNTZType():
            return value_text.format_local_micros(value_text.datetime_to_micros(value))
        case BinaryType():
            return bytes(value).decode("utf-8")
        case _:
            raise TypeError("columns of this type cannot partition a table")


def _parse_stored(text: str, data_type: DataType, zone: TimeZone) -> Any:
    """The value as Arrow stores it: dates as days, timestamps as microseconds."""
    try:
        if len(text) > VALUE_CHARACTERS_MAX:
            raise ValueError(f"it is longer than {VALUE_CHARACTERS_MAX} characters")
        return _reader(data_type)(text, data_type, zone)
    except (ValueError, ArithmeticError) as error:
        raise PartitionValueError(value=text[:200], data_type=data_type.simpleString(), reason=str(error)) from error


def _reader(data_type: DataType) -> Callable[[str, DataType, TimeZone], Any]:
    for kind, reader in _READERS.items():
        if isinstance(data_type, kind):
            return reader
    raise _not_partitionable(data_type)


def _parse_integer(text: str, data_type: DataType, _: TimeZone) -> int:
    stripped = text.strip()
    if len(stripped) > 20 or not stripped.lstrip("+-").isascii() or "_" in stripped:
        raise ValueError("it is not a whole number")
    return _in_range(int(stripped), data_type)


def _parse_float(text: str, data_type: DataType, _: TimeZone) -> float:
    lower = text.strip().lower()
    if lower in _NOT_FINITE:
        return _NOT_FINITE[lower]
    # Java accepts a type letter behind the number; Python accepts underscores between digits.
    if "_" in lower:
        raise ValueError("it is not a number")
    value = float(lower.rstrip("df"))
    with np.errstate(over="ignore"):  # a number beyond the type is infinite, as in Spark
        return float(np.float32(value)) if isinstance(data_type, FloatType) else value


def _parse_decimal(text: str, data_type: DataType, _: TimeZone) -> decimal.Decimal:
    stripped = text.strip()
    if "_" in stripped:
        raise ValueError("it is not a number")
    value = decimal.Decimal(stripped)
    if not value.is_finite() or value.adjusted() > 38:
        raise ValueError("it is out of range")
    # Spark rounds a value that has more decimals than the column.
    return _to_scale(value, data_type, rounding=decimal.ROUND_HALF_UP)


def _parse_boolean(text: str, *_: Any) -> bool:
    lower = text.strip().lower()
    if lower not in _TRUE | _FALSE:
        raise ValueError("it is neither true nor false")
    return lower in _TRUE


_READERS: Final[dict[type[DataType], Callable[[str, DataType, TimeZone], Any]]] = {
    StringType: lambda text, _, __: text,
    CharType: lambda text, _, __: text,
    VarcharType: lambda text, _, __: text,
    ByteType: _parse_integer,
    ShortType: _parse_integer,
    IntegerType: _parse_integer,
    LongType: _parse_integer,
    FloatType: _parse_float,
    DoubleType: _parse_float,
    DecimalType: _parse_decimal,
    BooleanType: _parse_boolean,
    DateType: lambda text, _, __: value_text.parse_days(text),
    TimestampType: lambda text, _, zone: value_text.parse_micros(text, zone),
    TimestampNTZType: lambda text, _, __: value_text.parse_local_micros(text),
    BinaryType: lambda text, _, __: text.encode("utf-8"),
    NullType: lambda _, __, ___: None,
}


def _to_scale(value: decimal.Decimal, data_type: DataType, *, rounding: str | None = None) -> decimal.Decimal:
    """`value` with exactly the decimals of the type. Without `rounding`, raises an error where one would be lost."""
    if not isinstance(data_type, DecimalType):
        raise TypeError(f"{data_type.simpleString()} has no scale")
    with decimal.localcontext() as context:
        context.prec = 76
        context.traps[decimal.Inexact] = rounding is None
        scaled = value.quantize(decimal.Decimal(1).scaleb(-data_type.scale), rounding=rounding)
    if not scaled:
        return abs(scaled)
    if len(scaled.as_tuple().digits) > data_type.precision:
        raise ValueError("it has too many digits")
    return scaled


def _in_range(value: int, data_type: DataType) -> int:
    limit = 1 << (_BITS[type(data_type)] - 1)
    if not -limit <= value < limit:
        raise ValueError("it is out of range")
    return value


def _require(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"its Python type is {type(value).__name__}")
    return value


def _not_partitionable(data_type: DataType) -> PartitionValueError:
    return PartitionValueError(
        value="", data_type=data_type.simpleString(), reason="columns of this type cannot partition a table"
    )
