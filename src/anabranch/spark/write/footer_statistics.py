"""Statistics of data files from their Parquet footers; no rows are read."""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
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
    UserDefinedType,
    VarcharType,
    VariantType,
)

from anabranch.protocol.statistics import FileStatistics, LeafValues
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.paths import fold

LeafPath = tuple[str, ...]

_UNKNOWN = object()
"""An unknown bound. None is the bound of a column without values."""
_VARIANT_LEAVES = 2


def stored_leaves(
    schema: StructType, mode: ColumnMappingMode, *, stored: pa.Schema | None = None
) -> tuple[LeafPath | None, ...]:
    """The physical path of each Parquet column of a file, in the order of the file; None for parts of a column.

    Columns are matched by position: names may have dots, and a Parquet path does not show where one ends. `stored` are
    the columns of a file whose variants may be shredded, into a number of parts that only the file has.
    """
    leaves: list[LeafPath | None] = []
    _add_leaves(leaves, schema, (), mode, None if stored is None else pa.struct(list(stored)))
    return tuple(leaves)


class FooterReader:
    """Reads statistics for files of one schema."""

    def __init__(
        self,
        *,
        leaves: Sequence[LeafPath | None],
        types: Mapping[LeafPath, DataType],
        string_prefix_length: int,
        shredded: Callable[[pa.Schema], Sequence[LeafPath | None]] | None = None,
    ) -> None:
        """`types` are the columns that get statistics. `shredded` gives the leaves where each file has its own."""
        self._leaves = leaves
        self._types = types
        self._string_prefix_length = string_prefix_length
        self._shredded = shredded

    def statistics(self, metadata: pq.FileMetaData) -> FileStatistics:
        """The statistics that the footer proves; for a file with unexpected columns only its number of rows."""
        return FileStatistics.of_leaves(
            metadata.num_rows,
            self.leaves(metadata) or {},
            types=self._types,
            string_prefix_length=self._string_prefix_length,
        )

    def leaves(self, metadata: pq.FileMetaData) -> dict[LeafPath, LeafValues] | None:
        """Bounds and null counts of each column that gets statistics; None for a file with other columns."""
        leaves = self._leaves if self._shredded is None else self._shredded(metadata.schema.to_arrow_schema())
        if metadata.num_columns != len(leaves):
            return None
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        wanted = [(i, path) for i, path in enumerate(leaves) if path is not None and path in self._types]
        return {path: _leaf([group.column(i) for group in groups], self._types[path]) for i, path in wanted}


def _add_leaves(
    leaves: list[LeafPath | None],
    data_type: DataType,
    path: LeafPath | None,
    mode: ColumnMappingMode,
    stored: pa.DataType | None,
) -> None:
    match data_type:
        case NullType():
            return
        case StructType():
            kept = [field for field in data_type.fields if not isinstance(field.dataType, NullType)]
            for index, field in enumerate(kept):
                below = None if path is None else (*path, physical_name(field, mode))
                inner = None if stored is None else stored.field(index).type
                _add_leaves(leaves, field.dataType, below, mode, inner)
        case ArrayType():
            # Neither nulls nor bounds of elements are those of the array.
            _add_leaves(leaves, data_type.elementType, None, mode, None if stored is None else stored.value_type)
        case MapType():
            _add_leaves(leaves, data_type.keyType, None, mode, None if stored is None else stored.key_type)
            _add_leaves(leaves, data_type.valueType, None, mode, None if stored is None else stored.item_type)
        case UserDefinedType():
            _add_leaves(leaves, data_type.sqlType(), None, mode, stored)
        case VariantType():
            leaves.extend([None] * (_VARIANT_LEAVES if stored is None else _leaf_count(stored)))
        case _:
            leaves.append(path)


def _leaf_count(stored: pa.DataType) -> int:
    inner = [stored.field(i).type for i in range(stored.num_fields)]
    return sum(map(_leaf_count, inner)) if inner else 1


def _leaf(chunks: Sequence[pq.ColumnChunkMetaData], data_type: DataType) -> tuple[Any, Any, int | None]:
    """Minimum, maximum and number of nulls over all row groups; None for values that are not known."""
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
    return None if not bounds or _UNKNOWN in bounds else choose(bounds)


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
    """The function from a raw bound to a value of the column; None for combinations with undefined bounds."""
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
    """A bound of a float column; NaN bounds nothing."""
    return _UNKNOWN if math.isnan(raw) else raw


def _text(raw: bytes) -> Any:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _UNKNOWN


_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
_FIRST_DAY = -141_427
"""1582-10-15, from which on the hybrid and the proleptic Gregorian calendar have the same days."""
_FIRST_MICROS = -2_208_988_800_000_000
"""1900-01-01, from which on Java's old classes have the right offsets of time zones."""
_WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A column of a file, and the same column of the table."""

    file_path: LeafPath
    data_type: DataType
    """The type in the file."""
    table_path: LeafPath


class ForeignFooters:
    """Reads statistics of files that other programs wrote, with their own schema but the table's column names.

    They prove less than our own files. A column without statistics only means that files are read, but a wrong bound
    would hide rows.
    """

    def __init__(
        self, file_schema: StructType, *, types: Mapping[LeafPath, DataType], string_prefix_length: int
    ) -> None:
        """`types` are the columns of the table that get statistics."""
        self._types = types
        self._string_prefix_length = string_prefix_length
        paths = stored_leaves(file_schema, ColumnMappingMode.NONE)
        wanted = {_folded(path): path for path in types}
        kinds = {_folded(path): kind for path, kind in _leaf_types(file_schema, ())}
        self._names = [(i, ".".join(path)) for i, path in enumerate(paths) if path is not None]
        self._leaves = tuple(
            _Leaf(file_path=path, data_type=kinds[_folded(path)], table_path=wanted[_folded(path)])
            for path in paths
            if path is not None and _folded(path) in wanted
        )
        self._lacking = tuple(path for path in types if not any(_overlaps(path, column) for column in kinds))
        self._reader = FooterReader(
            leaves=paths,
            types={leaf.file_path: leaf.data_type for leaf in self._leaves},
            string_prefix_length=string_prefix_length,
        )

    def statistics(self, metadata: pq.FileMetaData) -> FileStatistics:
        """The statistics that the footer proves; for a file without the columns of its schema only the row count."""
        file_leaves = self._reader.leaves(metadata) if self._has_its_columns(metadata.schema) else None
        table_leaves: dict[LeafPath, LeafValues] = {}
        if file_leaves is not None:
            writer = _Writer.of(metadata)
            for leaf in self._leaves:
                low, high, nulls = file_leaves[leaf.file_path]
                if not _is_same(leaf.data_type, self._types[leaf.table_path]) or writer.may_be_wrong(
                    leaf.data_type, low
                ):
                    low = high = None
                table_leaves[leaf.table_path] = (low, high, nulls)
            # Readers give null for a column that a file lacks.
            table_leaves |= dict.fromkeys(self._lacking, (None, None, metadata.num_rows))
        return FileStatistics.of_leaves(
            metadata.num_rows, table_leaves, types=self._types, string_prefix_length=self._string_prefix_length
        )

    def _has_its_columns(self, schema: pq.ParquetSchema) -> bool:
        """Whether the file has the columns of its schema: a program may have copied the schema from another file."""
        return all(i < len(schema) and schema.column(i).path == name for i, name in self._names)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """The program that wrote a file, and which of its bounds may be wrong."""

    ignores_nan: bool
    """Whether bounds of floats may ignore NaN, which is the largest value for Spark."""
    may_have_old_days: bool
    """Whether old dates may be written in another calendar than the one in which they are read."""

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> _Writer:
        properties: Mapping[bytes, bytes] = metadata.metadata or {}
        version = properties.get(_SPARK_VERSION, b"0").split(b".")[0]
        new_calendar = version.isdigit() and int(version) >= 3 and _OLD_CALENDAR not in properties
        return cls(
            ignores_nan=not (metadata.created_by or "").startswith("parquet-mr"), may_have_old_days=not new_calendar
        )

    def may_be_wrong(self, data_type: DataType, low: Any) -> bool:
        if isinstance(data_type, FloatType | DoubleType):
            return self.ignores_nan
        if low is None or not self.may_have_old_days:
            return False
        if isinstance(data_type, DateType):
            return bool(low < _FIRST_DAY)
        return isinstance(data_type, TimestampType | TimestampNTZType) and bool(low < _FIRST_MICROS)


def _is_same(file_type: DataType, table_type: DataType) -> bool:
    """Whether a bound in the file's type is also one in the table's type."""
    both_whole = isinstance(file_type, _WHOLE_NUMBERS) and isinstance(table_type, _WHOLE_NUMBERS)
    return both_whole or file_type == table_type


def _leaf_types(struct: StructType, path: LeafPath) -> Iterator[tuple[LeafPath, DataType]]:
    for field in struct.fields:
        below = (*path, field.name)
        if isinstance(field.dataType, StructType):
            yield from _leaf_types(field.dataType, below)
        else:
            yield below, field.dataType


def _overlaps(path: LeafPath, column: LeafPath) -> bool:
    """Whether a column of the table is one of the file's, contains one, or is part of one."""
    length = min(len(path), len(column))
    return _folded(path)[:length] == column[:length]


def _folded(path: LeafPath) -> LeafPath:
    return tuple(map(fold, path))
