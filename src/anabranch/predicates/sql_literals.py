"""Constants in SQL text."""

from __future__ import annotations

import decimal
import re
from collections.abc import Mapping

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

from anabranch.predicates.expressions import Literal
from anabranch.predicates.normalization import moment_of_text, single
from anabranch.predicates.sql_lexer import TokenKind
from anabranch.predicates.sql_nodes import Cast, Constant, Node, Operation
from anabranch.protocol import value_text

_WHOLE_TYPES: Mapping[str, DataType] = {
    **dict.fromkeys(("TINYINT", "BYTE", "Y"), ByteType()),
    **dict.fromkeys(("SMALLINT", "SHORT", "S"), ShortType()),
    **dict.fromkeys(("INT", "INTEGER"), IntegerType()),
    **dict.fromkeys(("BIGINT", "LONG", "L"), LongType()),
}
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_FLOATS = frozenset({"FLOAT", "REAL", "F"})
_DOUBLES = frozenset({"DOUBLE", "D"})
_NUMBER = re.compile(r"(?P<digits>[0-9.]+(?:[eE][+-]?[0-9]+)?)(?P<suffix>[A-Za-z]*)")
_TYPE = re.compile(r"(?P<name>\w+)\s*(?:\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?")
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_PRECISION_MAX = 38
_QUOTES_MAX = 2
"""Of a string that says what it seems to say: the first and the last."""


def literal_of(node: Node, *, zone: str) -> Literal | None:
    """The constant that a node is; None if it is none, or one whose value is not plain to see."""
    if isinstance(node, Operation) and node.operator == "-":
        return _negated(literal_of(node.operands[0], zone=zone))
    if isinstance(node, Cast) and isinstance(node.operands[0], Constant) and not node.tries:
        return _cast(literal_of(node.operands[0], zone=zone), node.data_type.upper(), zone)
    return _constant(node, zone) if isinstance(node, Constant) else None


def _constant(node: Constant, zone: str) -> Literal | None:
    token = node.tokens[0]
    if token.kind is TokenKind.NUMBER:
        return _number(token.text, zone)
    if token.kind is TokenKind.WORD:
        return Literal(None, NullType()) if token.word == "NULL" else Literal(token.word == "TRUE", BooleanType())
    written = token.text
    # What a backslash means depends on the session, and on Spark's version what two strings in a row mean, or 'it''s'.
    if len(node.tokens) > 1 or "\\" in written or written.count(written[-1]) > _QUOTES_MAX or written[0] not in "'\"":
        return None
    text = Literal(written[1:-1], StringType())
    if node.kind == "X":
        return _binary(written[1:-1])
    return _cast(text, node.kind, zone) if node.kind else text


def _binary(digits: str) -> Literal | None:
    try:
        return Literal(bytes.fromhex(digits), BinaryType()) if " " not in digits else None
    except ValueError:
        return None


def _negated(literal: Literal | None) -> Literal | None:
    if (
        literal is None
        or isinstance(literal.value, bool)
        or not isinstance(literal.value, int | float | decimal.Decimal)
    ):
        return None
    return Literal(-literal.value, literal.data_type)


def _number(text: str, zone: str) -> Literal | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    digits, suffix = found["digits"], found["suffix"].upper()
    try:
        if suffix == "BD":
            return _decimal(digits)
        if suffix:
            return _cast(_plain_number(digits), suffix, zone)
        return _plain_number(digits)
    except (ValueError, ArithmeticError):
        return None


def _plain_number(text: str) -> Literal | None:
    if text.isdecimal():
        value = int(text)
        if value <= _LONG_MAX:
            return Literal(value, IntegerType() if value <= _INT_MAX else LongType())
        return _decimal(text)
    return Literal(float(text), DoubleType()) if "e" in text.lower() else _decimal(text)


def _decimal(text: str) -> Literal | None:
    value = decimal.Decimal(text)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return None
    precision = max(len(digits), -exponent)
    return Literal(value, DecimalType(precision, -exponent)) if precision <= _PRECISION_MAX else None


def _cast(literal: Literal | None, written: str, zone: str) -> Literal | None:
    """`DATE'…'`, `CAST(NULL AS INT)` and the like, in capitals; casts with a say of their own are left to Spark."""
    to = _TYPE.fullmatch(written)
    if literal is None or to is None:
        return None
    target, value = to["name"], literal.value
    try:
        if value is None:
            return literal
        if target in _WHOLE_TYPES and isinstance(literal.data_type, IntegerType | LongType):
            return _whole(value, _WHOLE_TYPES[target])
        if target in _DOUBLES and isinstance(value, int | float | decimal.Decimal | str):
            return Literal(float(value), DoubleType())
        if target in _FLOATS and isinstance(value, int | float | decimal.Decimal | str):
            return Literal(single(float(value)), FloatType())
        if not isinstance(value, str):
            return None
        if target in _DECIMALS and to["scale"] is not None:
            return _exact_decimal(value, precision=int(to["precision"]), scale=int(to["scale"]))
        if target == "DATE":
            return Literal(value_text.parse_days(value), DateType())
        if target in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
            moment = moment_of_text(value, zone=zone)
            return None if moment is None else Literal(moment, TimestampType())
        if target == "TIMESTAMP_NTZ":
            return Literal(value_text.parse_local_micros(value), TimestampNTZType())
    except (ValueError, ArithmeticError):
        return None
    return None


def _whole(value: int, data_type: DataType) -> Literal | None:
    """Out of the type's range a cast wraps around, or fails."""
    half = 1 << (_BITS[data_type.typeName()] - 1)
    return Literal(value, data_type) if -half <= value < half else None


def _exact_decimal(text: str, *, precision: int, scale: int) -> Literal | None:
    """The type is that of the digits written, or wider. A type that would round them is a cast of its own."""
    literal = _decimal(text)
    if literal is None or not isinstance(literal.data_type, DecimalType):
        return None
    own = literal.data_type
    fits = scale >= own.scale and precision - scale >= own.precision - own.scale
    return Literal(literal.value, DecimalType(precision, scale)) if fits else None
