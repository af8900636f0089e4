"""The table's columns and partitioning in Iceberg's terms. Ids are those of column mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyiceberg.types as iceberg
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
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
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.errors.schema import InvalidColumnMappingError
from anabranch.schema.column_mapping import ColumnMappingMode, field_id, nested_ids, physical_name
from anabranch.schema.paths import ELEMENT, KEY, VALUE

PRIMITIVES: Final[Mapping[type[DataType], iceberg.PrimitiveType]] = {
    BooleanType: iceberg.BooleanType(),
    ByteType: iceberg.IntegerType(),
    ShortType: iceberg.IntegerType(),
    IntegerType: iceberg.IntegerType(),
    LongType: iceberg.LongType(),
    FloatType: iceberg.FloatType(),
    DoubleType: iceberg.DoubleType(),
    StringType: iceberg.StringType(),
    CharType: iceberg.StringType(),
    VarcharType: iceberg.StringType(),
    BinaryType: iceberg.BinaryType(),
    DateType: iceberg.DateType(),
    TimestampType: iceberg.TimestamptzType(),
    TimestampNTZType: iceberg.TimestampType(),
}


ROW_ID: Final = 2147483540
ROW_VERSION: Final = 2147483539
"""Ids that Iceberg reserves for the columns of row tracking in files."""


def iceberg_schema(schema: StructType, *, table: str, schema_id: int = 0) -> Schema:
    """The columns with their ids. Raises `InvalidColumnMappingError` where one has none."""
    return Schema(*_Columns(table).fields(schema), schema_id=schema_id, identifier_field_ids=[])


def primitive(data_type: DataType) -> iceberg.PrimitiveType | None:
    """Iceberg's type for a primitive type; None for other types."""
    if isinstance(data_type, DecimalType):
        return iceberg.DecimalType(data_type.precision, data_type.scale)
    return next((iceberg_type for kind, iceberg_type in PRIMITIVES.items() if isinstance(data_type, kind)), None)


def partition_spec(schema: StructType, partition_columns: Sequence[str], *, table: str, spec_id: int) -> PartitionSpec:
    """A partition spec with one identity field for each partition column."""
    fields = [
        PartitionField(
            source_id=_required_id(schema[name], table),
            field_id=PARTITION_FIELD_ID_START + i,
            transform=IdentityTransform(),
            name=name,
        )
        for i, name in enumerate(partition_columns)
    ]
    return PartitionSpec(*fields, spec_id=spec_id)


def name_mapping(
    schema: StructType, mode: ColumnMappingMode, *, table: str, hidden: Mapping[str, int] = MappingProxyType({})
) -> NameMapping:
    """Ids for the columns of files that have none, by the physical names under which they were written.

    `hidden` are columns of files that the table's schema does not name, with their ids.
    """
    hidden_fields = [MappedField(**{"field-id": number}, names=[name], fields=[]) for name, number in hidden.items()]
    return NameMapping([*(_mapped(field, mode, table) for field in schema.fields), *hidden_fields])


class _Columns:
    """Makes Iceberg's fields for those of one table."""

    def __init__(self, table: str) -> None:
        self._table = table

    def fields(self, schema: StructType) -> list[iceberg.NestedField]:
        return [
            iceberg.NestedField(
                field_id=_required_id(field, self._table),
                name=field.name,
                field_type=self._type(field.dataType, _NestedIds(field, self._table)),
                required=not field.nullable,
                doc=field.metadata.get("comment"),
            )
            for field in schema.fields
        ]

    def _type(self, data_type: DataType, nested: _NestedIds) -> iceberg.IcebergType:
        if isinstance(data_type, StructType):
            return iceberg.StructType(*self.fields(data_type))
        if isinstance(data_type, ArrayType):
            return iceberg.ListType(
                element_id=nested.id(ELEMENT),
                element=self._type(data_type.elementType, nested.step(ELEMENT)),
                element_required=not data_type.containsNull,
            )
        if isinstance(data_type, MapType):
            return iceberg.MapType(
                key_id=nested.id(KEY),
                key_type=self._type(data_type.keyType, nested.step(KEY)),
                value_id=nested.id(VALUE),
                value_type=self._type(data_type.valueType, nested.step(VALUE)),
                value_required=not data_type.valueContainsNull,
            )
        iceberg_type = primitive(data_type)
        assert iceberg_type is not None, f"the rules of IcebergCompat let {data_type.simpleString()} through"
        return iceberg_type


class _NestedIds:
    """Ids of the elements, keys and values below a field. See `delta.columnMapping.nested.ids`."""

    def __init__(self, field: StructField, table: str, path: str | None = None) -> None:
        self._field = field
        self._table = table
        self._path = path or physical_name(field, ColumnMappingMode.NAME)

    def id(self, step: str) -> int:
        nested_id = nested_ids(self._field).get(f"{self._path}.{step}")
        if nested_id is None:
            raise InvalidColumnMappingError(
                table=self._table, column=self._field.name, reason=f"its {step} has no id, which Iceberg needs"
            )
        return nested_id

    def step(self, step: str) -> _NestedIds:
        return _NestedIds(self._field, self._table, f"{self._path}.{step}")


def _required_id(field: StructField, table: str) -> int:
    number = field_id(field)
    if number is None:
        raise InvalidColumnMappingError(table=table, column=field.name, reason="it has no id, which Iceberg needs")
    return number


def _mapped(field: StructField, mode: ColumnMappingMode, table: str) -> MappedField:
    inner = field.dataType.fields if isinstance(field.dataType, StructType) else []
    return MappedField(
        **{"field-id": _required_id(field, table)},
        names=[physical_name(field, mode)],
        fields=[_mapped(nested, mode, table) for nested in inner],
    )
