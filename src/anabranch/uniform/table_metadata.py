"""The metadata of a table in Iceberg's form, made from Delta's snapshot and from the previous metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID

from anabranch.protocol.properties import UNIVERSAL_FORMAT_CONFIG_PREFIX
from anabranch.snapshot.snapshot import Snapshot as DeltaSnapshot
from anabranch.uniform.iceberg_files import FORMAT_VERSION
from anabranch.uniform.iceberg_schema import ROW_ID, ROW_VERSION, iceberg_schema, name_mapping, partition_spec
from anabranch.uniform.manifests import ManifestSet
from anabranch.uniform.table_locations import TableLocations

METADATA_KEPT_MAX: Final = 20
"""How many versions of the metadata are kept, and how many snapshots each of them lists."""
DELTA_VERSION: Final = "delta-version"
DELTA_TIMESTAMP: Final = "delta-timestamp"
_NAME_MAPPING = "schema.name-mapping.default"
_ICEBERG_PREFIX = f"{UNIVERSAL_FORMAT_CONFIG_PREFIX}iceberg."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The published metadata on which that of a new version is based."""

    version: int
    """The version of the Delta table."""
    metadata_location: str
    metadata: TableMetadataV2


def next_schema(snapshot: DeltaSnapshot, base: Base | None) -> Schema:
    """The schema of the version, with the id of an earlier schema that has the same columns."""
    schema = iceberg_schema(snapshot.schema, table=snapshot.table_root)
    if base is None:
        return schema
    for earlier in base.metadata.schemas:
        if earlier.fields == schema.fields:
            return earlier
    new_id = max(earlier.schema_id for earlier in base.metadata.schemas) + 1
    return Schema(*schema.fields, schema_id=new_id, identifier_field_ids=[])


def next_spec(snapshot: DeltaSnapshot, base: Base | None) -> PartitionSpec:
    """The partition spec, with the id of an earlier one of the same columns, which may have been renamed since."""
    wanted = partition_spec(snapshot.schema, snapshot.partition_columns, table=snapshot.table_root, spec_id=0)
    if base is None:
        return wanted
    sources = [field.source_id for field in wanted.fields]
    specs = base.metadata.partition_specs
    same = (spec.spec_id for spec in specs if [field.source_id for field in spec.fields] == sources)
    return PartitionSpec(*wanted.fields, spec_id=next(same, max(spec.spec_id for spec in specs) + 1))


def iceberg_snapshot(
    snapshot: DeltaSnapshot,
    base: Base | None,
    files: ManifestSet,
    schema: Schema,
    *,
    snapshot_id: int,
    manifest_list: str,
    operation: Operation,
) -> Snapshot:
    """The entry of the metadata for a new set of files."""
    totals = {
        "added-data-files": files.added_files,
        "added-records": files.added_rows,
        "deleted-data-files": files.deleted_files,
        "deleted-records": files.deleted_rows,
        "total-data-files": files.live_files,
        "total-records": files.live_rows,
        "total-files-size": snapshot.files.size_bytes,
        "total-delete-files": 0,
        DELTA_VERSION: snapshot.version,
    }
    parent = None if base is None else base.metadata.current_snapshot_id
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            **({} if parent is None else {"parent-snapshot-id": parent}),
            "sequence-number": next_sequence_number(base),
            "timestamp-ms": _timestamp_ms(snapshot, base),
            "manifest-list": manifest_list,
            "summary": Summary(operation, **{name: str(count) for name, count in totals.items()}),
            "schema-id": schema.schema_id,
        }
    )


def next_sequence_number(base: Base | None) -> int:
    """The sequence number of a new snapshot. They count up by 1."""
    return 1 if base is None else base.metadata.last_sequence_number + 1


def next_metadata(
    snapshot: DeltaSnapshot,
    base: Base | None,
    schema: Schema,
    spec: PartitionSpec,
    new: Snapshot | None,
    locations: TableLocations,
) -> TableMetadataV2:
    """The metadata of the version. Without a new snapshot, its files are those of the base."""
    before = None if base is None else base.metadata
    snapshots = [*(before.snapshots if before else []), *([new] if new else [])][-METADATA_KEPT_MAX:]
    current = new.snapshot_id if new else (before.current_snapshot_id if before else None)
    used = {entry.schema_id for entry in snapshots} - {schema.schema_id}
    schemas = [earlier for earlier in (before.schemas if before else []) if earlier.schema_id in used]
    specs = [earlier for earlier in (before.partition_specs if before else []) if earlier.spec_id != spec.spec_id]
    metadata: dict[str, Any] = {
        "format-version": FORMAT_VERSION,
        "location": locations.location,
        "table-uuid": snapshot.metadata.id,
        "last-updated-ms": _timestamp_ms(snapshot, base),
        "last-column-id": max(snapshot.properties.column_mapping_max_id, schema.highest_field_id),
        "schemas": [*schemas, schema],
        "current-schema-id": schema.schema_id,
        "partition-specs": [*specs, spec],
        "default-spec-id": spec.spec_id,
        "last-partition-id": max(listed.last_assigned_field_id for listed in (*specs, spec))
        if any(listed.fields for listed in (*specs, spec))
        else PARTITION_FIELD_ID_START - 1,
        "properties": _properties(snapshot),
        "snapshots": snapshots,
        "snapshot-log": _snapshot_log(snapshots),
        "metadata-log": _metadata_log(base),
        "sort-orders": [UNSORTED_SORT_ORDER],
        "default-sort-order-id": UNSORTED_SORT_ORDER_ID,
        "last-sequence-number": max((entry.sequence_number or 0 for entry in snapshots), default=0),
    }
    if current is not None:
        metadata["current-snapshot-id"] = current
        metadata["refs"] = {MAIN_BRANCH: {"snapshot-id": current, "type": "branch"}}
    return TableMetadataV2.model_validate(metadata)


def _snapshot_log(snapshots: Sequence[Snapshot]) -> list[dict[str, Any]]:
    return [{"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms} for snapshot in snapshots]


def _metadata_log(base: Base | None) -> list[Any]:
    if base is None:
        return []
    entry = {"metadata-file": base.metadata_location, "timestamp-ms": base.metadata.last_updated_ms}
    return [*base.metadata.metadata_log, entry][-METADATA_KEPT_MAX + 1 :]


def _properties(snapshot: DeltaSnapshot) -> dict[str, str]:
    chosen = {
        name[len(_ICEBERG_PREFIX) :]: value
        for name, value in snapshot.metadata.configuration.items()
        if name.startswith(_ICEBERG_PREFIX) and value is not None
    }
    # Some readers refuse files with a column for which the metadata has no id.
    tracking = {
        snapshot.properties.materialized_row_id_column: ROW_ID,
        snapshot.properties.materialized_row_commit_version_column: ROW_VERSION,
    }
    mapping = name_mapping(
        snapshot.schema,
        snapshot.column_mapping_mode,
        table=snapshot.table_root,
        hidden={name: number for name, number in tracking.items() if name is not None},
    )
    return {
        **chosen,
        _NAME_MAPPING: mapping.model_dump_json(),
        DELTA_VERSION: str(snapshot.version),
        DELTA_TIMESTAMP: str(snapshot.timestamp_ms),
    }


def _timestamp_ms(snapshot: DeltaSnapshot, base: Base | None) -> int:
    """The time of the commit, but not before the last update of the base, as Iceberg requires."""
    return max(snapshot.timestamp_ms, base.metadata.last_updated_ms if base else 0)
