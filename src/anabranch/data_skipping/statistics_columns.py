"""Statistics of many files as Arrow columns, and the bounds on the values of a column that follow from them.

They are the JSON strings of `add.stats`, read in few passes, or `stats_parsed`: the reading side of "Per-file
Statistics" of PROTOCOL.md. Statistics only save work: one that is missing or does not parse is null, and never an
error. They may be imprecise: text cut short, timestamps cut to milliseconds, numbers written as a double, types widened
since, padded text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
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
from anabranch.data_skipping.statistics_times import days_of, micros_of
from anabranch.predicates.expressions import ColumnPath
from anabranch.schema.schema_evolution import TYPE_CHANGES

BATCH_BYTES_MAX = 64 << 20
BATCH_ROWS_MAX = 1 << 16
"""One malformed string makes its whole batch be read one by one, so batches stay small."""

_NO_STATISTICS = "{}"
_LOWER, _UPPER, _NULLS = "minValues", "maxValues", "nullCount"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeafStatistics:
    """The statistics of one column as the files have them. All arrays have one length; null for files without them."""

    lower: pa.ChunkedArray | pa.Array
    upper: pa.ChunkedArray | pa.Array
    null_count: pa.ChunkedArray | pa.Array
    num_records: pa.ChunkedArray | pa.Array


def read_statistics(
    stats: Iterable[pa.Array], leaves: dict[ColumnPath, pa.DataType]
) -> dict[ColumnPath, LeafStatistics]:
    """The statistics of the named columns, bounds in the given JSON type: int64, float64, string or bool."""
    schema = _schema(leaves)
    tables = [_read_batch(batch, schema, leaves) for batch in _batches(stats)]
    return extract(pa.concat_tables(tables) if tables else schema.empty_table(), list(leaves))


def statistics_batches(
    stats: Iterable[pa.Array], leaves: dict[ColumnPath, pa.DataType]
) -> Iterator[dict[ColumnPath, LeafStatistics]]:
    """The same for some files at a time, in the order of the texts."""
    schema = _schema(leaves)
    return (extract(_read_batch(batch, schema, leaves), list(leaves)) for batch in _batches(stats))


def read_num_records(stats: Iterable[pa.Array]) -> pa.ChunkedArray:
    """`numRecords` of each file."""
    schema = pa.schema([("numRecords", pa.int64())])
    tables = [_read_batch(batch, schema, {}) for batch in _batches(stats)]
    return pa.concat_tables(tables)["numRecords"] if tables else pa.chunked_array([], pa.int64())


def extract(table: pa.Table, paths: Sequence[ColumnPath]) -> dict[ColumnPath, LeafStatistics]:
    """The statistics from a table that has their fields as columns, such as an unnested `stats_parsed`."""
    return {
        path: LeafStatistics(
            lower=_field(table, (_LOWER, *path)),
            upper=_field(table, (_UPPER, *path)),
            null_count=_field(table, (_NULLS, *path)),
            num_records=_field(table, ("numRecords",)),
        )
        for path in paths
    }


def _field(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    if path[0] not in table.schema.names:
        return pa.chunked_array([pa.nulls(len(table))])
    column = table[path[0]]
    for part in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return pa.chunked_array([pa.nulls(len(table))])
        column = pc.struct_field(column, part)
    return column


def _schema(leaves: dict[ColumnPath, pa.DataType]) -> pa.Schema:
    bounds = _nested(leaves)
    nulls = _nested(dict.fromkeys(leaves, pa.int64()))
    return pa.schema([("numRecords", pa.int64()), (_LOWER, bounds), (_UPPER, bounds), (_NULLS, nulls)])


def _nested(leaves: dict[ColumnPath, pa.DataType]) -> pa.StructType:
    """A struct type that has exactly these leaves."""
    children: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for path, kind in leaves.items():
        children.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct([(name, below[()] if () in below else _nested(below)) for name, below in children.items()])


def _batches(stats: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The strings in batches of bounded size, with `{}` for null and empty ones."""
    for chunk in stats:
        plain = pc.cast(chunk, pa.large_string())
        sizes = pc.fill_null(pc.binary_length(plain), 0)
        rows = BATCH_ROWS_MAX
        if len(plain):
            average = max(1, (pc.sum(sizes).as_py() or 0) // len(plain))
            rows = max(1, min(rows, BATCH_BYTES_MAX // average))
        for start in range(0, len(plain), rows):
            batch = pc.fill_null(plain.slice(start, rows), _NO_STATISTICS)
            yield pc.cast(pc.if_else(pc.equal(batch, ""), _NO_STATISTICS, batch), pa.string())


def _read_batch(batch: pa.Array, schema: pa.Schema, leaves: dict[ColumnPath, pa.DataType]) -> pa.Table:
    try:
        table = _read_lines(batch, schema)
    except pa.ArrowInvalid:
        # A number is written as text, such as "NaN", or a string is not JSON.
        return _read_one_by_one(batch, schema, leaves)
    # With more or fewer values than files, some string held two, or none.
    return table if len(table) == len(batch) else _read_one_by_one(batch, schema, leaves)


def _read_lines(batch: pa.Array, schema: pa.Schema) -> pa.Table:
    text = _lines(batch)
    if np.count_nonzero(np.frombuffer(text, np.uint8) <= ord("\r")) != len(batch) - 1:
        # Line breaks are only between JSON tokens; inside a string they are escaped.
        text = _lines(pc.replace_substring_regex(batch, "[\\r\\n]", " "))
    longest = pc.max(pc.binary_length(batch)).as_py()
    return pyarrow.json.read_json(
        pa.BufferReader(text),
        read_options=pyarrow.json.ReadOptions(block_size=max(4 << 20, 2 * longest)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _lines(texts: pa.Array) -> pa.Buffer:
    """The texts with a line break between two of them."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(whole, "\n")[0].as_buffer()


def _read_one_by_one(batch: pa.Array, schema: pa.Schema, leaves: dict[ColumnPath, pa.DataType]) -> pa.Table:
    """Decode string by string, so that only malformed values are lost."""
    decode = msgspec.json.Decoder().decode
    rows = []
    for text in batch.to_pylist():
        try:
            value = decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            value = None
        rows.append(_row_of(value if isinstance(value, dict) else {}, leaves))
    return pa.Table.from_pylist(rows, schema=schema)


def _row_of(value: dict[str, Any], leaves: dict[ColumnPath, pa.DataType]) -> dict[str, Any]:
    row: dict[str, Any] = {"numRecords": _whole(value.get("numRecords"))}
    for path, kind in leaves.items():
        convert = _CONVERSIONS[kind]
        for part, parse in ((_LOWER, convert), (_UPPER, convert), (_NULLS, _whole)):
            _put(row, (part, *path), parse(_get(value, (part, *path))))
    return row


def _get(value: Any, path: ColumnPath) -> Any:
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _put(row: dict[str, Any], path: ColumnPath, value: Any) -> None:
    for part in path[:-1]:
        row = row.setdefault(part, {})
    row[path[-1]] = value


def _whole(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        return None
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_CONVERSIONS: dict[pa.DataType, Callable[[Any], Any]] = {
    pa.int64(): _whole,
    pa.float64(): _number,
    pa.string(): _text,
    pa.bool_(): _truth,
}


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
