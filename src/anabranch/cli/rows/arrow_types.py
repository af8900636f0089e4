"""Spark's types as Arrow types, of the rows that commands show and of data files.

See "Primitive Types", "Column Mapping" and "Variant Data Type" of PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
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


# Conversion of Arrow arrays to the table's types: fields renamed, values widened, missing fields filled with null.


FindField = Callable[[Sequence[pa.Field], pa.Field, int], int | None]
"""The index of the field that matches a target field, which is at `position` of its struct; None if none matches."""

_VARIANT_FIELDS = {"value", "metadata"}


def by_position(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:  # noqa: ARG001
    """The field at the same position: both sides have the same fields in the same order."""
    return position if position < len(fields) else None


def by_name(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:  # noqa: ARG001
    """The field of the same name; if there is none, the only one whose name differs just in case."""
    names = [field.name for field in fields]
    if wanted.name in names:
        return names.index(wanted.name)
    matches = [index for index, name in enumerate(names) if name.lower() == wanted.name.lower()]
    return matches[0] if len(matches) == 1 else None


def by_field_id(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:
    """The field of the same Parquet field id. Fields without an id (those of variants) are matched by name."""
    number = (wanted.metadata or {}).get(FIELD_ID)
    if number is None:
        return by_name(fields, wanted, position)
    return next((index for index, field in enumerate(fields) if (field.metadata or {}).get(FIELD_ID) == number), None)


def fit(array: pa.Array, target: pa.DataType, find: FindField) -> pa.Array:
    """The values of `array` in the type `target`.

    A field that `find` does not find is null in every row. Values are only widened, except that fractions of a
    microsecond are cut off. Raises `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` where values do not fit.
    """
    source = array.type
    if pa.types.is_dictionary(source):
        array, source = array.dictionary_decode(), source.value_type
    if is_variant(target):
        return _fit_variant(array, target)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        return _fit_struct(array, target, find)
    if pa.types.is_map(target) and pa.types.is_map(source):
        return _fit_map(array, target, find)
    if pa.types.is_list(target) and (pa.types.is_list(source) or pa.types.is_large_list(source)):
        return _fit_list(array, target, find)
    if source == target:
        return array
    return pc.cast(array, options=pc.CastOptions(target_type=target, allow_time_truncate=True))


def _fit_struct(array: pa.StructArray, target: pa.StructType, find: FindField) -> pa.Array:
    source_fields, target_fields = list(array.type), list(target)
    children = []
    for position, field in enumerate(target_fields):
        index = find(source_fields, field, position)
        children.append(
            pa.nulls(len(array), field.type) if index is None else fit(array.field(index), field.type, find)
        )
    return pa.StructArray.from_arrays(children, fields=target_fields, mask=array.is_null())


def _fit_list(array: pa.Array, target: pa.ListType, find: FindField) -> pa.Array:
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    # Offsets and validity are taken over, so slices and nulls over undefined values stay correct.
    values = fit(array.values, target.value_type, find)
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[values])


def _fit_map(array: pa.MapArray, target: pa.MapType, find: FindField) -> pa.Array:
    keys, items = fit(array.keys, target.key_type, find), fit(array.items, target.item_type, find)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _fit_variant(array: pa.Array, target: pa.StructType) -> pa.Array:
    source = array.type
    if not pa.types.is_struct(source) or {field.name for field in source} != _VARIANT_FIELDS:
        # A shredded variant has a third field; ignoring it would lose values.
        raise pa.ArrowNotImplementedError(f"a variant that is stored as {source}")
    children = [array.field(field.name) for field in target]
    hidden = array.is_null()
    filled = [pc.fill_null(child.cast(pa.binary()), b"") for child in children]
    return pa.StructArray.from_arrays(filled, fields=list(target), mask=hidden)
