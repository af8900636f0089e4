"""Statistics of data files out of their Parquet footers, without reading a row."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from anabranch.protocol.statistics import FileStatistics, LeafValues
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name

LeafPath = tuple[str, ...]

_UNKNOWN = object()
"""A bound that is not known, which None, that of no value at all, is not."""
_VARIANT_LEAVES = 2


def stored_leaves(schema: StructType, mode: ColumnMappingMode) -> tuple[LeafPath | None, ...]:
    """The physical path of each Parquet column of a file, in the order of the file; None for parts of a column.

    By position, because names may have dots and a Parquet path cannot say where one ends.
    """
    found: list[LeafPath | None] = []
    for field in schema.fields:
        _add_leaves(found, field.dataType, (physical_name(field, mode),), mode)
    return tuple(found)


class FooterReader:
    """Reads statistics for files of one schema."""

    def __init__(
        self,
        *,
        leaves: Sequence[LeafPath | None],
        types: Mapping[LeafPath, DataType],
        string_prefix_length: int,
    ) -> None:
        """`types` are the columns that get statistics."""
        self._count = len(leaves)
        self._types = types
        self._wanted = [(i, path, types[path]) for i, path in enumerate(leaves) if path is not None and path in types]
        self._string_prefix_length = string_prefix_length

    def statistics(self, metadata: pq.FileMetaData) -> FileStatistics:
        """What the footer tells for sure; a file with other columns than expected tells only its number of rows."""
        return FileStatistics.of_leaves(
            metadata.num_rows,
            self.leaves(metadata) or {},
            types=self._types,
            string_prefix_length=self._string_prefix_length,
        )

    def leaves(self, metadata: pq.FileMetaData) -> dict[LeafPath, LeafValues] | None:
        """What the footer tells of each column that gets statistics; None for a file with other columns."""
        if metadata.num_columns != self._count:
            return None
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        return {path: _leaf([group.column(i) for group in groups], kind) for i, path, kind in self._wanted}


def _add_leaves(
    found: list[LeafPath | None], data_type: DataType, path: LeafPath | None, mode: ColumnMappingMode
) -> None:
    match data_type:
        case NullType():
            return
        case StructType():
            for field in data_type.fields:
                _add_leaves(found, field.dataType, None if path is None else (*path, physical_name(field, mode)), mode)
        case ArrayType():
            # Nulls among elements say nothing of null arrays, nor do bounds of elements.
            _add_leaves(found, data_type.elementType, None, mode)
        case MapType():
            _add_leaves(found, data_type.keyType, None, mode)
            _add_leaves(found, data_type.valueType, None, mode)
        case VariantType():
            found.extend([None] * _VARIANT_LEAVES)
        case _:
            found.append(path)


def _leaf(chunks: Sequence[pq.ColumnChunkMetaData], data_type: DataType) -> tuple[Any, Any, int | None]:
    """Minimum, maximum and number of nulls over all row groups; None for what is not known."""
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: int | None = 0
    for chunk in chunks:
        statistics = chunk.statistics
        null_count = statistics.null_count if statistics is not None and statistics.has_null_count else None
        nulls = None if nulls is None or null_count is None else nulls + null_count
        if null_count is not None and null_count == chunk.num_values:
            continue
        low, high = (_UNKNOWN, _UNKNOWN) if statistics is None else _bounds(statistics, data_type)
        lows.append(low)
        highs.append(high)
    return _merged(lows, min), _merged(highs, max), nulls


def _merged(bounds: list[Any], choose: Callable[[list[Any]], Any]) -> Any:
    return None if not bounds or any(bound is _UNKNOWN for bound in bounds) else choose(bounds)


def _bounds(statistics: pq.Statistics, data_type: DataType) -> tuple[Any, Any]:
    if not statistics.has_min_max:
        return _UNKNOWN, _UNKNOWN
    is_micros = "microseconds" in str(statistics.logical_type)
    if isinstance(data_type, TimestampType | TimestampNTZType) and not is_micros:
        return _UNKNOWN, _UNKNOWN
    decode = _decoder(statistics.physical_type, data_type)
    if decode is None:
        return _UNKNOWN, _UNKNOWN
    return decode(statistics.min_raw), decode(statistics.max_raw)


def _decoder(physical_type: str, data_type: DataType) -> Callable[[Any], Any] | None:
    """How a raw bound becomes a value of the column; None for combinations nobody vouches for."""
    match physical_type, data_type:
        case "INT32" | "INT64", ByteType() | ShortType() | IntegerType() | LongType():
            return int
        case "INT32", DateType():
            return int
        case "INT64", TimestampType() | TimestampNTZType():
            return int
        case "INT32" | "INT64", DecimalType():
            return lambda raw: decimal.Decimal(int(raw)).scaleb(-data_type.scale)
        case "FIXED_LEN_BYTE_ARRAY", DecimalType():
            return lambda raw: _unscaled(raw, data_type)
        case "FLOAT" | "DOUBLE", FloatType() | DoubleType():
            return _number
        case "BYTE_ARRAY", StringType() | CharType() | VarcharType():
            return _text
    return None


def _unscaled(raw: bytes, data_type: DecimalType) -> decimal.Decimal:
    number = int.from_bytes(raw, "big", signed=True)
    with decimal.localcontext(prec=2 * data_type.precision):
        return decimal.Decimal(number).scaleb(-data_type.scale)


def _number(raw: float) -> Any:
    """NaN bounds bound nothing."""
    return _UNKNOWN if math.isnan(raw) else raw


def _text(raw: bytes) -> Any:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _UNKNOWN
