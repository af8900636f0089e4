"""SQL literals for Python values."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.sql_lexer import TokenKind, scan, string_literal
from anabranch.schema.paths import quote
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.sql.grammar.cursor import Fragment

_INTEGER_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_SUFFIXES: Mapping[type, str] = {ByteType: "Y", ShortType: "S", IntegerType: "", LongType: "L"}


def literal(value: Any) -> str | None:
    """SQL for a value that PySpark's `lit` takes; None where only Spark knows the type."""
    if value is None:
        return "NULL"
    # A subclass of a plain type may have another meaning.
    kind = type(value)
    if kind is int:
        if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
            return None
        return _number(str(value) + ("" if -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX else "L"))
    write = _PLAIN.get(kind)
    return None if write is None else write(value)


def typed_literal(value: Any, kind: DataType) -> str | None:
    """SQL for a value that Spark says is of this type; None for a type that has no literals."""
    if value is None or isinstance(kind, NullType):
        return "NULL"
    if type(kind) in _SUFFIXES:
        return _number(f"{value}{_SUFFIXES[type(kind)]}")
    if isinstance(kind, ArrayType):
        return _call("array", [typed_literal(element, kind.elementType) for element in value])
    if isinstance(kind, MapType):
        pairs = [(typed_literal(k, kind.keyType), typed_literal(v, kind.valueType)) for k, v in value.items()]
        return _call("map", [sql for pair in pairs for sql in pair])
    if isinstance(kind, StructType):
        fields = [
            (string_literal(f.name), typed_literal(v, f.dataType)) for f, v in zip(kind.fields, value, strict=True)
        ]
        return _call("named_struct", [sql for field in fields for sql in field])
    if isinstance(kind, DecimalType):
        return f"CAST({_decimal(value)} AS DECIMAL({kind.precision}, {kind.scale}))"
    if isinstance(kind, FloatType):
        return f"CAST({_float(value)} AS FLOAT)"
    if isinstance(kind, TimestampNTZType):
        return f"TIMESTAMP_NTZ'{value:%Y-%m-%d %H:%M:%S.%f}'"
    write = _BY_TYPE.get(type(kind))
    return None if write is None else write(value)


def _number(text: str) -> str:
    """A negative number in parentheses: two minus signs in a row would begin a comment."""
    return f"({text})" if text.startswith("-") else text


def _call(function: str, arguments: list[str | None]) -> str | None:
    literals = [argument for argument in arguments if argument is not None]
    return f"{function}({', '.join(literals)})" if len(literals) == len(arguments) else None


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _float(value: float) -> str:
    if math.isfinite(value):
        return _number(f"{value!r}D")
    return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"


def _decimal(value: decimal.Decimal) -> str:
    return _number(f"{value:f}BD")


def _binary(value: bytes | bytearray) -> str:
    return f"X'{bytes(value).hex()}'"


def _date(value: datetime.date) -> str:
    return f"DATE'{value.isoformat()}'"


def _timestamp(value: datetime.datetime) -> str:
    # As in PySpark, a datetime without a zone is in the zone of this machine.
    at = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return f"TIMESTAMP'{at.isoformat(' ', 'microseconds')}+00:00'"


def _interval(value: datetime.timedelta) -> str:
    sign = "-" if value < datetime.timedelta(0) else ""
    seconds, micros = divmod(abs(value) // datetime.timedelta(microseconds=1), 1_000_000)
    hours, minutes = seconds // 3600 % 24, seconds // 60 % 60
    text = f"{sign}{seconds // 86400} {hours:02}:{minutes:02}:{seconds % 60:02}.{micros:06}"
    return f"INTERVAL '{text}' DAY TO SECOND"


_PLAIN: Mapping[type, Callable[[Any], str]] = {
    bool: _boolean,
    float: _float,
    decimal.Decimal: _decimal,
    str: string_literal,
    bytes: _binary,
    bytearray: _binary,
    datetime.date: _date,
    datetime.datetime: _timestamp,
    datetime.timedelta: _interval,
}
_BY_TYPE: Mapping[type, Callable[[Any], str]] = {
    BooleanType: _boolean,
    DoubleType: _float,
    StringType: string_literal,
    BinaryType: _binary,
    DateType: _date,
    TimestampType: _timestamp,
    DayTimeIntervalType: _interval,
}


# Types of columns, as statements write them.


def types_of(written: Sequence[Fragment]) -> list[DataType]:
    """The types that Spark parses from these texts. Raises its `ParseException`."""
    if not written:
        return []
    columns = ", ".join(f"c{number} {fragment.text}" for number, fragment in enumerate(written))
    kind = StructType.fromDDL(columns)
    assert isinstance(kind, StructType)
    return [field.dataType for field in kind.fields]


def columns_of(written: Fragment) -> StructType:
    """The columns of a list of names and types. Raises Spark's `ParseException`."""
    schema = StructType.fromDDL(written.text)
    assert isinstance(schema, StructType)
    return schema


# Settings of a session that change how its SQL is read.


_DOUBLE_QUOTED = "spark.sql.ansi.doubleQuotedIdentifiers"
_ANSI = "spark.sql.ansi.enabled"


def as_quoted_names(session: DeltaSession, text: str) -> str:
    """The text with names in double quotes changed to backticks, where the session reads double quotes as names."""
    if '"' not in text or not all(session.flag(setting, default=False) for setting in (_DOUBLE_QUOTED, _ANSI)):
        return text
    return "".join(
        quote(token.text[1:-1].replace('""', '"'))
        if token.kind is TokenKind.STRING and token.text.startswith('"')
        else token.text
        for token in scan(text)
    )
