"""The columns of data files, from their Parquet footers."""

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
"""The types to which a column can be widened and that have one form in files; see `has_other_types`."""


def read_schemas(table: TableRef, paths: Sequence[str]) -> list[pa.Schema]:
    """The Parquet schemas of these files, whose paths are as in the log. Raises `StorageError`."""
    store = table.delta_log.store
    prefixes = allowed_prefixes_of(store)

    def read(path: str) -> pa.Schema:
        with store.open(decode_path(path, table_root=table.path, allowed_prefixes=prefixes)) as file:
            return pq.read_schema(file)

    with concurrent.futures.ThreadPoolExecutor(_FOOTERS_AT_ONCE, "anabranch-footers") as pool:
        return list(pool.map(read, paths))


def table_field(struct: StructType, stored: pa.Field, mode: ColumnMappingMode) -> StructField | None:
    """The field of the table to which a field of a file belongs; None where the table lacks it."""
    return next((field for field in struct.fields if _is(field, stored, mode)), None)


def has_other_types(stored: Iterable[pa.Field], struct: StructType, mode: ColumnMappingMode) -> bool:
    """Whether a field of a file, at any depth, has another type than a new file would have.

    Only types are compared that a column can have by widening.
    """
    for stored_field in stored:
        field = table_field(struct, stored_field, mode)
        if field is not None and _differs(stored_field.type, field.dataType, mode):
            return True
    return False


def _is(field: StructField, stored: pa.Field, mode: ColumnMappingMode) -> bool:
    """Whether the field of the table is the field of the file."""
    number: bytes | None = (stored.metadata or {}).get(_PARQUET_ID)
    if mode is ColumnMappingMode.ID and number is not None:
        return field_id(field) == int(number)
    name: str = stored.name
    return physical_name(field, mode).lower() == name.lower()


def _differs(stored: pa.DataType, declared: DataType, mode: ColumnMappingMode) -> bool:
    """Whether a type of a file differs from the declared type as `has_other_types` says."""
    if isinstance(declared, StructType) and pa.types.is_struct(stored):
        return has_other_types(stored, declared, mode)
    if isinstance(declared, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return _differs(stored.value_type, declared.elementType, mode)
    if isinstance(declared, MapType) and pa.types.is_map(stored):
        below = _differs(stored.key_type, declared.keyType, mode)
        return below or _differs(stored.item_type, declared.valueType, mode)
    if isinstance(declared, DecimalType):
        same = pa.types.is_decimal(stored) and (stored.precision, stored.scale) == (declared.precision, declared.scale)
        return not same
    if isinstance(declared, TimestampNTZType):
        return bool(pa.types.is_date(stored))
    wide = _WIDE.get(type(declared))
    return wide is not None and not stored.equals(wide)
