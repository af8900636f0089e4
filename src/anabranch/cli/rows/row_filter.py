"""Evaluates conditions on Arrow columns as Spark does: three-valued, NaN above all numbers, text by its bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from anabranch.errors.arguments import ConditionNeedsSparkError
from anabranch.predicates.expressions import (
    And,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Operand,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    is_exact,
    nodes_of,
)
from anabranch.schema.logical_types import length_limits

_INT64_MAX = 2**63 - 1
_COMPARISONS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


class RowFilter:
    """Keeps the rows for which a condition, in logical names, is true.

    The constructor raises `ConditionNeedsSparkError` if the condition has parts that only Spark can evaluate.
    """

    def __init__(self, predicate: Predicate, schema: StructType, *, text: str) -> None:
        if not is_exact(predicate):
            parts = tuple(node.text for node in nodes_of(predicate) if isinstance(node, Unknown))
            raise ConditionNeedsSparkError(condition_text=text, parts=parts)
        self._predicate = predicate
        self._padded = frozenset(limit.path for limit in length_limits(schema) if limit.padded)
        self._text = text

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `rows` for which the condition is true."""
        try:
            truth = self._evaluate(self._predicate, rows)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise ConditionNeedsSparkError(condition_text=self._text, parts=(str(error),)) from error
        return rows.filter(pc.fill_null(truth, False))

    def _evaluate(self, node: Predicate, rows: pa.RecordBatch) -> pa.Array:
        match node:
            case And(operands):
                return functools.reduce(pc.and_kleene, [self._evaluate(operand, rows) for operand in operands])
            case Or(operands):
                return functools.reduce(pc.or_kleene, [self._evaluate(operand, rows) for operand in operands])
            case Not(operand):
                return pc.invert(self._evaluate(operand, rows))
            case Truth(value):
                return pa.repeat(pa.scalar(value, pa.bool_()), rows.num_rows)
            case IsNull(column):
                return pc.is_null(self._stored(column, rows))
            case IsNotNull(column):
                return pc.is_valid(self._stored(column, rows))
            case StartsWith(column, prefix):
                return pc.starts_with(pc.cast(self._stored(column, rows), pa.string()), prefix)
            case Comparison(operator, left, right):
                return self._compare(operator, left, right, rows)
            case In(column, values):
                equal = [self._compare(Operator.EQ, column, value, rows) for value in values]
                return functools.reduce(pc.or_kleene, equal)
        raise AssertionError(f"the constructor must have refused the inexact predicate {node}")

    def _compare(self, operator: Operator, left: Column, right: Operand, rows: pa.RecordBatch) -> pa.Array:
        values, others = _in_common_type(self._operand(left, rows), self._operand(right, rows))
        if any(isinstance(side, Column) and side.path in self._padded for side in (left, right)):
            values, others = (pc.utf8_rtrim(side, " ") for side in (values, others))
        if operator is not Operator.EQ_NULL_SAFE:
            return _COMPARISONS[operator](values, others)
        both_null = pc.and_(pc.is_null(values), pc.is_null(others))
        return pc.or_(both_null, pc.fill_null(pc.equal(values, others), False))

    def _operand(self, operand: Operand, rows: pa.RecordBatch) -> pa.Array:
        if isinstance(operand, Column):
            return _comparable(self._stored(operand, rows))
        return _comparable(pa.repeat(_scalar(operand), rows.num_rows))

    def _stored(self, column: Column, rows: pa.RecordBatch) -> pa.Array:
        name, *below = column.path
        values = rows.column(rows.schema.get_field_index(name))
        for part in below:
            values = pc.struct_field(values, part)
        return values


def _scalar(literal: Literal) -> pa.Scalar:
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool) and not -_INT64_MAX <= value <= _INT64_MAX:
        return pa.scalar(value, pa.decimal128(38, 0))
    return pa.scalar(value)


def _comparable(values: pa.Array) -> pa.Array:
    """The values in a type that orders them as Spark does: dates and times as numbers, as literals are."""
    arrow = values.type
    if pa.types.is_date32(arrow):
        return values.cast(pa.int32())
    if pa.types.is_timestamp(arrow):
        return values.cast(pa.int64())
    if pa.types.is_boolean(arrow):
        return values.cast(pa.int8())
    if pa.types.is_floating(arrow):
        return _ordered_integers(values.cast(pa.float64()))
    if pa.types.is_nested(arrow):
        raise pa.ArrowNotImplementedError(f"comparing values of type {arrow}")
    return values


def _ordered_integers(values: pa.Array) -> pa.Array:
    """Integers in the order that Spark gives these floats: one zero, one NaN, which is above infinity."""
    plain = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    bits = (np.where(np.isnan(plain), np.nan, plain) + 0.0).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(_INT64_MAX), bits)
    return pc.if_else(pc.is_valid(values), pa.array(ordered), None)


def _in_common_type(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both sides in one type, where Arrow has no implicit cast between theirs."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        common = left.type if pa.types.is_null(right.type) else right.type
        return left.cast(common), right.cast(common)
    if pa.types.is_decimal(left.type) != pa.types.is_decimal(right.type):
        wide = pa.decimal256(76, 38)
        return left.cast(wide), right.cast(wide)
    return left, right
