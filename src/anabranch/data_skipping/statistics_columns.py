"""Statistics of many files as Arrow columns: the JSON strings of `add.stats` in few passes, or `stats_parsed`.

Implements the reading side of "Per-file Statistics" of PROTOCOL.md. Statistics only save work: one that is missing or
does not parse is null, and never an error.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from anabranch.predicates.expressions import ColumnPath

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
