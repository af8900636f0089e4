"""DESCRIBE DETAIL and DESCRIBE HISTORY, with Delta's columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.commands.definition.clustering import clustering_columns, quoted_clustering_columns
from anabranch.commands.table_access import TableRef, table_at
from anabranch.log.commit_history import HistoryEntry, read_history
from anabranch.protocol.features import supported_features
from anabranch.schema.computed_columns import CURRENT_DEFAULT
from anabranch.schema.logical_types import DECLARED_TYPE
from anabranch.schema.paths import quote, quoted
from anabranch.schema.schema_evolution import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.catalog import SESSION_CATALOG, CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, TableIdentifier

_STRING, _LONG, _TIMESTAMP = StringType(), LongType(), TimestampType()
_TEXTS = MapType(_STRING, _STRING)

DETAIL_SCHEMA = StructType(
    [
        StructField("format", _STRING),
        StructField("id", _STRING),
        StructField("name", _STRING),
        StructField("description", _STRING),
        StructField("location", _STRING),
        StructField("createdAt", _TIMESTAMP),
        StructField("lastModified", _TIMESTAMP),
        StructField("partitionColumns", ArrayType(_STRING)),
        StructField("clusteringColumns", ArrayType(_STRING)),
        StructField("numFiles", _LONG),
        StructField("sizeInBytes", _LONG),
        StructField("properties", _TEXTS),
        StructField("minReaderVersion", IntegerType()),
        StructField("minWriterVersion", IntegerType()),
        StructField("tableFeatures", ArrayType(_STRING)),
    ]
)

_JOB = StructType(
    [StructField(name, _STRING) for name in ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")]
)
_NOTEBOOK = StructType([StructField("notebookId", _STRING)])

HISTORY_SCHEMA = StructType(
    [
        StructField("version", _LONG),
        StructField("timestamp", _TIMESTAMP),
        StructField("userId", _STRING),
        StructField("userName", _STRING),
        StructField("operation", _STRING),
        StructField("operationParameters", _TEXTS),
        StructField("job", _JOB),
        StructField("notebook", _NOTEBOOK),
        StructField("clusterId", _STRING),
        StructField("readVersion", _LONG),
        StructField("isolationLevel", _STRING),
        StructField("isBlindAppend", BooleanType()),
        StructField("operationMetrics", _TEXTS),
        StructField("userMetadata", _STRING),
        StructField("engineInfo", _STRING),
    ]
)


def describe_detail(table: TableRef) -> DataFrame:
    """One row about the newest version. Raises `NotADeltaTableError`."""
    row = detail_of(table.latest(), location=table.path, name=_qualified(table.entry))
    return table.session.spark.createDataFrame([tuple(row.values())], DETAIL_SCHEMA)


def describe_other(session: DeltaSession, identifier: TableIdentifier) -> DataFrame | None:
    """One row about a table of another format, or about a folder with files of any kind; columns may be null.

    None where neither exists, and for views.
    """
    row: dict[str, Any] = dict.fromkeys(DETAIL_SCHEMA.fieldNames())
    if isinstance(identifier, PathIdentifier):
        table = table_at(session, identifier.path)
        if next(iter(table.delta_log.store.list_tree()), None) is None:
            return None
        row |= {"location": _uri(table.path), "properties": {}}
    else:
        entry = None if session.catalog.is_temporary_view(identifier) else session.catalog.find(identifier)
        if entry is None or entry.provider is None:
            return None
        name = ".".join(quote(part) for part in entry.full_name.parts)
        row |= {
            "format": entry.provider,
            "name": _qualified(entry),
            "description": session.spark.catalog.getTable(name).description or "",
            "location": entry.location and _uri(entry.location),
            "partitionColumns": [
                column.name for column in session.spark.catalog.listColumns(name) if column.isPartition
            ],
            "properties": {row.key: row.value for row in session.spark.sql(f"SHOW TBLPROPERTIES {name}").collect()},
        }
    return session.spark.createDataFrame([tuple(row.values())], DETAIL_SCHEMA)


def _uri(location: str) -> str:
    return location if ":" in location else f"file:{location}"


def _qualified(entry: CatalogEntry | None) -> str | None:
    """The table's name with that of its catalog, which Delta shows here."""
    return None if entry is None else ".".join(entry.full_name.parts)


def describe_history(table: TableRef, limit: int | None) -> DataFrame:
    """One row for each commit, newest first. Raises `NotADeltaTableError`."""
    snapshot = table.latest()
    entries = read_history(table.delta_log.store, upto=snapshot.version, properties=snapshot.properties, limit=limit)
    rows = [_history_row(entry) for entry in entries]
    return table.session.spark.createDataFrame(rows, HISTORY_SCHEMA)


def detail_of(snapshot: Snapshot, *, location: str, name: str | None) -> dict[str, Any]:
    """The columns of DESCRIBE DETAIL, in order; times are datetimes with a time zone."""
    created = snapshot.metadata.created_time
    return {
        "format": "delta",
        "id": snapshot.metadata.id,
        "name": name if name is not None else snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "location": _uri(location),
        "createdAt": None if created is None else _at(created),
        "lastModified": _at(snapshot.timestamp_ms),
        "partitionColumns": list(snapshot.partition_columns),
        "clusteringColumns": quoted_clustering_columns(snapshot),
        "numFiles": snapshot.files.count,
        "sizeInBytes": snapshot.files.size_bytes,
        "properties": dict(snapshot.metadata.configuration),
        "minReaderVersion": snapshot.protocol.min_reader_version,
        "minWriterVersion": snapshot.protocol.min_writer_version,
        "tableFeatures": sorted(supported_features(snapshot.protocol)),
    }


def _history_row(entry: HistoryEntry) -> tuple[Any, ...]:
    info = entry.info
    if info is None:
        return (entry.version, _at(entry.timestamp_ms), *[None] * (len(HISTORY_SCHEMA.fields) - 2))
    return (
        entry.version,
        _at(entry.timestamp_ms),
        info.user_id,
        info.user_name,
        info.operation,
        _as_texts(info.operation_parameters),
        _as_struct(info.job, _JOB),
        _as_struct(info.notebook, _NOTEBOOK),
        info.cluster_id,
        info.read_version,
        info.isolation_level,
        info.is_blind_append,
        _as_texts(info.operation_metrics),
        info.user_metadata,
        info.engine_info,
    )


def _as_texts(values: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    if values is None:
        return None
    return {
        key: value if value is None or isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def _as_struct(values: Mapping[str, Any] | None, kind: StructType) -> tuple[str | None, ...] | None:
    if values is None:
        return None
    return tuple(None if values.get(name) is None else str(values[name]) for name in kind.fieldNames())


def _at(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


# DESCRIBE TABLE EXTENDED … AS JSON, with the fields of Spark's statement.


SCHEMA = StructType([StructField("json_metadata", StringType(), False)])
_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")


def describe_as_json(table: TableRef) -> DataFrame:
    """One row with one JSON object."""
    return table.session.spark.createDataFrame([(json.dumps(_facts(table), ensure_ascii=False),)], SCHEMA)


def _facts(table: TableRef) -> dict[str, Any]:
    snapshot = table.latest()
    catalog, *schema, name = table.entry.full_name.parts if table.entry else (SESSION_CATALOG, "delta", table.path)
    defaults = {field.name: field.metadata.get(CURRENT_DEFAULT) for field in snapshot.schema.fields}
    facts: dict[str, Any] = {
        "table_name": name,
        "catalog_name": catalog,
        "namespace": schema,
        "schema_name": schema[0] if schema else "",
        "columns": [_column(field, defaults.get(field.name)) for field in visible_schema(snapshot.schema).fields],
        "location": table.path if ":" in table.path else f"file:{table.path}",
    }
    if table.entry is not None:
        facts["type"] = "MANAGED" if table.entry.is_managed else "EXTERNAL"
    facts["provider"] = "delta"
    if snapshot.metadata.description:
        facts["comment"] = snapshot.metadata.description
    facts["table_properties"] = dict(sorted(snapshot.shown_properties().items()))
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
