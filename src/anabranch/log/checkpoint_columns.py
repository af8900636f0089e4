"""Actions as the columns of a checkpoint. See "Checkpoint Schema"."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from anabranch.log.file_columns import DELETION_VECTOR, LIVE_FILE_SCHEMA, STRING_MAP, TOMBSTONE_SCHEMA
from anabranch.protocol.actions import Action, CheckpointMetadata, DomainMetadata, Metadata, Protocol, SetTransaction
from anabranch.protocol.actions_json import KEY_BY_TYPE

CAMEL = {
    "partition_values": "partitionValues",
    "modification_time": "modificationTime",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "clustering_provider": "clusteringProvider",
    "deletion_timestamp": "deletionTimestamp",
    "data_change": "dataChange",
    "extended_file_metadata": "extendedFileMetadata",
    "storage_type": "storageType",
    "path_or_inline_dv": "pathOrInlineDv",
    "size_in_bytes": "sizeInBytes",
    "max_row_index": "maxRowIndex",
}
"""Names in the log, by names of the columns, where the two differ."""

_STRINGS = pa.list_(pa.field("element", pa.string()))

METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _STRINGS),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _STRINGS),
        ("writerFeatures", _STRINGS),
    ]
)
TRANSACTION = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])
SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
)
VECTOR = pa.struct([(CAMEL.get(field.name, field.name), field.type) for field in DELETION_VECTOR])
REMOVE = pa.struct(
    [
        (CAMEL.get(field.name, field.name), VECTOR if field.type == DELETION_VECTOR else field.type)
        for field in TOMBSTONE_SCHEMA
    ]
)

_NON_FILE: dict[type[Action], tuple[str, pa.DataType]] = {
    Protocol: ("protocol", PROTOCOL),
    Metadata: ("metaData", METADATA),
    SetTransaction: ("txn", TRANSACTION),
    DomainMetadata: ("domainMetadata", DOMAIN),
}


def add_type(*, with_json: bool, parsed: Sequence[pa.Field] = ()) -> pa.StructType:
    """The type of the column `add`, with or without `stats`, and with the `…_parsed` fields in `parsed`."""
    fields: list[pa.Field] = []
    for field in LIVE_FILE_SCHEMA:
        if field.name == "stats" and not with_json:
            continue
        kind = VECTOR if field.type == DELETION_VECTOR else field.type
        fields.append(pa.field(CAMEL.get(field.name, field.name), kind))
        if field.name == "modification_time":
            fields.append(pa.field("dataChange", pa.bool_()))
    return pa.struct([*fields, *parsed])


def adds_column(files: pa.RecordBatch, kind: pa.StructType, parsed: dict[str, pa.Array]) -> pa.StructArray:
    """Rows of `LIVE_FILE_SCHEMA` as the column `add`; `dataChange` is false in checkpoints."""
    columns = {CAMEL.get(name, name): files[name] for name in files.schema.names}
    columns["dataChange"] = pa.array([False] * files.num_rows, pa.bool_())
    return _struct({**columns, **parsed}, kind)


def removes_column(tombstones: pa.RecordBatch) -> pa.StructArray:
    """Rows of `TOMBSTONE_SCHEMA` as the column `remove`."""
    columns = {CAMEL.get(name, name): tombstones[name] for name in tombstones.schema.names}
    columns["dataChange"] = pa.array([False] * tombstones.num_rows, pa.bool_())
    return _struct(columns, REMOVE)


def action_columns(actions: Sequence[Action]) -> dict[str, pa.Array]:
    """One column for each kind of action other than files, one row per action."""
    columns = {}
    for kind, (name, column_type) in _NON_FILE.items():
        rows = [_row(action) if isinstance(action, kind) else None for action in actions]
        columns[name] = pa.array(rows, column_type)
    if any(isinstance(action, CheckpointMetadata) for action in actions):
        for name, column_type in (("checkpointMetadata", CHECKPOINT_METADATA), ("sidecar", SIDECAR)):
            rows = [_row(action) if KEY_BY_TYPE[type(action)] == name else None for action in actions]
            columns[name] = pa.array(rows, column_type)
    return columns


def _row(action: Action) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(action)
    return {name: _entries(name, value) for name, value in row.items()}


def _entries(name: str, value: Any) -> Any:
    """The value of a field, with maps as lists of pairs, as Arrow expects them."""
    if name in {"configuration", "tags", "options"} and isinstance(value, dict):
        return list(value.items())
    if name == "format":
        return {key: _entries(key, nested) for key, nested in value.items()}
    return value


def _struct(columns: dict[str, pa.Array], kind: pa.StructType) -> pa.StructArray:
    fields = [kind.field(position) for position in range(kind.num_fields)]
    arrays = []
    for field in fields:
        column = columns[field.name]
        if field.name == "deletionVector":
            column = _vectors(column)
        arrays.append(column.cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _vectors(column: pa.StructArray) -> pa.StructArray:
    if column.null_count == len(column):
        return pa.nulls(len(column), VECTOR)
    fields = [VECTOR.field(position) for position in range(VECTOR.num_fields)]
    return pa.StructArray.from_arrays(column.flatten(), fields=fields, mask=column.is_null())


# Conversion of statistics from columns of a checkpoint to JSON. See "Per-file Statistics".


_ROWS_PER_SLICE = 10_000


def statistics_json(parsed: pa.StructArray) -> pa.Array:
    """The JSON of each row of a `stats_parsed` column; null where there are no statistics."""
    texts: list[str | None] = []
    for start in range(0, len(parsed), _ROWS_PER_SLICE):
        texts += [_json_of(row) for row in parsed.slice(start, _ROWS_PER_SLICE).to_pylist()]
    return pa.array(texts, pa.string())


def _json_of(row: dict[str, Any] | None) -> str | None:
    present = _present(row)
    return None if not present else _ENCODER.encode(present).decode()


def _present(value: Any) -> Any:
    """The statistics in a value without its nulls, which mean that there is no such statistic."""
    if isinstance(value, dict):
        fields = {name: _present(nested) for name, nested in value.items()}
        return {name: nested for name, nested in fields.items() if nested is not None and nested != {}}
    if isinstance(value, datetime.datetime):
        return _timestamp(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return None
    return value


def _timestamp(value: datetime.datetime) -> str:
    """A timestamp in milliseconds, as in statistics; data skipping allows for the microseconds that are cut off."""
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text if value.tzinfo is None else f"{text}Z"


def _encode(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return value
    raise TypeError(f"{type(value).__name__} is no statistic")


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_encode)
