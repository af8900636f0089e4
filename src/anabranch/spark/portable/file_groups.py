"""Which files of a scan can be read by one call of `spark.read`, and what must be added to their rows.

A file is cheapest to read when nothing has to be joined to its rows, so files are told apart by what they need.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from anabranch.protocol.data_paths import NULL_DIRECTORY, partition_path
from anabranch.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from anabranch.schema.logical_types import without_void
from anabranch.spark.portable.arrow_types import FIELD_ID
from anabranch.spark.portable.file_table import read_schema
from anabranch.spark.portable.spark_paths import is_beyond_spark
from anabranch.spark.rows.file_listing import FileListing

_BY_DIRECTORY = (ByteType, ShortType, IntegerType, LongType, DateType)
"""Types that Spark reads from a directory's name just as the log writes them, and strings."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partitioning:
    """What of a table decides about the names of its directories."""

    table_root: str
    types: Mapping[str, DataType]
    """By physical name of the partition column, in the table's order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files that one DataFrame reads."""

    file_ids: npt.NDArray[np.int64]
    """Rows of the file table, ascending."""
    by_spark: bool
    """Whether Spark's Parquet reader can open them; else Python does."""
    by_directory: bool
    """Whether their directories say the partition values, so that Spark can skip by them."""
    hides_rows: bool
    layout: int
    """Which of the layouts of the scan their columns have."""


def groups_of(
    listing: FileListing, partitioning: Partitioning, *, layout_of: npt.NDArray[np.int32]
) -> Iterator[FileGroup]:
    """Every file in exactly one group."""
    beyond = np.fromiter((is_beyond_spark(name) for name in listing.names.to_pylist()), np.bool_, listing.count)
    by_directory = _says_its_values(listing, partitioning) & ~beyond
    kinds = np.stack([~beyond, by_directory, listing.has_vector, layout_of], axis=1).astype(np.int64)
    for kind in np.unique(kinds, axis=0):
        by_spark, directory, hides, layout = map(int, kind)
        yield FileGroup(
            file_ids=np.flatnonzero((kinds == kind).all(axis=1)),
            by_spark=bool(by_spark),
            by_directory=bool(directory),
            hides_rows=bool(hides),
            layout=layout,
        )


def _says_its_values(listing: FileListing, partitioning: Partitioning) -> npt.NDArray[np.bool_]:
    """For each file whether it lies in the very directory that Spark would make for its partition values."""
    if not partitioning.types or not all(map(_reads_from_directory, partitioning.types.values())):
        return np.zeros(listing.count, dtype=np.bool_)
    expected = [_directory(partitioning, values) for values in _rows(listing.groups)]
    found = (name.rpartition("/")[0] for name in listing.names.to_pylist())
    groups = listing.group_of.tolist()
    return np.fromiter((directory == expected[group] for directory, group in zip(found, groups, strict=True)), np.bool_)


def _rows(columns: Sequence[pa.Array]) -> Iterator[tuple[str | None, ...]]:
    return zip(*(column.to_pylist() for column in columns), strict=True)


def _directory(partitioning: Partitioning, values: Sequence[str | None]) -> str | None:
    """None where a value looks like the name that stands for null."""
    if NULL_DIRECTORY in values:
        return None
    below = partition_path(dict(zip(partitioning.types, values, strict=True)))
    return f"{partitioning.table_root.rstrip('/')}/{below}"


def _reads_from_directory(data_type: DataType) -> bool:
    if isinstance(data_type, StringType):
        return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    return isinstance(data_type, _BY_DIRECTORY)


# What data files call their columns, where the table finds columns by id. See "Column Mapping" of PROTOCOL.md.
#
# Spark reads by field id only when a setting of the session says so, and a session belongs to its user. So the names
# behind the ids are taken from the Parquet footers, and files that use the same names are read together.


_FOOTERS_AT_ONCE = 16
_FOOTERS_KEPT_MAX = 100_000
_MISSING = "__anabranch_missing_"
"""Begins the name under which a column is asked for that a file does not have."""

Open = Callable[[str], pa.NativeFile]


class FileLayouts:
    """Layouts by file. Data files never change, so what was read of one is kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], StructType] = OrderedDict()
        self._lock = threading.Lock()

    def layouts_of(
        self, names: Sequence[str], schema: StructType, open_file: Open
    ) -> tuple[list[StructType], npt.NDArray[np.int32]]:
        """The layouts that occur, as schemas to read with, and which of them each file has.

        Opens the footer of every file not seen before.
        """
        found = self._footers(names, schema, open_file)
        distinct: dict[str, int] = {}
        layouts: list[StructType] = []
        for layout in found:
            if layout.json() not in distinct:
                distinct[layout.json()] = len(layouts)
                layouts.append(layout)
        return layouts, np.fromiter((distinct[layout.json()] for layout in found), np.int32, len(found))

    def _footers(self, names: Sequence[str], schema: StructType, open_file: Open) -> list[StructType]:
        version = schema.json()
        with self._lock:
            found = {name: self._known.get((name, version)) for name in names}
        wanted = [name for name, layout in found.items() if layout is None]
        with concurrent.futures.ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="parquet-footers") as pool:
            read = dict(zip(wanted, pool.map(lambda name: _layout(name, schema, open_file), wanted), strict=True))
        with self._lock:
            self._known.update({(name, version): layout for name, layout in read.items()})
            while len(self._known) > _FOOTERS_KEPT_MAX:
                self._known.popitem(last=False)
        return [found[name] or read[name] for name in names]


def layout_of(stored: pa.Schema, schema: StructType) -> StructType:
    """The logical `schema`, void left out, with the names that the file's columns of the same ids have.

    A file without any ids is taken to use physical names.
    """
    if not _has_ids(stored):
        return read_schema(schema, ColumnMappingMode.ID)
    return read_schema(_renamed(without_void(schema), list(stored)), ColumnMappingMode.NONE)


def _layout(name: str, schema: StructType, open_file: Open) -> StructType:
    with open_file(name) as source, pq.ParquetFile(source) as file:
        return layout_of(file.schema_arrow, schema)


def _renamed(struct: StructType, stored: Sequence[pa.Field]) -> StructType:
    by_id = {(field.metadata or {}).get(FIELD_ID): field for field in stored}
    fields = []
    for field in struct.fields:
        number = field_id(field)
        found = by_id.get(str(number).encode()) if number is not None else None
        missing = "" if number is None else _MISSING
        name = found.name if found is not None else f"{missing}{physical_name(field, ColumnMappingMode.ID)}"
        inner = _renamed_type(field.dataType, found.type if found is not None else None)
        fields.append(StructField(name, inner))
    return StructType(fields)


def _renamed_type(data_type: DataType, stored: pa.DataType | None) -> DataType:
    match data_type:
        case StructType():
            return _renamed(data_type, list(stored) if stored is not None and pa.types.is_struct(stored) else [])
        case ArrayType():
            element = stored.value_type if stored is not None and pa.types.is_list(stored) else None
            return ArrayType(_renamed_type(data_type.elementType, element))
        case MapType():
            is_map = stored is not None and pa.types.is_map(stored)
            key, value = (stored.key_type, stored.item_type) if is_map else (None, None)  # type: ignore[union-attr]
            return MapType(_renamed_type(data_type.keyType, key), _renamed_type(data_type.valueType, value))
    return data_type


def _has_ids(stored: pa.Schema) -> bool:
    return any(FIELD_ID in (field.metadata or {}) for field in stored)
