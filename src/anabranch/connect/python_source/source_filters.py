"""Filters that Spark hands to Python data sources, as predicates."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    GE,
    GT,
    LE,
    LT,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Predicate,
    StartsWith,
    Unknown,
)
from anabranch.protocol.value_text import date_to_days, datetime_to_micros
from anabranch.schema.paths import find

_COMPARISONS = {
    "EqualTo": EQ,
    "EqualNullSafe": EQ_NULL_SAFE,
    "GreaterThan": GT,
    "GreaterThanOrEqual": GE,
    "LessThan": LT,
    "LessThanOrEqual": LE,
}
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def predicate_of(given: Any, schema: StructType) -> Predicate:
    """What a filter says, in logical names; `Unknown` for what is not understood.

    Told by name, since PySpark 4.0 has no classes of filters.
    """
    kind = type(given).__name__
    if kind == "Not":
        return Not(predicate_of(given.child, schema))
    column = _column(getattr(given, "attribute", ()), schema)
    if column is None:
        return Unknown(str(given))
    path, data_type = column
    match kind:
        case "IsNull":
            return IsNull(path)
        case "IsNotNull":
            return IsNotNull(path)
        case "In":
            literals = [_literal(value, data_type) for value in given.value]
            known = tuple(literal for literal in literals if literal is not None)
            return In(path, known) if len(known) == len(literals) else Unknown(str(given))
        case "StringStartsWith":
            return StartsWith(path, given.value) if _is_plain_text(data_type) else Unknown(str(given))
    literal = _literal(getattr(given, "value", None), data_type)
    if kind not in _COMPARISONS or literal is None:
        return Unknown(str(given))
    return Comparison(_COMPARISONS[kind], path, literal)


def _column(attribute: Sequence[str], schema: StructType) -> tuple[Column, DataType] | None:
    """With the names as the table spells them."""
    names: list[str] = []
    here: DataType = schema
    for part in attribute:
        field = find(here, (part,)) if isinstance(here, StructType) else None
        if field is None:
            return None
        names.append(field.name)
        here = field.dataType
    return (Column(tuple(names)), here) if names else None


def _literal(value: Any, data_type: DataType) -> Literal | None:
    """`value` in the form that predicates keep; None where it is not surely what the column holds."""
    found: Any = None
    match data_type, value:
        case BooleanType(), bool():
            found = value
        case _, bool():
            found = None
        case DateType(), datetime.date() if not isinstance(value, datetime.datetime):
            found = date_to_days(value)
        case TimestampType(), datetime.datetime() if value.tzinfo is not None:
            found = datetime_to_micros(value)
        case TimestampNTZType(), datetime.datetime() if value.tzinfo is None:
            found = datetime_to_micros(value)
        case StringType(), str() if _is_plain_text(data_type):
            found = value
        case DecimalType(), decimal.Decimal():
            found = value
        case FloatType() | DoubleType(), float():
            found = value
        case _, int() if isinstance(data_type, _INTEGERS):
            found = value
    return None if found is None else Literal(found, data_type)


def _is_plain_text(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
