"""Definitions of tables: schema, partitioning, properties, and the protocol that follows from them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql.types import StructType

from anabranch.booleans import parse_boolean
from anabranch.clock import random_uuid
from anabranch.commands.definition.clustering import clustering_domain, column_named
from anabranch.commands.definition.manifest_rules import check_manifests
from anabranch.errors.constraints import ConstraintExistsError
from anabranch.errors.schema import InvalidColumnMappingError
from anabranch.errors.tables import EmptyTableSchemaError
from anabranch.protocol.actions import PARQUET, DomainMetadata, Metadata, Protocol
from anabranch.protocol.properties import (
    CONSTRAINT_PREFIX,
    TableProperties,
    numbers_nested_fields,
    stored_properties,
    with_requirements,
    with_session_defaults,
    without_orphaned_format,
    writes_iceberg,
)
from anabranch.protocol.protocol_evolution import (
    ProtocolRequest,
    protocol_for_existing_table,
    protocol_for_new_table,
    requested_protocol,
    upgrade_protocol,
)
from anabranch.protocol.statistics import check_stats_columns
from anabranch.schema.column_mapping import (
    ColumnMappingMode,
    assign_ids_and_names,
    check_mapping,
    check_mode_change,
    has_mapping,
    random_names,
    reuse_mapping,
)
from anabranch.schema.iceberg_rules import check_iceberg_table
from anabranch.schema.logical_types import without_char_varchar
from anabranch.schema.names import check_column_names, check_duplicates, partition_columns_of
from anabranch.schema.serialization import check_types, parse_schema, schema_string
from anabranch.transactions.commit.commit_attempt import PROTECTED_BEFORE
from anabranch.uniform.iceberg_library import check_installed

MAX_ID = "delta.columnMapping.maxColumnId"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
_ROW_TRACKING = "delta.enableRowTracking"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """Columns and properties, completed with the ids, names and properties that are assigned by the table."""

    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    domains: tuple[DomainMetadata, ...]

    @property
    def properties(self) -> TableProperties:
        return TableProperties(self.configuration)


def table_shape(
    columns: StructType,
    configuration: Mapping[str, str],
    *,
    partition_columns: Sequence[str] = (),
    clustering_columns: Sequence[str] = (),
    label: str,
    source: random.Random,
    old_schema: StructType | None = None,
    keeps_names: bool = False,
) -> TableShape:
    """The shape of a table of these columns and stored properties.

    Columns with the same name and type in `old_schema` keep their ids and physical names. With `keeps_names`, existing
    files have columns of the names in `columns`. Raises the errors of `errors.schema`.
    """
    check_types(columns, label)
    schema = without_char_varchar(columns)
    # Before ids are assigned: two columns of one name would get the same id.
    check_duplicates(schema, where="the schema", table=label)
    partitions = partition_columns_of(schema, partition_columns, table=label)
    stored = _with_row_tracking_columns(dict(configuration), source)
    mode = ColumnMappingMode.parse(TableProperties(stored).column_mapping_mode)
    if mode.maps:
        mapped = schema if old_schema is None else reuse_mapping(schema, old_schema)
        # Ids continue from the highest ever assigned: files may still use those of dropped columns.
        highest = int(stored.get(MAX_ID, "0"))
        schema, highest = assign_ids_and_names(
            mapped,
            highest,
            keep_names=keeps_names,
            new_name=random_names(source),
            with_nested_ids=numbers_nested_fields(TableProperties(stored)),
        )
        stored[MAX_ID] = str(highest)
        check_mapping(schema, mode, highest, table=label)
    else:
        stored.pop(MAX_ID, None)
    properties = TableProperties(stored)
    check_manifests(properties, mode, table=label)
    check_column_names(schema, mode, table=label, change_data_feed=properties.change_data_feed_enabled)
    domains = _clustering(clustering_columns, schema, properties, partitions, label)
    return TableShape(schema=schema, partition_columns=partitions, configuration=stored, domains=domains)


def _clustering(
    columns: Sequence[str],
    schema: StructType,
    properties: TableProperties,
    partition_columns: tuple[str, ...],
    label: str,
) -> tuple[DomainMetadata, ...]:
    if not columns:
        return ()
    paths = tuple(column_named(schema, name) for name in columns)
    return (clustering_domain(paths, schema, properties, partition_columns, label=label),)


def _with_row_tracking_columns(stored: dict[str, str], source: random.Random) -> dict[str, str]:
    """See "Row Tracking": the names of the columns are fixed when row tracking starts."""
    if not parse_boolean(stored.get(_ROW_TRACKING, "false")):
        return stored
    names = {
        ROW_ID_COLUMN: f"_row-id-col-{random_uuid(source)}",
        ROW_VERSION_COLUMN: f"_row-commit-version-col-{random_uuid(source)}",
    }
    return {**names, **stored}


_VECTORS = "delta.enableDeletionVectors"
_INTERNAL = frozenset({MAX_ID, ROW_ID_COLUMN, ROW_VERSION_COLUMN, PROTECTED_BEFORE})


def constraint_property(name: str) -> str:
    """The property that holds the CHECK constraint of that name."""
    return f"{CONSTRAINT_PREFIX}{name.lower()}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A table as its creator describes it."""

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """As the user wrote them: any letter case, with protocol pseudo-properties such as `delta.feature.x`."""
    description: str | None = None
    constraints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """CHECK constraints that are not among the properties: SQL by name."""

    def all_properties(self, table: str) -> dict[str, str]:
        """The properties, including all constraints. Raises `ConstraintExistsError` for two constraints of one name."""
        properties = dict(self.properties)
        by_lower_name = {name.lower(): sql for name, sql in properties.items()}
        for name, expression in self.constraints.items():
            key = constraint_property(name)
            if key in by_lower_name:
                raise ConstraintExistsError(table=table, name=name, expression=by_lower_name[key])
            by_lower_name[key] = properties[key] = expression
        return properties


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDefinition:
    """The actions that give a table its definition."""

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
) -> ResolvedDefinition:
    """The first actions of a new table. Raises the errors of `errors.schema` and of properties.

    Deletion vectors are on unless the properties, the session's defaults or an old protocol version in the properties
    exclude them.
    """
    properties = with_session_defaults(definition.all_properties(label), session_settings)
    requested = requested_protocol(properties)
    shape = table_shape(
        definition.schema,
        _with_vectors(properties, requested),
        partition_columns=definition.partition_columns,
        clustering_columns=definition.clustering_columns,
        label=label,
        source=source,
    )
    metadata = Metadata(
        id=random_uuid(source),
        description=definition.description,
        format=PARQUET,
        schema_string=schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
        created_time=now_ms,
    )
    protocol = protocol_for_new_table(shape.schema, shape.properties, requested)
    check_iceberg_table(metadata, protocol, table=label)
    check_installed(shape.properties, table=label)
    return ResolvedDefinition(metadata=metadata, protocol=_with_clustering(protocol, shape), domains=shape.domains)


def redefine_table(
    definition: TableDefinition,
    metadata: Metadata,
    protocol: Protocol,
    *,
    label: str,
    session_settings: Mapping[str, str],
    now_ms: int,
    source: random.Random,
) -> ResolvedDefinition:
    """The actions that give an existing table a new definition; it keeps its id, history and features."""
    properties = with_session_defaults(definition.all_properties(label), session_settings)
    requested = requested_protocol(properties)
    internal = {name: value for name, value in current_properties(metadata).items() if name in _INTERNAL}
    shape = table_shape(
        definition.schema,
        {**internal, **_with_vectors(properties, requested)},
        partition_columns=definition.partition_columns,
        clustering_columns=definition.clustering_columns,
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
    check_iceberg_table(changed, upgraded, old=metadata, table=label)
    check_installed(shape.properties, table=label)
    return ResolvedDefinition(metadata=changed, protocol=_with_clustering(upgraded, shape), domains=shape.domains)


def with_schema(
    metadata: Metadata,
    protocol: Protocol,
    schema: StructType,
    *,
    partition_columns: tuple[str, ...] | None = None,
    label: str,
    source: random.Random,
) -> ResolvedDefinition:
    """The actions that give an existing table another schema and leave its properties alone.

    Columns with an unchanged name and type keep their ids and physical names; others get new ones.
    """
    shape = table_shape(
        schema,
        current_properties(metadata),
        partition_columns=metadata.partition_columns if partition_columns is None else partition_columns,
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
    upgraded = protocol_for_existing_table(protocol, shape.schema, shape.properties)
    check_iceberg_table(changed, upgraded, old=metadata, table=label)
    return ResolvedDefinition(metadata=changed, protocol=upgraded)


def _with_vectors(properties: Mapping[str, str], requested: ProtocolRequest) -> dict[str, str]:
    stored = with_requirements(stored_properties(properties))
    # Readers of manifests do not apply deletion vectors.
    without = TableProperties(stored).symlink_manifests_enabled
    if _VECTORS not in stored and not without and (requested.min_writer_version or 7) >= 7:
        stored[_VECTORS] = "true"
    return stored


def _with_clustering(protocol: Protocol, shape: TableShape) -> Protocol:
    return upgrade_protocol(protocol, ["clustering"]) if shape.domains else protocol


def with_clustering(defined: ResolvedDefinition, columns: Sequence[str], *, label: str) -> ResolvedDefinition:
    """The table with these clustering columns, at least one. Raises `InvalidClusteringError`, `ColumnNotFoundError`."""
    metadata = defined.metadata
    schema = parse_schema(metadata.schema_string, label)
    partitions = tuple(metadata.partition_columns)
    domains = _clustering(columns, schema, TableProperties(metadata.configuration), partitions, label)
    protocol = upgrade_protocol(defined.protocol, ["clustering"])
    return dataclasses.replace(defined, protocol=protocol, domains=domains)


def current_properties(metadata: Metadata) -> dict[str, str]:
    """The stored properties that have a value."""
    return {name: value for name, value in metadata.configuration.items() if value is not None}


NO_REQUEST = ProtocolRequest()
"""The properties request no protocol version and no feature."""


def altered_table(
    metadata: Metadata,
    protocol: Protocol,
    *,
    schema: StructType | None = None,
    configuration: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] | None = None,
    requested: ProtocolRequest = NO_REQUEST,
    label: str,
    source: random.Random,
) -> ResolvedDefinition:
    """The actions that change these parts of an existing table by ALTER TABLE and leave the others.

    Columns of `schema` have their ids and physical names already; new columns get them here. Raises the errors of
    `errors.schema`, and those of properties and protocols.
    """
    old_schema = parse_schema(metadata.schema_string, label)
    wanted = current_properties(metadata) if configuration is None else configuration
    properties = without_orphaned_format(TableProperties(metadata.configuration), wanted)
    old_mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    new_mode = ColumnMappingMode.parse(TableProperties(properties).column_mapping_mode)
    check_mode_change(old_mode, new_mode)
    starts_mapping = new_mode.maps and not old_mode.maps
    if starts_mapping and has_mapping(old_schema):
        reason = (
            "columns already have ids, left over from another table, and it is not known which files these belong to"
        )
        raise InvalidColumnMappingError(table=label, column="", reason=reason)
    if schema is not None and old_schema.fields and not schema.fields:
        raise EmptyTableSchemaError(table=label)
    shape = table_shape(
        old_schema if schema is None else schema,
        properties,
        partition_columns=metadata.partition_columns if partition_columns is None else partition_columns,
        label=label,
        source=source,
        keeps_names=starts_mapping,
    )
    check_stats_columns(shape.schema, shape.properties, partition_columns=shape.partition_columns)
    changed = msgspec.structs.replace(
        metadata,
        schema_string=metadata.schema_string if shape.schema == old_schema else schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
    )
    upgraded = protocol_for_existing_table(protocol, shape.schema, shape.properties, requested)
    check_iceberg_table(changed, upgraded, old=metadata, table=label)
    if not writes_iceberg(TableProperties(metadata.configuration)):
        check_installed(shape.properties, table=label)
    return ResolvedDefinition(metadata=changed, protocol=upgraded)
