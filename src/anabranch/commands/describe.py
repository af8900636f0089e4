"""DESCRIBE DETAIL and DESCRIBE HISTORY, with Delta's columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.commands import clustering
from anabranch.commands.table_access import TableHandle
from anabranch.log.history import HistoryEntry, read_history
from anabranch.protocol.features import supported_features
from anabranch.schema.paths import quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.catalog import SESSION_CATALOG, CatalogEntry

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


def describe_detail(handle: TableHandle) -> DataFrame:
    """One row about the newest version. Raises `NotADeltaTableError`."""
    row = detail_of(handle.latest(), location=handle.path, name=_qualified(handle.entry))
    return handle.session.spark.createDataFrame([tuple(row.values())], DETAIL_SCHEMA)


def _qualified(entry: CatalogEntry | None) -> str | None:
    """The table's name in the catalog, with the catalog's: what Delta calls it here."""
    return None if entry is None else ".".join((SESSION_CATALOG, *entry.name.parts))


def describe_history(handle: TableHandle, limit: int | None) -> DataFrame:
    """One row a commit, newest first. Raises `NotADeltaTableError`."""
    snapshot = handle.latest()
    entries = read_history(handle.table.store, upto=snapshot.version, properties=snapshot.properties, limit=limit)
    rows = [_history_row(entry) for entry in entries]
    return handle.session.spark.createDataFrame(rows, HISTORY_SCHEMA)


def detail_of(snapshot: Snapshot, *, location: str, name: str | None) -> dict[str, Any]:
    """The columns of DESCRIBE DETAIL, in order; times are aware datetimes."""
    created = snapshot.metadata.created_time
    return {
        "format": "delta",
        "id": snapshot.metadata.id,
        "name": name if name is not None else snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "location": location if ":" in location else f"file:{location}",
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


def quoted_clustering_columns(snapshot: Snapshot) -> list[str]:
    """Logical names of the columns that the table is clustered by; none for a table without."""
    return [quoted(path) for path in clustering.clustering_columns(snapshot)]


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
