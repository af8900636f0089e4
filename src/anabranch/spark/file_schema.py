"""The schema of the data files of a table."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.schema.column_mapping import PARQUET_ID, ColumnMappingMode, to_physical, with_field_ids


def stored_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """Physical names, ids where the table has them, and everything nullable: columns may be added to a table later.

    `schema` is the table's, without void. Metadata other than ids is the log's business, and no file needs it.
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
