"""What a new or replaced table is: schema, partitioning, properties, and the protocol that follows from them."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Mapping

import msgspec
from pyspark.sql.types import StructType

from anabranch.commands.table_shape import MAX_ID, ROW_ID_COLUMN, ROW_VERSION_COLUMN, TableShape, table_shape
from anabranch.errors.constraints import ConstraintExistsError
from anabranch.protocol.actions import PARQUET, DomainMetadata, Metadata, Protocol
from anabranch.protocol.iceberg_compat import with_requirements
from anabranch.protocol.properties import (
    CONSTRAINT_PREFIX,
    TableProperties,
    stored_properties,
    with_session_defaults,
)
from anabranch.protocol.protocol_evolution import (
    ProtocolRequest,
    protocol_for_existing_table,
    protocol_for_new_table,
    requested_protocol,
    upgrade_protocol,
)
from anabranch.schema.iceberg_rules import check_iceberg_table
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.transaction.checkpoint_protection import PROTECTED_BEFORE
from anabranch.uniform.library import check_installed

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
    """As given: any letter case, protocol pseudo-properties such as `delta.feature.x` included."""
    description: str | None = None
    constraints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """CHECK constraints: SQL by name, beside those among the properties."""

    def all_properties(self, table: str) -> dict[str, str]:
        """The properties with the constraints among them. Raises `ConstraintExistsError` for a name given twice."""
        found = dict(self.properties)
        known = {name.lower(): sql for name, sql in found.items()}
        for name, expression in self.constraints.items():
            key = constraint_property(name)
            if key in known:
                raise ConstraintExistsError(table=table, name=name, expression=known[key])
            known[key] = found[key] = expression
        return found


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
    asked = with_session_defaults(definition.all_properties(label), session_settings)
    requested = requested_protocol(asked)
    shape = table_shape(
        definition.schema,
        _with_vectors(asked, requested),
        partition_columns=definition.partition_columns,
        clustering_columns=definition.clustering_columns,
        label=label,
        source=source,
    )
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
    check_iceberg_table(metadata, protocol, table=label)
    check_installed(shape.properties, table=label)
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
    asked = with_session_defaults(definition.all_properties(label), session_settings)
    requested = requested_protocol(asked)
    internal = {name: value for name, value in current_properties(metadata).items() if name in _INTERNAL}
    shape = table_shape(
        definition.schema,
        {**internal, **_with_vectors(asked, requested)},
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
    return DefinedTable(metadata=changed, protocol=upgraded)


def _with_vectors(asked: Mapping[str, str], requested: ProtocolRequest) -> dict[str, str]:
    stored = with_requirements(stored_properties(asked))
    # Who reads a manifest knows nothing of vectors.
    without = TableProperties(stored).symlink_manifests_enabled
    if _VECTORS not in stored and not without and (requested.min_writer_version or 7) >= 7:
        stored[_VECTORS] = "true"
    return stored


def _with_clustering(protocol: Protocol, shape: TableShape) -> Protocol:
    return upgrade_protocol(protocol, ["clustering"]) if shape.domains else protocol


def current_properties(metadata: Metadata) -> dict[str, str]:
    """What is stored of them."""
    return {name: value for name, value in metadata.configuration.items() if value is not None}
