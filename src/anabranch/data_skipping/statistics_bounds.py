"""Bounds on the values of a column from its statistics.

Reads "Per-file Statistics" of PROTOCOL.md and allows for their imprecision: text cut short, timestamps cut to
milliseconds, numbers written as a double, types widened since, padded text.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    StructField,
    TimestampNTZType,
    TimestampType,
)

from anabranch.data_skipping.column_bounds import ColumnBounds, bound_type, is_plain_text, unbounded
from anabranch.data_skipping.partition_columns import padded_bounds
from anabranch.data_skipping.statistics_columns import LeafStatistics
from anabranch.data_skipping.statistics_times import days_of, micros_of
from anabranch.schema.type_widening import TYPE_CHANGES

CUT_TEXT_CHARACTERS = 32
"""Texts of this length may have been cut, as the protocol allows. The upper bound then allows all texts that begin with
it."""
MILLISECOND_US = 1000
DECIMAL_ERROR = 1e-15
"""The relative error of a decimal bound, as some writers convert decimals to doubles."""


def json_type(data_type: DataType) -> pa.DataType:
    """The type of a bound in the JSON of statistics; arbitrary for types without bounds."""
    kind = bound_type(data_type)
    if isinstance(data_type, DecimalType | FloatType | DoubleType):
        return pa.float64()
    if kind == pa.int64() and not isinstance(data_type, DateType | TimestampType | TimestampNTZType):
        return pa.int64()
    return pa.bool_() if isinstance(data_type, BooleanType) else pa.string()


def bounds_from_statistics(statistics: LeafStatistics, field: StructField, *, padded: bool) -> ColumnBounds:
    """The bounds of a column from its typed statistics."""
    data_type = field.dataType
    lower, upper = _loosened(statistics.lower, statistics.upper, field)
    upper_open = None
    if is_plain_text(data_type):
        lower, upper, upper_open = _text_bounds(lower, upper, padded=padded or isinstance(data_type, CharType))
    return ColumnBounds(
        data_type=data_type,
        lower=lower,
        upper=upper,
        upper_open=upper_open,
        may_be_nan=isinstance(data_type, FloatType | DoubleType),
        # A count between none and all may be older than the deletion vector, and decides nothing; these two still hold.
        null_free=_is_true(pc.equal(statistics.null_count, 0)),
        all_null=_is_true(pc.equal(statistics.null_count, statistics.num_records)),
    )


def _values(column: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Bounds as values that can be compared, from JSON or from a struct; null for those that cannot be read."""
    whole = _one_array(column)
    kind = pa.float64() if isinstance(data_type, DecimalType) else bound_type(data_type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    if isinstance(data_type, DateType):
        return days_of(whole)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return micros_of(whole, zoned=isinstance(data_type, TimestampType))
    if pa.types.is_string(whole.type) is not (kind == pa.string()) and not pa.types.is_large_string(whole.type):
        return pa.nulls(len(whole), kind)
    try:
        return pc.cast(whole, kind)
    except pa.ArrowInvalid:
        return pa.nulls(len(whole), kind)


def _loosened(lower: pa.Array, upper: pa.Array, field: StructField) -> tuple[pa.Array, pa.Array]:
    """Bounds moved apart by the largest error that a writer may have made."""
    data_type = field.dataType
    if isinstance(data_type, TimestampType | TimestampNTZType):
        # Writers cut timestamps to milliseconds, some of them towards the epoch.
        before_epoch = pc.less(lower, 0)
        lower = pc.if_else(before_epoch, pc.subtract(lower, MILLISECOND_US), lower)
        return lower, pc.add(upper, MILLISECOND_US)
    if isinstance(data_type, DecimalType):
        error = (pc.multiply(pc.abs(side), DECIMAL_ERROR) for side in (lower, upper))
        return pc.subtract(lower, next(error)), pc.add(upper, next(error))
    if isinstance(data_type, FloatType):
        return _rounded_to_float(lower), _rounded_to_float(upper)
    if isinstance(data_type, DoubleType) and TYPE_CHANGES in field.metadata:
        # If written when the column was a float, 1.1 is the float nearest to it, which is another double.
        return _next_float(lower, -np.inf), _next_float(upper, np.inf)
    return lower, upper


def _rounded_to_float(bound: pa.Array) -> pa.Array:
    """The float nearest to each bound, which was read from decimal text, as a double."""
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return pc.if_else(pc.is_valid(bound), pa.array(rounded), None)


def _next_float(bound: pa.Array, direction: float) -> pa.Array:
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.nextafter(values.astype(np.float32), np.float32(direction)).astype(np.float64)
    # A value beyond the range of floats was written as a double.
    moved = np.where(np.isfinite(moved), moved, values)
    return pc.if_else(pc.is_valid(bound), pa.array(moved), None)


def _text_bounds(lower: pa.Array, upper: pa.Array, *, padded: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Bounds of text, and whether the upper one allows all texts that begin with it."""
    if not padded:
        return lower, upper, pc.greater_equal(pc.utf8_length(upper), CUT_TEXT_CHARACTERS)
    return padded_bounds(lower, upper)


def typed(statistics: LeafStatistics, data_type: DataType) -> LeafStatistics:
    """The statistics with bounds as values that can be compared."""
    has_bounds = bound_type(data_type) is not None and not isinstance(data_type, BooleanType | BinaryType)
    no_bounds = unbounded(len(statistics.num_records), data_type).lower
    return LeafStatistics(
        lower=_values(statistics.lower, data_type) if has_bounds else no_bounds,
        upper=_values(statistics.upper, data_type) if has_bounds else no_bounds,
        null_count=whole_numbers(statistics.null_count),
        num_records=whole_numbers(statistics.num_records),
    )


def joined(parts: Sequence[LeafStatistics], data_type: DataType) -> LeafStatistics:
    """The typed statistics of some files after those of others."""
    empty = unbounded(0, data_type).lower
    return LeafStatistics(
        lower=pa.concat_arrays([part.lower for part in parts] or [empty]),
        upper=pa.concat_arrays([part.upper for part in parts] or [empty]),
        null_count=pa.concat_arrays([part.null_count for part in parts] or [pa.nulls(0, pa.int64())]),
        num_records=pa.concat_arrays([part.num_records for part in parts] or [pa.nulls(0, pa.int64())]),
    )


def coalesced(first: LeafStatistics, second: LeafStatistics) -> LeafStatistics:
    """The first statistics, with those of the second where the first are null; both typed."""
    return LeafStatistics(
        lower=pc.coalesce(first.lower, second.lower),
        upper=pc.coalesce(first.upper, second.upper),
        null_count=pc.coalesce(first.null_count, second.null_count),
        num_records=pc.coalesce(first.num_records, second.num_records),
    )


def whole_numbers(column: pa.ChunkedArray) -> pa.Array:
    """Counts as one array of int64; nulls if they are not whole numbers."""
    whole = _one_array(column)
    try:
        return pc.cast(whole, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(whole), pa.int64())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _is_true(truth: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(truth, False).to_numpy(zero_copy_only=False)
    return mask
