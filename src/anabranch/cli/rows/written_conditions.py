"""Parses the condition of `--where` into a predicate."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import Any

import sqlglot
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
    StructField,
    TimestampNTZType,
    TimestampType,
)
from sqlglot import exp

from anabranch.errors.arguments import PredicateSyntaxError
from anabranch.predicates.calendar_conditions import day_condition, year_condition
from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    GE,
    GT,
    LE,
    LT,
    NE,
    Column,
    ColumnPath,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    conjunction,
    disjunction,
)
from anabranch.predicates.literal_casts import coerced
from anabranch.protocol.time_zones import TimeZone

FindColumn = Callable[[ColumnPath], tuple[ColumnPath, StructField]]
"""The path of a column in the schema's spelling, and its field. Raises `ColumnNotFoundError`."""

TEXT_CHARACTERS_MAX = 1 << 20
_UNKNOWN_TEXT_MAX = 500
_PRECISION_MAX = 38
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_PARTS = frozenset({"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"})
"""The arguments of a node that are interpreted; a node with any other is unknown."""
_COMPARISONS: Mapping[type, Operator] = {
    exp.EQ: EQ,
    exp.NEQ: NE,
    exp.LT: LT,
    exp.LTE: LE,
    exp.GT: GT,
    exp.GTE: GE,
    exp.NullSafeEQ: EQ_NULL_SAFE,
}
_TYPES: Mapping[Any, DataType] = {
    exp.DataType.Type.TINYINT: ByteType(),
    exp.DataType.Type.SMALLINT: ShortType(),
    exp.DataType.Type.INT: IntegerType(),
    exp.DataType.Type.BIGINT: LongType(),
    exp.DataType.Type.FLOAT: FloatType(),
    exp.DataType.Type.DOUBLE: DoubleType(),
    exp.DataType.Type.DATE: DateType(),
    exp.DataType.Type.TIMESTAMP: TimestampType(),
    exp.DataType.Type.TIMESTAMPTZ: TimestampType(),
    exp.DataType.Type.TIMESTAMPLTZ: TimestampType(),
    exp.DataType.Type.TIMESTAMPNTZ: TimestampNTZType(),
}


def parse_condition(text: str, find_column: FindColumn, *, time_zone: TimeZone) -> Predicate:
    """The condition as a predicate in logical names. Parts that only Spark can evaluate become `Unknown`.

    `time_zone` is the zone of timestamps without one. Raises `PredicateSyntaxError`, and `ColumnNotFoundError` for a
    column that the table lacks.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise PredicateSyntaxError(text=text, line=1, column=1, reason=f"it has over {TEXT_CHARACTERS_MAX} characters")
    try:
        return _Reader(find_column, time_zone).predicate(sqlglot.condition(text, dialect="spark"))
    except sqlglot.ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise PredicateSyntaxError(
            text=text,
            line=first.get("line") or 1,
            column=first.get("col") or 1,
            reason=str(first.get("description") or "it is no condition"),
        ) from None
    except sqlglot.TokenError as error:
        raise PredicateSyntaxError(text=text, line=1, column=1, reason=str(error)) from None
    except RecursionError:
        raise PredicateSyntaxError(text=text, line=1, column=1, reason="it nests too deeply") from None


class _Reader:
    """Translates nodes of SQLGlot's syntax tree."""

    def __init__(self, find_column: FindColumn, time_zone: TimeZone) -> None:
        self._find_column = find_column
        self._zone = time_zone

    def predicate(self, node: Any) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return conjunction(self.predicate(part) for part in node.flatten())
            case exp.Or():
                return disjunction(self.predicate(part) for part in node.flatten())
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.NullSafeNEQ():
                return Not(self._comparison(EQ_NULL_SAFE, node))
            case exp.Boolean():
                return Truth(bool(node.this))
            case exp.Null():
                return Truth(None)
        return self._of_columns(node)

    def _of_columns(self, node: Any) -> Predicate:
        if any(value and name not in _PARTS for name, value in node.args.items()):
            # An argument beside the operands, such as a subquery in an IN, changes the meaning.
            return self._unknown(node)
        predicate = self._condition(node)
        if predicate is None:
            return self._unknown(node)
        return Not(predicate) if node.args.get("negate") else predicate

    def _condition(self, node: Any) -> Predicate | None:
        """The predicate of a node over columns, without its negation; None where only Spark can evaluate it."""
        predicate: Predicate | None = None
        match node:
            case exp.Column():
                column, data_type = self._column(node)
                if isinstance(data_type, BooleanType):
                    predicate = Comparison(EQ, column, Literal(True, BooleanType()))
            case exp.Is(this=exp.Column() as column, expression=exp.Null()):
                predicate = IsNull(self._column(column)[0])
            case exp.Between(this=value):
                low = exp.GTE(this=value, expression=node.args["low"])
                high = exp.LTE(this=value.copy(), expression=node.args["high"])
                predicate = conjunction([self._comparison(GE, low), self._comparison(LE, high)])
            case exp.In(this=exp.Column()):
                predicate = self._membership(node)
            case exp.Like(this=exp.Column(), expression=exp.Literal(this=pattern)):
                predicate = self._pattern(node, pattern)
            case exp.StartsWith(this=exp.Column(), expression=exp.Literal(is_string=True)):
                predicate = self._prefix(node, node.expression.this)
            case exp.Binary() if type(node) in _COMPARISONS:
                predicate = self._comparison(_COMPARISONS[type(node)], node)
        return predicate

    def _unknown(self, node: Any) -> Unknown:
        columns = (self._column(column)[0] for column in node.find_all(exp.Column))
        return Unknown(
            node.sql(dialect="spark", normalize_functions="lower")[:_UNKNOWN_TEXT_MAX], tuple(dict.fromkeys(columns))
        )

    def _column(self, node: exp.Column) -> tuple[Column, DataType]:
        path, field = self._find_column(tuple(part.name for part in node.parts))
        return Column(path), field.dataType

    def _comparison(self, operator: Operator, node: Any) -> Predicate:
        left, right = node.this.unnest(), node.expression.unnest()
        if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
            left, right, operator = right, left, operator.mirrored
        predicate: Predicate | None = None
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            (column, data_type), (other, other_type) = self._column(left), self._column(right)
            if data_type == other_type and _has_plain_order(data_type):
                predicate = Comparison(operator, column, other)
        elif (literal := self._literal(right)) is not None:
            predicate = self._against_literal(operator, left, literal)
        return self._unknown(node) if predicate is None else predicate

    def _against_literal(self, operator: Operator, node: Any, literal: Literal) -> Predicate | None:
        match node:
            case exp.Column():
                column, data_type = self._column(node)
                value = self._coerced(literal, data_type)
                return None if value is None else Comparison(operator, column, value)
            case exp.Year(this=exp.TsOrDsToDate(this=exp.Column() as inner)) | exp.Year(this=exp.Column() as inner):
                column, data_type = self._column(inner)
                is_whole = isinstance(literal.data_type, IntegerType)
                return year_condition(column, data_type, operator, literal.value, zone=self._zone) if is_whole else None
            case exp.Cast(this=exp.Column() as inner) if node.to.this is not exp.DataType.Type.DATE:
                return None
            case exp.Cast(this=exp.Column() as inner) | exp.TsOrDsToDate(this=exp.Column() as inner):
                column, data_type = self._column(inner)
                day = coerced(literal, DateType(), zone=self._zone)
                return None if day is None else day_condition(column, data_type, operator, day.value, zone=self._zone)
        return None

    def _membership(self, node: exp.In) -> Predicate | None:
        column, data_type = self._column(node.this)
        literals = [self._literal(value) for value in node.expressions]
        values = [None if literal is None else self._coerced(literal, data_type) for literal in literals]
        constants = tuple(value for value in values if value is not None)
        return In(column, constants) if constants and len(constants) == len(values) else None

    def _pattern(self, node: exp.Like, pattern: str) -> Predicate | None:
        stem = pattern.removesuffix("%")
        if any(character in stem for character in "%_\\"):
            return None
        column, data_type = self._column(node.this)
        if not isinstance(data_type, StringType) or not _has_plain_order(data_type):
            return None
        if stem == pattern:
            return Comparison(EQ, column, Literal(stem, StringType()))
        return self._prefix(node, stem)

    def _prefix(self, node: Any, prefix: str) -> Predicate | None:
        column, data_type = self._column(node.this)
        return StartsWith(column, prefix) if isinstance(data_type, StringType) and _has_plain_order(data_type) else None

    def _coerced(self, literal: Literal, data_type: DataType) -> Literal | None:
        return coerced(literal, data_type, zone=self._zone) if _has_plain_order(data_type) else None

    def _literal(self, node: Any) -> Literal | None:
        match node:
            case exp.Paren():
                return self._literal(node.this)
            case exp.Neg():
                inner = self._literal(node.this)
                is_number = inner is not None and isinstance(inner.value, int | float | decimal.Decimal)
                return Literal(-inner.value, inner.data_type) if inner is not None and is_number else None
            case exp.Literal(is_string=True) | exp.RawString():
                return Literal(node.this, StringType())
            case exp.Literal():
                return _number(node.this)
            case exp.Null():
                return Literal(None, NullType())
            case exp.Boolean():
                return Literal(bool(node.this), BooleanType())
            case exp.HexString():
                return Literal(bytes.fromhex(node.this), BinaryType())
            case exp.Cast(this=exp.Literal() as inner) if node.to.this in _TYPES:
                value = self._literal(inner)
                return None if value is None else coerced(value, _TYPES[node.to.this], zone=self._zone)
        return None


def _number(text: str) -> Literal | None:
    if text.isdecimal() and int(text) <= _LONG_MAX:
        return Literal(int(text), IntegerType() if int(text) <= _INT_MAX else LongType())
    if "e" in text.lower():
        return Literal(float(text), DoubleType())
    value = decimal.Decimal(text)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0 or max(len(digits), -exponent) > _PRECISION_MAX:
        return None
    return Literal(value, DecimalType(max(len(digits), -exponent), -exponent))


def _has_plain_order(data_type: DataType) -> bool:
    """Whether values are compared as they are; strings with another collation than `UTF8_BINARY` are not."""
    return not isinstance(data_type, StringType) or getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
