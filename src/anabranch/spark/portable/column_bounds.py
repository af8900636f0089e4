"""Statistics of the rows of one file, gathered while they are written. See "Per-file Statistics"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType

from anabranch.protocol.statistics import FileStatistics, LeafPath
from anabranch.protocol.stats_bounds import has_bounds


class ColumnBounds:
    """Smallest value, largest value and number of nulls of some leaf columns, by physical path.

    The file's own statistics would not do: Parquet leaves NaN out of them, and Spark takes NaN for the
    largest number of all.
    """

    def __init__(self, types: Mapping[LeafPath, DataType]) -> None:
        self._types = types
        self._lows: dict[LeafPath, Any] = {}
        self._highs: dict[LeafPath, Any] = {}
        self._nulls = dict.fromkeys(types, 0)
        self._with_nan: set[LeafPath] = set()
        self._num_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Count those rows in. Their columns have physical names."""
        self._num_rows += rows.num_rows
        for path, data_type in self._types.items():
            values = _leaf(rows, path)
            self._nulls[path] += values.null_count
            if has_bounds(data_type) and values.null_count < len(values):
                self._widen(path, values)

    def statistics(self, *, string_prefix_length: int, tight_bounds: bool | None) -> FileStatistics:
        """Of all rows so far."""
        leaves = {
            path: (
                _as_text(self._lows.get(path), data_type),
                None if path in self._with_nan else _as_text(self._highs.get(path), data_type),
                self._nulls[path],
            )
            for path, data_type in self._types.items()
        }
        return FileStatistics.of_leaves(
            self._num_rows,
            leaves,
            types=self._types,
            string_prefix_length=string_prefix_length,
            tight_bounds=tight_bounds,
        )

    def _widen(self, path: LeafPath, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            values = self._without_nan(path, values)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            # Spark's strings are bytes and are ordered as such; nobody checks that they are UTF-8.
            values = values.cast(pa.large_binary())
        bounds = pc.min_max(values)
        low, high = _plain(bounds["min"]), _plain(bounds["max"])
        if low is None:
            return
        self._lows[path] = min(low, self._lows.get(path, low))
        self._highs[path] = max(high, self._highs.get(path, high))

    def _without_nan(self, path: LeafPath, values: pa.Array) -> pa.Array:
        not_a_number = pc.is_nan(values)
        if not pc.any(not_a_number).as_py():
            return values
        self._with_nan.add(path)
        return values.filter(pc.invert(not_a_number))


def _leaf(rows: pa.RecordBatch, path: LeafPath) -> pa.Array:
    """The values at `path`; a field of a null struct is null."""
    values = rows.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, [_index(values.type, name)])
    return values


def _index(struct: pa.StructType, name: str) -> int:
    return [field.name for field in struct].index(name)


def _plain(bound: pa.Scalar) -> Any:
    """A value that compares as in Spark: timestamps and dates as numbers, strings as bytes."""
    if not bound.is_valid:
        return None
    if pa.types.is_timestamp(bound.type) or pa.types.is_date32(bound.type):
        return bound.value
    value = bound.as_py()
    # Of the two zeros, the negative one is the smaller in files and the same in queries.
    return value + 0.0 if isinstance(value, float) else value


def _as_text(bound: Any, data_type: DataType) -> Any:
    """The bound as statistics tell it; none for a string that is no text, which JSON cannot hold."""
    if isinstance(data_type, BinaryType) or not isinstance(bound, bytes):
        return bound
    try:
        return bound.decode()
    except UnicodeDecodeError:
        return None
