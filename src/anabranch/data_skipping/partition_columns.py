"""Partition values of many files as typed columns. See "Partition Value Serialization" of PROTOCOL.md."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import CharType, DataType, StructField, TimestampType

from anabranch.data_skipping.column_bounds import ColumnBounds, bound_type, is_plain_text, unbounded
from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol.partition_values import parse_column
from anabranch.protocol.time_zones import FixedOffset, TimeZone

_EASTMOST, _WESTMOST = FixedOffset(18 * 3_600_000_000), FixedOffset(-18 * 3_600_000_000)
"""No zone is further from UTC: a timestamp without a zone lies between its values in these two."""


def partition_bounds(
    values: pa.ChunkedArray, field: StructField, *, padded: bool, time_zone: TimeZone | None
) -> ColumnBounds:
    """The value that all rows of a file have in a partition column, as lower and upper bound.

    `time_zone` is that of timestamps that do not name theirs; None allows for every zone. A value that does not parse
    gives no bound: the file is not skipped, and reading it raises.
    """
    data_type = field.dataType
    texts = partition_texts(values, field.name)
    if bound_type(data_type) is None:
        return unbounded(len(texts), data_type)
    encoded = texts.dictionary_encode()
    lower = _parsed(encoded.dictionary, data_type, time_zone or _EASTMOST).take(encoded.indices)
    upper = lower
    if time_zone is None and isinstance(data_type, TimestampType):
        upper = _parsed(encoded.dictionary, data_type, _WESTMOST).take(encoded.indices)
    upper_open = None
    if is_plain_text(data_type) and (padded or isinstance(data_type, CharType)):
        lower, upper, upper_open = padded_bounds(lower, upper)
    null = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return ColumnBounds(
        data_type=data_type, lower=lower, upper=upper, upper_open=upper_open, null_free=~null, all_null=null
    )


def padded_bounds(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Bounds of text that is compared as if filled up with spaces, whether the file has them or not."""
    # Characters below the space sort before the padding, so the upper bound ends before the first of them.
    stem = pc.replace_substring_regex(upper, r"(?s)[\x00-\x1f].*$", "")
    return pc.utf8_rtrim(lower, " "), pc.utf8_rtrim(stem, " "), pc.if_else(pc.is_valid(upper), True, None)


def partition_texts(values: pa.ChunkedArray, name: str) -> pa.Array:
    """The value of one column in each map; NULL for an empty text and for a missing key."""
    arrays = [pa.nulls(0, pa.string())]
    for chunk in values.chunks:
        key = pa.scalar(name, chunk.type.key_type)
        arrays.append(pc.cast(pc.map_lookup(chunk, query_key=key, occurrence="first"), pa.string()))
    whole = pa.concat_arrays(arrays)
    return pc.if_else(pc.equal(whole, ""), None, whole)


def _parsed(texts: pa.Array, data_type: DataType, zone: TimeZone) -> pa.Array:
    """The texts as values of bounds; null for one that does not parse, and for NaN, which IEEE does not order."""
    try:
        typed = parse_column(texts, data_type, zone=zone)
    except PartitionValueError:
        typed = pa.concat_arrays([_parsed_alone(texts.slice(index, 1), data_type, zone) for index in range(len(texts))])
    kind = bound_type(data_type)
    if pa.types.is_date32(typed.type):
        typed = pc.cast(typed, pa.int32())
    typed = pc.cast(typed, kind)
    return pc.if_else(pc.is_nan(typed), None, typed) if pa.types.is_floating(kind) else typed


def _parsed_alone(text: pa.Array, data_type: DataType, zone: TimeZone) -> pa.Array:
    try:
        return parse_column(text, data_type, zone=zone)
    except PartitionValueError:
        return parse_column(pa.nulls(1, pa.string()), data_type, zone=zone)
