"""How well the files separate the values of each column: the files that a lookup of one value reads.

For some values within the range of each file, those files are counted whose minimum and maximum admit the value. So
the measure needs statistics alone. It supposes that the rows of a file spread evenly over its range.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructType

from anabranch.data_skipping.column_bounds import ColumnBounds
from anabranch.predicates.expressions import ColumnPath, column_text
from anabranch.schema.column_mapping import physical_paths
from anabranch.snapshot.snapshot import Snapshot
from anabranch.table_report.report_values import ColumnLayout, ColumnRole, Layout
from anabranch.text_format import plain

Numbers = npt.NDArray[np.float64]

COLUMNS_MAX = 200
"""The most columns that are measured, in the order of the schema; statistics seldom have more than 32."""
POINTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in the range of a file values are looked up, as shares of the range."""
TEXT_BYTES = 6
"""Bytes of a text that its position on the number line has, after those that all texts begin with: a double holds 53
bits exactly."""
TYPE_CHARACTERS = 80


def layout_of(snapshot: Snapshot, *, clustering: tuple[ColumnPath, ...]) -> Layout:
    """The layout by column: fields of structs one by one, arrays and maps not at all."""
    leaves = list(_leaves(snapshot.schema, ()))
    measured = leaves[:COLUMNS_MAX]
    physical = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    bounds = snapshot.skipping_columns.bounds([physical[path] for path, _ in measured])
    columns = [
        _column(path, data_type, bounds[physical[path]], role=_role(snapshot, path, clustering))
        for path, data_type in measured
    ]
    return Layout(columns=tuple(columns), columns_left_out=len(leaves) - len(measured))


def _leaves(schema: StructType, above: ColumnPath) -> list[tuple[ColumnPath, DataType]]:
    leaves: list[tuple[ColumnPath, DataType]] = []
    for field in schema.fields:
        path = (*above, field.name)
        if isinstance(field.dataType, StructType):
            leaves += _leaves(field.dataType, path)
        elif field.dataType.typeName() not in {"array", "map"}:
            leaves.append((path, field.dataType))
    return leaves


def _role(snapshot: Snapshot, path: ColumnPath, clustering: tuple[ColumnPath, ...]) -> ColumnRole:
    if len(path) == 1 and path[0] in snapshot.partition_columns:
        return ColumnRole.PARTITION
    return ColumnRole.CLUSTERING if path in clustering else ColumnRole.NONE


def _column(path: ColumnPath, data_type: DataType, bounds: ColumnBounds, *, role: ColumnRole) -> ColumnLayout:
    files = len(bounds.all_null)
    lower, upper = number_line(bounds)
    has_bounds = ~np.isnan(lower) & ~np.isnan(upper) & ~bounds.all_null
    without = int((~has_bounds & ~bounds.all_null).sum())
    average = None
    if has_bounds.any():
        average = average_files(lower[has_bounds], upper[has_bounds]) + without
    return ColumnLayout(
        name=plain(column_text(path)),
        type=plain(data_type.simpleString(), TYPE_CHARACTERS),
        role=role,
        files_with_bounds=int(has_bounds.sum()),
        files_only_null=int(bounds.all_null.sum()),
        files_without_bounds=without,
        average_files=average,
        fraction=None if average is None else average / files,
    )


def average_files(lower: Numbers, upper: Numbers) -> float:
    """How many of the ranges hold a value, on average over values at `POINTS` of each range."""
    starts, ends = np.sort(lower), np.sort(upper)
    # Not `lower + share * (upper - lower)`: the difference of two doubles may be beyond the largest.
    lookups = [np.clip((1 - share) * lower + share * upper, lower, upper) for share in POINTS]
    counts = [
        np.searchsorted(starts, values, side="right") - np.searchsorted(ends, values, side="left") for values in lookups
    ]
    return float(np.mean(counts))


def number_line(bounds: ColumnBounds) -> tuple[Numbers, Numbers]:
    """Minimum and maximum of each file as numbers in the same order; NaN where the file has none."""
    if pa.types.is_string(bounds.lower.type) or pa.types.is_binary(bounds.lower.type):
        return _text_positions(bounds.lower, bounds.upper)
    return _numbers(bounds.lower), _numbers(bounds.upper)


def _numbers(values: pa.Array) -> Numbers:
    # Decimals beyond the range of a double do not occur: the largest has 38 digits.
    numbers: Numbers = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _text_positions(lower: pa.Array, upper: pa.Array) -> tuple[Numbers, Numbers]:
    """The texts as numbers by their first bytes after the beginning that all have in common."""
    bytes_of = [pc.cast(side, pa.large_binary()) for side in (lower, upper)]
    first, last = pc.min(bytes_of[0]).as_py(), pc.max(bytes_of[1]).as_py()
    # All texts lie between these two, so what the two have in common at their start, all have.
    skipped = 0 if first is None or last is None else _common_start(first, last)
    positions = [_leading_bytes(side, skipped) for side in bytes_of]
    return positions[0], positions[1]


def _common_start(one: bytes, other: bytes) -> int:
    """The number of bytes at the start that both have."""
    shorter = min(len(one), len(other))
    return next((position for position in range(shorter) if one[position] != other[position]), shorter)


def _leading_bytes(texts: pa.Array, skipped: int) -> Numbers:
    """`TEXT_BYTES` bytes of each text, from `skipped` on, as one number; a text that ends earlier has zeros."""
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    starts, ends = offsets[:-1] + skipped, offsets[1:]
    numbers = np.zeros(len(texts), dtype=np.float64)
    for position in range(TEXT_BYTES):
        at = starts + position
        inside = at < ends
        numbers *= 256
        numbers[inside] += data[at[inside]]
    return np.where(pc.is_valid(texts).to_numpy(zero_copy_only=False), numbers, np.nan)
