"""DESCRIBE TABLE EXTENDED … AS JSON, with the fields of Spark's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.show_table import properties_of
from anabranch.commands.table_access import TableHandle
from anabranch.schema.char_varchar import DECLARED_TYPE
from anabranch.schema.paths import quoted
from anabranch.schema.visibility import CURRENT_DEFAULT, visible_schema

SCHEMA = StructType([StructField("json_metadata", StringType(), False)])
_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")
_CATALOG = "spark_catalog"


def describe_as_json(handle: TableHandle) -> DataFrame:
    """One row with one JSON object."""
    return handle.session.spark.createDataFrame([(json.dumps(_facts(handle), ensure_ascii=False),)], SCHEMA)


def _facts(handle: TableHandle) -> dict[str, Any]:
    snapshot = handle.latest()
    schema, table = handle.entry.name.parts if handle.entry is not None else ("delta", handle.path)
    defaults = {field.name: field.metadata.get(CURRENT_DEFAULT) for field in snapshot.schema.fields}
    facts: dict[str, Any] = {
        "table_name": table,
        "catalog_name": _CATALOG,
        "namespace": [schema],
        "schema_name": schema,
        "columns": [_column(field, defaults.get(field.name)) for field in visible_schema(snapshot.schema).fields],
        "location": handle.path if ":" in handle.path else f"file:{handle.path}",
    }
    if handle.entry is not None:
        facts["type"] = "MANAGED" if handle.entry.is_managed else "EXTERNAL"
    facts["provider"] = "delta"
    if snapshot.metadata.description:
        facts["comment"] = snapshot.metadata.description
    facts["table_properties"] = dict(sorted(properties_of(snapshot).items()))
    if snapshot.partition_columns:
        facts["partition_columns"] = list(snapshot.partition_columns)
    if clusters := clustering_columns(snapshot):
        facts["clustering_columns"] = [quoted(path) if len(path) > 1 else path[0] for path in clusters]
    return facts


def _column(field: StructField, default: Any = None) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": field.name, "type": _type(field), "nullable": field.nullable}
    comment = field.metadata.get("comment")
    if comment is not None:
        facts["comment"] = comment
    if default is not None:
        facts["default"] = default
    return facts


def _type(field: StructField) -> dict[str, Any]:
    declared = field.metadata.get(DECLARED_TYPE)
    limited = _LENGTH.fullmatch(declared) if isinstance(declared, str) else None
    return _kind(field.dataType) if limited is None else {"name": limited[1], "length": int(limited[2])}


def _kind(kind: DataType) -> dict[str, Any]:
    if isinstance(kind, StructType):
        return {"name": "struct", "fields": [_column(field) for field in kind.fields]}
    if isinstance(kind, ArrayType):
        return {"name": "array", "element_type": _kind(kind.elementType), "element_nullable": kind.containsNull}
    if isinstance(kind, MapType):
        types = {"key_type": _kind(kind.keyType), "value_type": _kind(kind.valueType)}
        return {"name": "map", **types, "value_nullable": kind.valueContainsNull}
    if isinstance(kind, DecimalType):
        return {"name": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, StringType):
        return {"name": "string", "collation": _collation(kind)}
    return {"name": _NAMES.get(type(kind), kind.simpleString())}


def _collation(kind: StringType) -> str:
    return str(getattr(kind, "collation", "UTF8_BINARY"))


_NAMES: Mapping[type, str] = {TimestampType: "timestamp_ltz"}
