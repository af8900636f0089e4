"""Bounds on the values of one column in many files, and what follows from them for conditions on the column.

Each method answers one question, for all files at once: *can the condition be true for a row of the file?* False means
certainly not; a missing bound makes the answer True.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import EQ, GE, GT, LE, LT, NE, Literal, Operator

EXACT_DECIMAL = pa.decimal256(76, 38)
"""A type that holds every decimal of Spark."""
_ONE_BY_ONE_MAX = 64
"""Of longer lists of texts, only the least and the greatest are compared with the bounds."""
_DOUBLE_EXACT_MAX = 1 << 53


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Bounds on the values of one column, one entry a file.

    1. Every value that is not NULL lies between `lower` and `upper`; a null there is no bound.
    2. Where `upper_open` is true, it may also be any text that begins with `upper`.
    3. With `may_be_nan` it may also be NaN, which is above all others: not every writer includes NaN in its bounds.
    4. `null_free` and `all_null` are about the rows of the file; false means "unknown".
    """

    data_type: DataType
    lower: pa.Array
    upper: pa.Array
    upper_open: pa.Array | None = None
    may_be_nan: bool = False
    null_free: FileMask
    all_null: FileMask

    def scalar(self, literal: Literal) -> pa.Scalar | None:
        """The literal as the bounds store values, or None where Spark would not simply compare the two."""
        value = _comparable(literal, self.data_type)
        if value is None:
            return None
        if pa.types.is_floating(self.lower.type):
            value = float(value)
        try:
            return pa.scalar(value, self.lower.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return None

    def can_compare(self, operator: Operator, literal: Literal) -> FileMask:
        """Whether a value can satisfy a comparison with a literal that is not NULL."""
        value = self.scalar(literal)
        if value is None or (self.may_be_nan and operator in (NE, GT, GE)):
            return ~self.all_null
        if operator is EQ:
            possible = pc.and_kleene(pc.less_equal(self.lower, value), self._reaches(value))
        elif operator is NE:
            possible = pc.invert(pc.and_kleene(pc.equal(self.lower, value), self._ends_at(value)))
        elif operator in (LT, LE):
            possible = (pc.less if operator is LT else pc.less_equal)(self.lower, value)
        elif operator is GE:
            possible = self._reaches(value)
        else:
            possible = pc.greater(self.upper, value)
            if self.upper_open is not None:
                possible = pc.or_kleene(possible, pc.and_kleene(self.upper_open, self._reaches(value)))
        return _or_unknown(possible) & ~self.all_null

    def can_be_in(self, literals: Sequence[Literal]) -> FileMask:
        """Whether a value can equal one of the literals, none of which is NULL."""
        values = [self.scalar(literal) for literal in literals]
        if any(value is None for value in values):
            return ~self.all_null
        numbers = self._as_numbers()
        if numbers is not None:
            return (
                _contains_any(numbers, sorted(value.as_py() for value in values if value is not None)) & ~self.all_null
            )
        if len(literals) <= _ONE_BY_ONE_MAX:
            mask = np.zeros(len(self.all_null), dtype=np.bool_)
            for literal in literals:
                mask |= self.can_compare(EQ, literal)
            return mask
        ordered = sorted(literals, key=lambda literal: _order(literal.value))
        return self.can_compare(GE, ordered[0]) & self.can_compare(LE, ordered[-1])

    def can_differ_from_all(self, literals: Sequence[Literal]) -> FileMask:
        """Whether a value can differ from every one of the literals, none of which is NULL."""
        mask = ~self.all_null
        # Only a file with a single value can lack one that differs.
        for literal in literals:
            mask &= self.can_compare(NE, literal)
        return mask

    def can_start_with(self, prefix: str) -> FileMask:
        """Whether a text can begin with `prefix`."""
        value = self.scalar(Literal(prefix, StringType()))
        if value is None:
            return ~self.all_null
        at_or_before = pc.or_kleene(pc.less_equal(self.lower, value), pc.starts_with(self.lower, prefix))
        return _or_unknown(pc.and_kleene(at_or_before, self._reaches(value))) & ~self.all_null

    def can_start_otherwise(self, prefix: str) -> FileMask:
        """Whether a text can begin with something else."""
        if self.scalar(Literal(prefix, StringType())) is None:
            return ~self.all_null
        # Texts between two that begin with it begin with it too, and so does any text that continues the upper.
        both = pc.and_kleene(pc.starts_with(self.lower, prefix), pc.starts_with(self.upper, prefix))
        return _or_unknown(pc.invert(both)) & ~self.all_null

    def can_relate(self, operator: Operator, other: ColumnBounds) -> FileMask:
        """Whether the values of two columns in one row can satisfy a comparison."""
        possible = ~self.all_null & ~other.all_null
        bounded = self.upper_open is None and other.upper_open is None and not self.may_be_nan
        if not bounded or self.data_type != other.data_type or self.lower.type != other.lower.type:
            return possible
        if operator in (GT, GE):
            return other.can_relate(operator.mirrored, self)
        if operator in (LT, LE):
            return possible & _or_unknown((pc.less if operator is LT else pc.less_equal)(self.lower, other.upper))
        if operator is EQ:
            meet = pc.and_kleene(pc.less_equal(self.lower, other.upper), pc.less_equal(other.lower, self.upper))
            return possible & _or_unknown(meet)
        return possible

    def can_be_null(self) -> FileMask:
        return ~self.null_free

    def can_be_present(self) -> FileMask:
        return ~self.all_null

    def _reaches(self, value: pa.Scalar) -> pa.Array:
        """Whether values can be as great as `value` or greater."""
        reached = pc.greater_equal(self.upper, value)
        if self.upper_open is None:
            return reached
        # A bound that was cut allows all texts that begin with it, and `value` may be one of these.
        return pc.or_kleene(reached, pc.and_kleene(self.upper_open, _is_prefix_of(self.upper, value.as_py())))

    def _ends_at(self, value: pa.Scalar) -> pa.Array:
        ends = pc.equal(self.upper, value)
        return ends if self.upper_open is None else pc.and_kleene(ends, pc.invert(self.upper_open))

    def _as_numbers(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FileMask] | None:
        """Lower bounds, upper bounds and whether there are both; None if NumPy does not order values as Spark does."""
        if not pa.types.is_int64(self.lower.type):
            return None
        bounded = pc.and_(pc.is_valid(self.lower), pc.is_valid(self.upper)).to_numpy(zero_copy_only=False)
        lower, upper = (pc.fill_null(side, 0).to_numpy(zero_copy_only=False) for side in (self.lower, self.upper))
        return lower, upper, bounded


def unbounded(count: int, data_type: DataType) -> ColumnBounds:
    """Bounds that exclude no value."""
    unknown = np.zeros(count, dtype=np.bool_)
    empty = pa.nulls(count, bound_type(data_type) or pa.int64())
    return ColumnBounds(data_type=data_type, lower=empty, upper=empty, null_free=unknown, all_null=unknown)


def bound_type(data_type: DataType) -> pa.DataType | None:
    """The Arrow type in which bounds of a type are stored; None for types whose order is not supported."""
    if isinstance(data_type, IntegralType | DateType | TimestampType | TimestampNTZType):
        return pa.int64()
    if isinstance(data_type, FloatType | DoubleType):
        return pa.float64()
    if isinstance(data_type, DecimalType):
        return EXACT_DECIMAL
    if isinstance(data_type, BooleanType):
        return pa.bool_()
    if isinstance(data_type, BinaryType):
        return pa.binary()
    return pa.string() if is_plain_text(data_type) else None


def is_plain_text(data_type: DataType) -> bool:
    """Whether the type is text that is ordered by its bytes."""
    if isinstance(data_type, CharType | VarcharType):
        return True
    return isinstance(data_type, StringType) and getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"


def _comparable(literal: Literal, data_type: DataType) -> Any:
    """The literal's value, if Spark compares it with the column by value; None otherwise."""
    value, literal_type = literal.value, literal.data_type
    if isinstance(data_type, IntegralType):
        if (
            isinstance(literal_type, DecimalType)
            and isinstance(value, decimal.Decimal)
            and value == value.to_integral_value()
        ):
            return int(value)
        return value if isinstance(literal_type, IntegralType) else None
    if isinstance(data_type, FloatType | DoubleType):
        return _comparable_double(value, literal_type)
    if isinstance(data_type, DecimalType):
        return decimal.Decimal(value) if isinstance(literal_type, DecimalType | IntegralType) else None
    if is_plain_text(data_type):
        return value if is_plain_text(literal_type) else None
    if type(literal_type) is type(data_type) and isinstance(
        data_type, DateType | TimestampType | TimestampNTZType | BooleanType | BinaryType
    ):
        return bytes(value) if isinstance(data_type, BinaryType) else value
    return None


def _comparable_double(value: Any, literal_type: DataType) -> float | None:
    # Spark compares as doubles; a whole number beyond 2^53 is rounded by that, and IEEE order has no place for NaN.
    if isinstance(literal_type, IntegralType) and abs(value) > _DOUBLE_EXACT_MAX:
        return None
    if not isinstance(literal_type, IntegralType | FloatType | DoubleType | DecimalType):
        return None
    number = float(value)
    return None if math.isnan(number) else number + 0.0


def _order(value: Any) -> Any:
    # Spark orders text by its UTF-8 bytes.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _is_prefix_of(texts: pa.Array, whole: str | bytes) -> pa.Array:
    """Which of `texts` are prefixes of `whole`."""
    if not isinstance(whole, str):
        return pc.fill_null(pc.is_null(texts), True)
    lengths = sorted(set(pc.unique(pc.utf8_length(texts)).drop_null().to_pylist()))
    prefixes = pa.array({whole[:length] for length in lengths if length <= len(whole)}, pa.string())
    return pc.if_else(pc.is_valid(texts), pc.is_in(texts, value_set=prefixes), None)


def _contains_any(bounds: tuple[npt.NDArray[Any], npt.NDArray[Any], FileMask], ordered: Sequence[Any]) -> FileMask:
    """Whether one of the values lies between lower and upper bound; True where one of these is missing."""
    lower, upper, bounded = bounds
    if not ordered:
        return np.zeros(len(bounded), dtype=np.bool_)
    values = np.array(ordered, dtype=np.int64)
    first_not_below = np.searchsorted(values, lower, side="left")
    inside = first_not_below < len(values)
    inside &= values[np.minimum(first_not_below, len(values) - 1)] <= upper
    mask: FileMask = inside | ~bounded
    return mask


def _or_unknown(possible: pa.Array | pa.ChunkedArray) -> FileMask:
    if isinstance(possible, pa.ChunkedArray):
        possible = possible.combine_chunks()
    mask: FileMask = pc.fill_null(possible, True).to_numpy(zero_copy_only=False)
    return mask
