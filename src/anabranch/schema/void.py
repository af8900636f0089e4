"""Columns of type void: all null, and never in a data file.

Implements "Void Type" of PROTOCOL.md.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from anabranch.errors.schema import VoidWriteError
from anabranch.schema.comparison import contains_type
from anabranch.schema.paths import quoted, walk


def without_void(struct: StructType) -> StructType:
    """The fields that data files hold; see "Void Type" of PROTOCOL.md."""
    fields = []
    for field in struct.fields:
        if isinstance(field.dataType, NullType):
            continue
        inner = without_void(field.dataType) if isinstance(field.dataType, StructType) else field.dataType
        fields.append(StructField(field.name, inner, field.nullable, field.metadata))
    return StructType(fields)


def check_writable(schema: StructType, *, table: str) -> None:
    """Refuse to write data files for a schema with void in a place where it cannot be left out."""
    for path, field in walk(schema):
        if _holds_void(field.dataType):
            raise VoidWriteError(table=table, column=quoted(path), reason="has void inside an array or a map")
        if isinstance(field.dataType, StructType) and _is_all_void(field.dataType):
            raise VoidWriteError(table=table, column=quoted(path), reason="is a struct of nothing but void fields")
    if _is_all_void(schema):
        raise VoidWriteError(table=table, column="", reason="has nothing but void columns")


def _holds_void(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType | MapType) and contains_type(data_type, NullType)


def _is_all_void(struct: StructType) -> bool:
    return bool(struct.fields) and not without_void(struct).fields
