"""What data files say of their own columns, in their footers."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
)

from anabranch.commands.table_access import TableRef
from anabranch.protocol.data_paths import decode_path
from anabranch.schema.column_mapping import ColumnMappingMode, field_id, physical_name
from anabranch.storage.external_files import allowed_prefixes_of

_FOOTERS_AT_ONCE = 16
_PARQUET_ID = b"PARQUET:field_id"
_WIDE: dict[type[DataType], pa.DataType] = {
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    DoubleType: pa.float64(),
}
"""The types that a column may get by widening and that have one form in files; see `has_other_types`."""


def read_schemas(table: TableRef, paths: Sequence[str]) -> list[pa.Schema]:
    """The Parquet schema of each of these files, named as in the log. Raises `StorageError`."""
    store = table.delta_log.store
    elsewhere = allowed_prefixes_of(store)

    def read(path: str) -> pa.Schema:
        with store.open(decode_path(path, table_root=table.path, allowed_prefixes=elsewhere)) as file:
            return pq.read_schema(file)

    with concurrent.futures.ThreadPoolExecutor(_FOOTERS_AT_ONCE, "anabranch-footers") as pool:
        return list(pool.map(read, paths))


def table_field(struct: StructType, stored: pa.Field, mode: ColumnMappingMode) -> StructField | None:
    """The field of a table that a field of a file belongs to; None where it has none such."""
    return next((each for each in struct.fields if _is(each, stored, mode)), None)


def has_other_types(stored: Iterable[pa.Field], struct: StructType, mode: ColumnMappingMode) -> bool:
    """Whether a field of a file, at any depth, has not the type that it would be written with today.

    Only types are looked at that a column may have got by widening.
    """
    for field in stored:
        known = table_field(struct, field, mode)
        if known is not None and _differs(field.type, known.dataType, mode):
            return True
    return False


def _is(known: StructField, stored: pa.Field, mode: ColumnMappingMode) -> bool:
    number: bytes | None = (stored.metadata or {}).get(_PARQUET_ID)
    if mode is ColumnMappingMode.ID and number is not None:
        return field_id(known) == int(number)
    name: str = stored.name
    return physical_name(known, mode).lower() == name.lower()


def _differs(stored: pa.DataType, known: DataType, mode: ColumnMappingMode) -> bool:
    if isinstance(known, StructType) and pa.types.is_struct(stored):
        return has_other_types(stored, known, mode)
    if isinstance(known, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return _differs(stored.value_type, known.elementType, mode)
    if isinstance(known, MapType) and pa.types.is_map(stored):
        below = _differs(stored.key_type, known.keyType, mode)
        return below or _differs(stored.item_type, known.valueType, mode)
    if isinstance(known, DecimalType):
        same = pa.types.is_decimal(stored) and (stored.precision, stored.scale) == (known.precision, known.scale)
        return not same
    if isinstance(known, TimestampNTZType):
        return bool(pa.types.is_date(stored))
    wide = _WIDE.get(type(known))
    return wide is not None and not stored.equals(wide)
