"""What the description of a table demands of its files and of itself, and how two descriptions differ, in words.

A statement that changes the description has checked the files of the version that it read. Files that were committed
since are checked by the rules in this module, the same for all such statements, so none has to record what it checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from pyspark.sql.types import StructField

from anabranch.errors.base import DeltaError
from anabranch.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported
from anabranch.protocol.properties import COMPAT_TAG, TableProperties, compat_versions
from anabranch.schema.column_mapping import ColumnMappingMode, logical_path, physical_name
from anabranch.schema.paths import FieldPath, quoted, walk
from anabranch.schema.serialization import parse_schema

CLUSTERING_DOMAIN = "delta.clustering"


def file_incompatibility(add: AddFile, metadata: Metadata, protocol: Protocol) -> str | None:
    """Why a file may not be in a table with this description, as text; None where it may.

    A requirement that the log does not record for the file, such as Iceberg's column ids, counts as not met.
    """
    properties = TableProperties(metadata.configuration)
    has_vector = add.deletion_vector is not None
    if has_vector and not supported(protocol, "deletionVectors"):
        return f"{add.path} hides rows by a deletion vector, and the table would not support deletion vectors"
    if has_vector and properties.symlink_manifests_enabled:
        return f"{add.path} hides rows by a deletion vector, which symlink manifests cannot express"
    if properties.row_tracking_enabled and add.base_row_id is None:
        return f"{add.path} has no row ids, and row tracking requires them"
    for version in compat_versions(properties)[:1]:
        if has_vector or (add.tags or {}).get(COMPAT_TAG) != str(version):
            return f"{add.path} was not written as version {version} of Iceberg compatibility requires"
    return None


def faults_of_description(metadata: Metadata, domains: Mapping[str, DomainMetadata], *, table: str) -> Iterator[str]:
    """The contradictions in the description of a table, as text. See "Clustered Table"."""
    columns = _clustering(domains.get(CLUSTERING_DOMAIN))
    if not columns:
        return
    if metadata.partition_columns:
        yield "the table would be both partitioned and clustered"
    schema = parse_schema(metadata.schema_string, table)
    mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    for path in columns:
        if logical_path(schema, path, mode) is None:
            yield f"the table would be clustered by {'.'.join(path)}, which is no column of its schema"


def _clustering(domain: DomainMetadata | None) -> list[tuple[str, ...]]:
    """The physical paths of the clustering columns; none where the domain is malformed, as readers take it."""
    if domain is None or domain.removed:
        return []
    try:
        clustering = msgspec.json.decode(domain.configuration)
        return [tuple(map(str, path)) for path in clustering.get("clusteringColumns", [])]
    except (msgspec.MsgspecError, AttributeError, TypeError):
        return []


def physical_partition_columns(metadata: Metadata, *, table: str) -> dict[str, str | None]:
    """The names of the partition columns in `partitionValues`, by logical name; None for one without a field."""
    mode = ColumnMappingMode(TableProperties(metadata.configuration).column_mapping_mode)
    fields = {field.name: field for field in parse_schema(metadata.schema_string, table).fields}
    return {name: physical_name(fields[name], mode) if name in fields else None for name in metadata.partition_columns}


NAMES_MAX = 5
"""Columns of one kind that a message names; the rest are counted."""


def differences(before: Metadata, after: Metadata, *, table: str) -> str | None:
    """The added, dropped and changed columns, the partitioning and the changed properties, as text.

    None where nothing differs, or a schema cannot be read.
    """
    try:
        parts = list(_differences(_columns(before, table), _columns(after, table)))
    except DeltaError:
        return None
    if before.partition_columns != after.partition_columns:
        parts.append(f"partitioned by ({', '.join(after.partition_columns)})")
    names = before.configuration.keys() | after.configuration.keys()
    changed = sorted(name for name in names if before.configuration.get(name) != after.configuration.get(name))
    if changed:
        parts.append(_listed("set", changed))
    return "; ".join(parts) or None


def _columns(metadata: Metadata, table: str) -> dict[FieldPath, StructField]:
    return dict(walk(parse_schema(metadata.schema_string, table)))


def _differences(before: dict[FieldPath, StructField], after: dict[FieldPath, StructField]) -> Iterator[str]:
    added = [quoted(path) for path in after if path not in before and path[:-1] not in after.keys() - before.keys()]
    dropped = [quoted(path) for path in before if path not in after and path[:-1] not in before.keys() - after.keys()]
    changed = [
        quoted(path) for path, field in after.items() if path in before and not _is_the_same(field, before[path])
    ]
    for verb, names in (("added", added), ("dropped", dropped), ("changed", changed)):
        if names:
            yield _listed(verb, names)


def _is_the_same(after: StructField, before: StructField) -> bool:
    """Whether the field itself is unchanged; fields of a struct are compared separately."""
    same = after.nullable == before.nullable and after.metadata == before.metadata
    nested = (
        after.dataType.typeName() in ("struct", "array", "map")
        and after.dataType.typeName() == before.dataType.typeName()
    )
    return same and (nested or after.dataType == before.dataType)


def _listed(verb: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{verb} {', '.join(names[:NAMES_MAX])}{more}"
