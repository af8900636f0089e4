"""The schema of the data files of a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, NullType, StringType, StructField, StructType

from anabranch.protocol.data_paths import NULL_DIRECTORY
from anabranch.protocol.properties import TableProperties, stores_partition_columns
from anabranch.schema.column_mapping import PARQUET_ID, ColumnMappingMode, to_physical, with_field_ids
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote


def stored_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """Physical names, ids where the table has them, and everything nullable: columns may be added to a table later.

    `schema` is the table's, without void. Metadata other than ids is in the log alone; no file needs it.
    """
    named = to_physical(with_field_ids(schema), mode) if mode.maps else schema
    return _struct(named, with_ids=mode.maps)


def _struct(struct: StructType, *, with_ids: bool) -> StructType:
    fields = []
    for field in struct.fields:
        ids = {PARQUET_ID: field.metadata[PARQUET_ID]} if with_ids and PARQUET_ID in field.metadata else {}
        fields.append(StructField(field.name, _nullable(field.dataType, with_ids=with_ids), True, ids))
    return StructType(fields)


def _nullable(data_type: DataType, *, with_ids: bool) -> DataType:
    if isinstance(data_type, StructType):
        return _struct(data_type, with_ids=with_ids)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType, with_ids=with_ids), True)
    if isinstance(data_type, MapType):
        key = _nullable(data_type.keyType, with_ids=with_ids)
        return MapType(key, _nullable(data_type.valueType, with_ids=with_ids), True)
    return data_type


def with_void(column: Column, struct: StructType) -> Column:
    """A struct column with its void fields, which data files do not have and which were not read."""
    fields = [_restored(column[field.name], field.name, field.dataType) for field in struct.fields]
    whole = F.struct(*[restored.alias(field.name) for restored, field in zip(fields, struct.fields, strict=True)])
    return F.when(column.isNotNull(), whole)


def column_with_void(frame: DataFrame, name: str, data_type: DataType) -> Column:
    """Top-level column `name` of a frame that was read without void columns and fields; those are added."""
    if isinstance(data_type, NullType):
        return F.lit(None).alias(name)
    column = frame[quote(name)]
    if isinstance(data_type, StructType) and without_void(data_type) != data_type:
        return with_void(column, data_type).alias(name)
    return column


def dropped_void(column: Column, struct: StructType) -> Column:
    """A struct column without its void fields; `struct` has the fields that stay."""
    fields = []
    for field in struct.fields:
        inner = column[field.name]
        fields.append(
            (dropped_void(inner, field.dataType) if isinstance(field.dataType, StructType) else inner).alias(field.name)
        )
    return F.when(column.isNotNull(), F.struct(*fields))


def _restored(column: Column, name: str, data_type: DataType) -> Column:
    if isinstance(data_type, NullType):
        return F.lit(None).alias(name)
    if isinstance(data_type, StructType) and without_void(data_type) != data_type:
        return with_void(column, data_type)
    return column


def stored_fields(schema: StructType, partition_columns: Sequence[str], properties: TableProperties) -> StructType:
    """The table's columns that data files have, in the order of the files: partition columns last, or not at all.

    See "Writer Requirements for IcebergCompatV1" and "Writer Requirements for IcebergCompatV2".
    """
    data = [field for field in schema.fields if field.name not in partition_columns]
    return StructType([*data, *(schema[name] for name in stored_partitions(partition_columns, properties))])


def stored_partitions(partition_columns: Sequence[str], properties: TableProperties) -> tuple[str, ...]:
    """The partition columns that are also in data files."""
    return tuple(partition_columns) if partition_columns and stores_partition_columns(properties) else ()


def with_partition_values(frame: DataFrame, schema: StructType, partition_columns: Sequence[str]) -> DataFrame:
    """`frame` with partition columns as directories and the log have them: files must not have other values."""
    columns = []
    for field in schema.fields:
        column = frame[quote(field.name)]
        if field.name in partition_columns:
            column = partition_value(column, field.dataType).alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def partition_value(value: Column, kind: DataType) -> Column:
    """The value that readers get for a partition value: NULL for an empty one, and for the name of NULL's directory.

    See "Partition Value Serialization".
    """
    if not isinstance(kind, StringType | BinaryType):
        return value
    # As bytes, since some collations ignore blanks.
    nulls = (b"", NULL_DIRECTORY.encode()) if isinstance(kind, StringType) else (b"",)
    return F.when(~value.cast("binary").isin(*map(bytearray, nulls)), value)
