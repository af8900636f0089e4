"""Constants in SQL text, as sqlglot reads them."""

from __future__ import annotations

import decimal
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
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
)
from sqlglot import exp

from anabranch.predicates.coercion import moment_of_text, single
from anabranch.predicates.expressions import Literal
from anabranch.protocol import date_times

_WHOLE_TYPES: dict[Any, DataType] = {
    exp.DataType.Type.TINYINT: ByteType(),
    exp.DataType.Type.SMALLINT: ShortType(),
    exp.DataType.Type.INT: IntegerType(),
    exp.DataType.Type.BIGINT: LongType(),
}
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_PRECISION_MAX = 38
DIALECT = "databricks"


def literal_of(node: exp.Expression, *, zone: str, escapes: bool) -> Literal | None:
    """The constant that a node is; None if it is none, or one whose value is not plain to see.

    `escapes` says that the text has backslashes: what those mean in a string depends on the session.
    """
    if isinstance(node, exp.Paren):
        return literal_of(node.this, zone=zone, escapes=escapes)
    if isinstance(node, exp.Null):
        return Literal(None, NullType())
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), BooleanType())
    if isinstance(node, exp.HexString):
        digits = str(node.this)
        return Literal(bytes.fromhex(digits), BinaryType()) if len(digits) % 2 == 0 else None
    if isinstance(node, exp.Neg):
        return _negated(literal_of(node.this, zone=zone, escapes=escapes))
    if isinstance(node, exp.Literal):
        if node.is_string:
            # Spark 4.0 reads 'it''s' as two strings in a row, later versions as one with a quote.
            return None if escapes or "'" in str(node.this) else Literal(str(node.this), StringType())
        return _number(str(node.this))
    if type(node) is exp.Cast and isinstance(node.this, exp.Literal | exp.Null):
        return _cast(literal_of(node.this, zone=zone, escapes=escapes), node.args["to"], zone)
    return None


def _negated(literal: Literal | None) -> Literal | None:
    if (
        literal is None
        or isinstance(literal.value, bool)
        or not isinstance(literal.value, int | float | decimal.Decimal)
    ):
        return None
    return Literal(-literal.value, literal.data_type)


def _number(text: str) -> Literal | None:
    try:
        if text.isdecimal():
            value = int(text)
            if value <= _LONG_MAX:
                return Literal(value, IntegerType() if value <= _INT_MAX else LongType())
            return _decimal(text)
        return Literal(float(text), DoubleType()) if "e" in text.lower() else _decimal(text)
    except (ValueError, ArithmeticError):
        return None


def _decimal(text: str) -> Literal | None:
    value = decimal.Decimal(text)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return None
    precision = max(len(digits), -exponent)
    return Literal(value, DecimalType(precision, -exponent)) if precision <= _PRECISION_MAX else None


def _cast(literal: Literal | None, to: exp.DataType, zone: str) -> Literal | None:
    """`DATE'…'`, `1.5BD`, `CAST(NULL AS INT)` and the like; casts with a say of their own are left to Spark."""
    if literal is None:
        return None
    target, value = to.this, literal.value
    types = exp.DataType.Type
    try:
        if value is None:
            return literal
        if target in _WHOLE_TYPES and isinstance(literal.data_type, IntegerType | LongType):
            return Literal(value, _WHOLE_TYPES[target])
        if target is types.DOUBLE and isinstance(value, int | float | decimal.Decimal | str):
            return Literal(float(value), DoubleType())
        if target is types.FLOAT and isinstance(value, int | float | decimal.Decimal | str):
            return Literal(single(float(value)), FloatType())
        if not isinstance(value, str):
            return None
        if target is types.DECIMAL:
            return _exact_decimal(value, to)
        if target is types.DATE:
            return Literal(date_times.parse_days(value), DateType())
        if target is types.TIMESTAMPTZ:
            moment = moment_of_text(value, zone=zone)
            return None if moment is None else Literal(moment, TimestampType())
        if target is types.TIMESTAMPNTZ:
            return Literal(date_times.parse_local_micros(value), TimestampNTZType())
    except (ValueError, ArithmeticError):
        return None
    return None


def _exact_decimal(text: str, to: exp.DataType) -> Literal | None:
    """`1.5BD`: the type is that of the digits written. A type that would round them is a cast of its own."""
    literal = _decimal(text)
    declared = [int(str(part.this.this)) for part in to.expressions]
    if literal is None or not isinstance(literal.data_type, DecimalType) or len(declared) != 2:
        return None
    precision, scale = declared
    fits = (
        scale >= literal.data_type.scale and precision - scale >= literal.data_type.precision - literal.data_type.scale
    )
    return Literal(literal.value, DecimalType(precision, scale)) if fits else None
