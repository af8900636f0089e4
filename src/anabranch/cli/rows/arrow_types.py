"""Spark's types as Arrow types, of the rows that commands show and of data files.

See "Primitive Types", "Column Mapping" and "Variant Data Type" of PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from anabranch.errors.environment import DataTypeNotPortableError
from anabranch.schema.column_mapping import ColumnMappingMode, field_id, nested_ids, physical_name

FIELD_ID: Final = b"PARQUET:field_id"
"""The key under which pyarrow keeps the `field_id` of a Parquet column."""

_PLAIN: Final[dict[type[DataType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    CharType: pa.string(),
    VarcharType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    NullType: pa.null(),
}
_VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        # Spark reads a struct as a variant only with this mark.
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)


def row_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of rows of `schema`: logical names, nullable where `schema` is."""
    names = _Names()
    return pa.schema([names.field(field) for field in schema.fields])


def file_schema(schema: StructType, mode: ColumnMappingMode) -> pa.Schema:
    """The Arrow schema of data files of `schema`: physical names and field ids, everything nullable."""
    names = _Names(mode)
    return pa.schema([names.field(field) for field in schema.fields])


def arrow_type(data_type: DataType) -> pa.DataType:
    """The type of values in such rows. Raises `DataTypeNotPortableError`."""
    return _arrow_type(data_type, _Names())


def is_variant(arrow: pa.DataType) -> bool:
    """Whether the type is the one that `arrow_type` gives for `VariantType`."""
    if not pa.types.is_struct(arrow) or arrow.num_fields != 2:
        return False
    return {b"variant": b"true"}.items() <= (arrow.field(1).metadata or {}).items()


class _Names:
    """Names, ids and nullability of the fields of Arrow types: of data files with a mode, of rows without one.

    In data files everything is nullable, since columns may be added to a struct later.
    """

    def __init__(self, mode: ColumnMappingMode | None = None) -> None:
        self._mode = mode

    def nullable(self, declared: bool) -> bool:
        return declared or self._mode is not None

    def field(self, field: StructField) -> pa.Field:
        if self._mode is None:
            return pa.field(field.name, _arrow_type(field.dataType, self), nullable=field.nullable)
        name = physical_name(field, self._mode)
        inner = nested_ids(field) if self._mode.maps else {}
        arrow = _arrow_type(field.dataType, self, ids=inner, path=name)
        return pa.field(name, arrow, metadata=_id_metadata(field_id(field) if self._mode.maps else None))


def _arrow_type(
    data_type: DataType, names: _Names, *, ids: Mapping[str, int] | None = None, path: str = ""
) -> pa.DataType:
    """`ids` are those of `element`, `key` and `value` below the field at `path`."""
    ids = ids or {}

    def inner(step: str, of: DataType, *, nullable: bool) -> pa.Field:
        below = f"{path}.{step}"
        arrow = _arrow_type(of, names, ids=ids, path=below)
        return pa.field(step, arrow, nullable=nullable, metadata=_id_metadata(ids.get(below)))

    match data_type:
        case StructType():
            return pa.struct([names.field(field) for field in data_type.fields])
        case ArrayType():
            return pa.list_(inner("element", data_type.elementType, nullable=names.nullable(data_type.containsNull)))
        case MapType():
            key = inner("key", data_type.keyType, nullable=False)
            value_nullable = names.nullable(data_type.valueContainsNull)
            return pa.map_(key, inner("value", data_type.valueType, nullable=value_nullable))
        case DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case VariantType():
            return _VARIANT
    for kind, arrow in _PLAIN.items():
        if isinstance(data_type, kind):
            return arrow
    raise DataTypeNotPortableError(data_type=data_type.simpleString())


def _id_metadata(number: int | None) -> dict[bytes, bytes] | None:
    return None if number is None else {FIELD_ID: str(number).encode()}
