"""From what statistics say of a column to what its values can be.

Reads "Per-file Statistics" of PROTOCOL.md with the doubts that they leave: text cut short, timestamps cut to
milliseconds, numbers written through a double, types widened since, padded text.
"""

from __future__ import annotations

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

from anabranch.data_skipping.column_bounds import ColumnBounds, bound_type, is_plain_text, nothing_known
from anabranch.data_skipping.partition_columns import padded_bounds
from anabranch.data_skipping.statistics_columns import LeafStatistics, days_of, micros_of
from anabranch.schema.type_widening import TYPE_CHANGES

CUT_TEXT_CHARACTERS = 32
"""Texts of this length may have been cut, as the protocol allows; the upper one then stands for all that it begins."""
MILLISECOND_US = 1000
DECIMAL_DOUBT = 1e-15
"""Some writers put decimals through a double; a bound may be off by this part of itself."""


def json_type(data_type: DataType) -> pa.DataType:
    """How the JSON of statistics writes a bound; bounds of types that have none are never looked at."""
    kind = bound_type(data_type)
    if isinstance(data_type, DecimalType | FloatType | DoubleType):
        return pa.float64()
    if kind == pa.int64() and not isinstance(data_type, DateType | TimestampType | TimestampNTZType):
        return pa.int64()
    return pa.bool_() if isinstance(data_type, BooleanType) else pa.string()


def bounds_of(statistics: LeafStatistics, field: StructField, *, padded: bool) -> ColumnBounds:
    """What typed statistics allow the values of a column to be."""
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
        # Any count between none and all may be from before rows were hidden, and says nothing; these two still hold.
        null_free=_known(pc.equal(statistics.null_count, 0)),
        all_null=_known(pc.equal(statistics.null_count, statistics.num_records)),
    )


def _values(column: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Bounds as they are compared, from JSON's types or from those of a struct; null for what cannot be read."""
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
    """Bounds moved apart by as much as a writer may have been off."""
    data_type = field.dataType
    if isinstance(data_type, TimestampType | TimestampNTZType):
        # Cut to milliseconds, by some writers towards the epoch.
        before_epoch = pc.less(lower, 0)
        lower = pc.if_else(before_epoch, pc.subtract(lower, MILLISECOND_US), lower)
        return lower, pc.add(upper, MILLISECOND_US)
    if isinstance(data_type, DecimalType):
        doubt = (pc.multiply(pc.abs(side), DECIMAL_DOUBT) for side in (lower, upper))
        return pc.subtract(lower, next(doubt)), pc.add(upper, next(doubt))
    if isinstance(data_type, FloatType):
        return _rounded_to_float(lower), _rounded_to_float(upper)
    if isinstance(data_type, DoubleType) and TYPE_CHANGES in field.metadata:
        # Written when the column was a float: 1.1 then stands for the float nearest to it, as a double another one.
        return _next_float(lower, -np.inf), _next_float(upper, np.inf)
    return lower, upper


def _rounded_to_float(bound: pa.Array) -> pa.Array:
    """The float that a decimal text stands for, as a double."""
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return pc.if_else(pc.is_valid(bound), pa.array(rounded), None)


def _next_float(bound: pa.Array, direction: float) -> pa.Array:
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.nextafter(values.astype(np.float32), np.float32(direction)).astype(np.float64)
    # Beyond the floats the value was a double from the start.
    moved = np.where(np.isfinite(moved), moved, values)
    return pc.if_else(pc.is_valid(bound), pa.array(moved), None)


def _text_bounds(lower: pa.Array, upper: pa.Array, *, padded: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Bounds of text, and where the upper one stands for all that it begins."""
    if not padded:
        return lower, upper, pc.greater_equal(pc.utf8_length(upper), CUT_TEXT_CHARACTERS)
    return padded_bounds(lower, upper)


def typed(told: LeafStatistics, data_type: DataType) -> LeafStatistics:
    """The same with bounds in the form in which they are compared."""
    plain = bound_type(data_type) is not None and not isinstance(data_type, BooleanType | BinaryType)
    unsure = nothing_known(len(told.num_records), data_type).lower
    return LeafStatistics(
        lower=_values(told.lower, data_type) if plain else unsure,
        upper=_values(told.upper, data_type) if plain else unsure,
        null_count=whole_numbers(told.null_count),
        num_records=whole_numbers(told.num_records),
    )


def either(first: LeafStatistics, second: LeafStatistics) -> LeafStatistics:
    """What the first says, or the second where the first says nothing; both typed."""
    return LeafStatistics(
        lower=pc.coalesce(first.lower, second.lower),
        upper=pc.coalesce(first.upper, second.upper),
        null_count=pc.coalesce(first.null_count, second.null_count),
        num_records=pc.coalesce(first.num_records, second.num_records),
    )


def whole_numbers(column: pa.ChunkedArray) -> pa.Array:
    """Counts as one array of int64; null for what is none."""
    whole = _one_array(column)
    try:
        return pc.cast(whole, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(whole), pa.int64())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _known(truth: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(truth, False).to_numpy(zero_copy_only=False)
    return mask
