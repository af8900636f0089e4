"""What data files call their columns, where the table finds columns by id. See "Column Mapping" of PROTOCOL.md.

Spark reads by field id only when a setting of the session says so, and a session belongs to its user. So the names
behind the ids are taken from the Parquet footers, and files that use the same names are read together.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from anabranch.schema.void import without_void
from anabranch.spark.portable.arrow_types import FIELD_ID
from anabranch.spark.portable.projection import read_schema

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
