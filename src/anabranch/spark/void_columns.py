"""Columns of type void, which data files leave out and rows of the table have."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NullType, StructType

from anabranch.schema.void import without_void


def with_void(column: Column, struct: StructType) -> Column:
    """A struct column read without its void fields, as the table has it."""
    fields = [_restored(column[field.name], field.name, field.dataType) for field in struct.fields]
    whole = F.struct(*[restored.alias(field.name) for restored, field in zip(fields, struct.fields, strict=True)])
    return F.when(column.isNotNull(), whole)


def column_with_void(frame: DataFrame, name: str, data_type: DataType) -> Column:
    """Top-level column `name` of a frame that was read without void, under its name."""
    if isinstance(data_type, NullType):
        return F.lit(None).alias(name)
    column = frame[quoted_name(name)]
    if isinstance(data_type, StructType) and without_void(data_type) != data_type:
        return with_void(column, data_type).alias(name)
    return column


def dropped_void(column: Column, struct: StructType) -> Column:
    """The fields that are in `struct`, of a struct column that has void ones as well."""
    fields = []
    for field in struct.fields:
        inner = column[field.name]
        fields.append(
            (dropped_void(inner, field.dataType) if isinstance(field.dataType, StructType) else inner).alias(field.name)
        )
    return F.when(column.isNotNull(), F.struct(*fields))


def quoted_name(name: str) -> str:
    """`name` as PySpark takes it for one column, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def _restored(column: Column, name: str, data_type: DataType) -> Column:
    if isinstance(data_type, NullType):
        return F.lit(None).alias(name)
    if isinstance(data_type, StructType) and without_void(data_type) != data_type:
        return with_void(column, data_type)
    return column
