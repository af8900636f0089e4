"""What a new or replaced table is: schema, partitioning, properties, and the protocol that follows from them."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Mapping

import msgspec
from pyspark.sql.types import StructType

from anabranch.errors.schema import InvalidPartitioningError
from anabranch.errors.tables import EmptyTableSchemaError
from anabranch.protocol.actions import PARQUET, DomainMetadata, Metadata, Protocol
from anabranch.protocol.properties import TableProperties, stored_properties, with_session_defaults
from anabranch.protocol.protocol_evolution import (
    ProtocolRequest,
    protocol_for_existing_table,
    protocol_for_new_table,
    requested_protocol,
    upgrade_protocol,
)
from anabranch.schema.char_varchar import without_char_varchar
from anabranch.schema.column_ids import assign_ids_and_names, check_mapping, random_names, reuse_mapping
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.names import check_names
from anabranch.schema.partitioning import partition_columns_of
from anabranch.schema.paths import child
from anabranch.schema.serialization import check_types, parse_schema, schema_string

CLUSTERING_DOMAIN = "delta.clustering"
CLUSTERING_COLUMNS_MAX = 4
_VECTORS = "delta.enableDeletionVectors"
_MAX_ID = "delta.columnMapping.maxColumnId"
_ROW_TRACKING = "delta.enableRowTracking"
_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
_INTERNAL = frozenset({_MAX_ID, _ROW_ID_COLUMN, _ROW_VERSION_COLUMN})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A table as its creator describes it."""

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """As given: any letter case, protocol pseudo-properties such as `delta.feature.x` included."""
    description: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DefinedTable:
    """The actions that make a table what its definition says."""

    metadata: Metadata
    protocol: Protocol
    domains: tuple[DomainMetadata, ...] = ()


def define_table(
    definition: TableDefinition,
    *,
    label: str,
    session_settings: Mapping[str, str],
    now_ms: int,
    source: random.Random,
) -> DefinedTable:
    """The first actions of a new table. Raises the errors of `errors.schema` and of properties.

    Deletion vectors are on unless the properties, the session's defaults or an old protocol version that
    was asked for say otherwise.
    """
    asked = with_session_defaults(definition.properties, session_settings)
    requested = requested_protocol(asked)
    shape = _shape(definition, _with_vectors(asked, requested), label=label, source=source)
    metadata = Metadata(
        id=str(uuid.UUID(int=source.getrandbits(128), version=4)),
        description=definition.description,
        format=PARQUET,
        schema_string=schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
        created_time=now_ms,
    )
    protocol = protocol_for_new_table(shape.schema, shape.properties, requested)
    return DefinedTable(metadata=metadata, protocol=_with_clustering(protocol, shape), domains=shape.domains)


def redefine_table(
    definition: TableDefinition,
    metadata: Metadata,
    protocol: Protocol,
    *,
    label: str,
    session_settings: Mapping[str, str],
    now_ms: int,
    source: random.Random,
) -> DefinedTable:
    """The actions that give an existing table a new definition; it keeps its id, history and features."""
    asked = with_session_defaults(definition.properties, session_settings)
    requested = requested_protocol(asked)
    internal = {name: value for name, value in _current(metadata).items() if name in _INTERNAL}
    shape = _shape(
        definition,
        {**internal, **_with_vectors(asked, requested)},
        label=label,
        source=source,
        old_schema=parse_schema(metadata.schema_string, label),
    )
    changed = msgspec.structs.replace(
        metadata,
        schema_string=schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
        description=definition.description,
        created_time=now_ms,
    )
    upgraded = protocol_for_existing_table(protocol, shape.schema, shape.properties, requested)
    return DefinedTable(metadata=changed, protocol=_with_clustering(upgraded, shape), domains=shape.domains)


def with_schema(
    metadata: Metadata,
    protocol: Protocol,
    schema: StructType,
    *,
    partition_columns: tuple[str, ...] | None = None,
    label: str,
    source: random.Random,
) -> DefinedTable:
    """The actions that give an existing table another schema and leave its properties alone.

    Columns that stay what they were keep their ids and physical names; others get new ones.
    """
    columns = tuple(metadata.partition_columns) if partition_columns is None else partition_columns
    shape = _shape(
        TableDefinition(schema=schema, partition_columns=columns),
        _current(metadata),
        label=label,
        source=source,
        old_schema=parse_schema(metadata.schema_string, label),
    )
    changed = msgspec.structs.replace(
        metadata,
        schema_string=schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
    )
    return DefinedTable(
        metadata=changed, protocol=protocol_for_existing_table(protocol, shape.schema, shape.properties)
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """A definition with everything filled in that the table itself decides."""

    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    domains: tuple[DomainMetadata, ...]

    @property
    def properties(self) -> TableProperties:
        return TableProperties(self.configuration)


def _shape(
    definition: TableDefinition,
    configuration: Mapping[str, str],
    *,
    label: str,
    source: random.Random,
    old_schema: StructType | None = None,
) -> _Shape:
    if not definition.schema.fields:
        raise EmptyTableSchemaError(table=label)
    check_types(definition.schema, label)
    schema = without_char_varchar(definition.schema)
    partition_columns = partition_columns_of(schema, definition.partition_columns, table=label)
    stored = _with_row_tracking_columns(dict(configuration), source)
    mode = ColumnMappingMode.parse(TableProperties(stored).column_mapping_mode)
    if mode.maps:
        known = schema if old_schema is None else reuse_mapping(schema, old_schema)
        # Ids count up from the highest ever given: files may still use those of columns that are gone.
        highest = int(stored.get(_MAX_ID, "0"))
        schema, highest = assign_ids_and_names(known, highest, keep_names=False, new_name=random_names(source))
        stored[_MAX_ID] = str(highest)
        check_mapping(schema, mode, highest, table=label)
    else:
        stored.pop(_MAX_ID, None)
    properties = TableProperties(stored)
    check_names(schema, mode, table=label, change_data_feed=properties.change_data_feed_enabled)
    domains = clustering_domain(definition.clustering_columns, schema, mode, partition_columns, label=label)
    return _Shape(schema=schema, partition_columns=partition_columns, configuration=stored, domains=domains)


def _with_vectors(asked: Mapping[str, str], requested: ProtocolRequest) -> dict[str, str]:
    stored = stored_properties(asked)
    if _VECTORS not in stored and (requested.min_writer_version or 7) >= 7:
        stored[_VECTORS] = "true"
    return stored


def _with_clustering(protocol: Protocol, shape: _Shape) -> Protocol:
    return upgrade_protocol(protocol, ["clustering"]) if shape.domains else protocol


def _current(metadata: Metadata) -> dict[str, str]:
    return {name: value for name, value in metadata.configuration.items() if value is not None}


def clustering_domain(
    columns: tuple[str, ...],
    schema: StructType,
    mode: ColumnMappingMode,
    partition_columns: tuple[str, ...],
    *,
    label: str,
) -> tuple[DomainMetadata, ...]:
    """The domain that names the clustering columns; none for a table without. See "Clustered Table"."""
    if not columns:
        return ()
    if partition_columns:
        raise InvalidPartitioningError(
            table=label, columns=columns, reason="a table is either partitioned or clustered, not both"
        )
    if len(columns) > CLUSTERING_COLUMNS_MAX:
        reason = f"a table is clustered by {CLUSTERING_COLUMNS_MAX} columns at most"
        raise InvalidPartitioningError(table=label, columns=columns, reason=reason)
    physical = []
    for name in columns:
        field = child(schema, name)
        if field is None:
            raise InvalidPartitioningError(table=label, columns=columns, reason=f"there is no column {name}")
        physical.append([physical_name(field, mode)])
    configuration = msgspec.json.encode({"clusteringColumns": physical, "domainName": CLUSTERING_DOMAIN}).decode()
    return (DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=configuration, removed=False),)


def _with_row_tracking_columns(stored: dict[str, str], source: random.Random) -> dict[str, str]:
    """See "Row Tracking": the names of the columns are fixed when row tracking starts."""
    if stored.get(_ROW_TRACKING, "false").lower() != "true":
        return stored
    names = {
        _ROW_ID_COLUMN: f"_row-id-col-{uuid.UUID(int=source.getrandbits(128), version=4)}",
        _ROW_VERSION_COLUMN: f"_row-commit-version-col-{uuid.UUID(int=source.getrandbits(128), version=4)}",
    }
    return {**names, **stored}
