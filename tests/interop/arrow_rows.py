"""Rows as plain values that compare alike, whichever program read them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

Rows = Counter[tuple[Any, ...]]
_LARGE = 100_000


def rows_of(table: pa.Table, columns: Sequence[str] | None = None) -> Rows:
    """The multiset of rows, columns in the order given, by value.

    Programs differ in widths, units and encodings, not in these: whole numbers are int, timestamps are
    microseconds, dates are days, decimals carry no trailing zeros, a map is its entries in order of the keys.
    """
    names = columns or table.column_names
    assert sorted(names) == sorted(table.column_names)
    return Counter(zip(*(_values(table[name]) for name in names), strict=True))


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _values(column.storage)
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if pa.types.is_struct(kind):
        return _structs(column)
    if pa.types.is_map(kind):
        return [_entries(pairs) for pairs in _lists(column, pairs=True)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        # Polars has no maps: it reads them as lists of entries.
        if pa.types.is_struct(kind.value_type) and [f.name for f in kind.value_type] == ["key", "value"]:
            return [_entries(pairs) for pairs in _lists(column, pairs=False)]
        return _lists(column, pairs=False)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.int32()).to_pylist()
    return [_scalar(value) for value in column.to_pylist()]


def _scalar(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return repr(value)  # -0.0 is not 0.0
        case Decimal():
            return f"decimal {value.normalize():f}" if value else "decimal 0"
        case bool():
            return str(value)  # True is not 1
        case bytearray() | memoryview():
            return bytes(value)
    return value


def _structs(column: pa.StructArray) -> list[Any]:
    children = [
        [(field.name, value) for value in _values(column.field(i))] for i, field in enumerate(column.type.fields)
    ]
    valid = column.is_valid().to_pylist()
    return [tuple(child[i] for child in children) if valid[i] else None for i in range(len(column))]


def _lists(column: Any, *, pairs: bool) -> list[Any]:
    if pairs:
        keys, items = _values(column.keys), _values(column.items)
        flat = [(("key", key), ("value", item)) for key, item in zip(keys, items, strict=True)]
    else:
        flat = _values(column.values)
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        bounds = [(i * size, (i + 1) * size) for i in range(column.offset, column.offset + len(column))]
    else:
        offsets = column.offsets.to_pylist()
        bounds = list(itertools.pairwise(offsets))
    valid = column.is_valid().to_pylist()
    return [tuple(flat[start:end]) if ok else None for (start, end), ok in zip(bounds, valid, strict=True)]


def _entries(pairs: tuple[Any, ...] | None) -> Any:
    return None if pairs is None else ("map", *sorted(pairs, key=repr))


def explain(ours: Rows, theirs: Rows) -> str:
    """A few rows that one side has and the other has not; empty where they are equal."""
    extra, missing = list((ours - theirs).elements()), list((theirs - ours).elements())
    if not extra and not missing:
        return ""
    return f"{len(extra)} rows only here, such as {extra[:3]}; {len(missing)} only there, such as {missing[:3]}"


def difference(ours: pa.Table, theirs: pa.Table) -> str:
    """The difference that `explain` has, columns by name; quick for large tables that are equal."""
    names = ours.column_names
    if ours.num_rows > _LARGE and ours.num_rows == theirs.num_rows and sorted(names) == sorted(theirs.column_names):
        order = [(name, "ascending") for name in names]
        if ours.sort_by(order).equals(theirs.select(names).cast(ours.schema).sort_by(order)):
            return ""
    return explain(rows_of(ours), rows_of(theirs, names))
