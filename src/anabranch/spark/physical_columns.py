"""From rows as data files name them to rows as the table does, by a projection."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.spark.void_columns import quoted_name


def renamed(frame: DataFrame, schema: StructType, mode: ColumnMappingMode, *, kept: Sequence[str] = ()) -> DataFrame:
    """The columns of `schema`, the table's, out of a frame with physical names; then those in `kept`, as they are.

    Filters on columns that are not nested reach the scan through this projection.
    """
    columns = [_renamed(frame[quoted_name(physical_name(field, mode))], field.dataType, field.name) for field in schema]
    return frame.select(*columns, *[frame[quoted_name(name)] for name in kept])


def _renamed(column: Column, data_type: DataType, name: str) -> Column:
    # A cast of structs goes by position, so that it gives nested fields their names.
    return (column.cast(data_type) if _has_struct(data_type) else column).alias(name)


def _has_struct(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_struct(data_type.elementType)
    if isinstance(data_type, MapType):
        return _has_struct(data_type.keyType) or _has_struct(data_type.valueType)
    return isinstance(data_type, StructType)
