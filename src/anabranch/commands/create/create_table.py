"""CREATE TABLE and REPLACE TABLE without rows."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

import numpy as np
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.catalog_registration import is_registered, register
from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.definition.rule_checks import check_rules
from anabranch.commands.definition.table_definition import (
    ResolvedDefinition,
    TableDefinition,
    define_table,
    redefine_table,
)
from anabranch.commands.table_access import TableRef, is_delta_identifier, table_identified, warn_of_parquet
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.constraints import NestedNotNullError
from anabranch.errors.tables import (
    CreateTableMismatchError,
    LocationNotEmptyError,
    NotADeltaTableError,
    TableAlreadyExistsError,
    TableInLocationError,
)
from anabranch.protocol.actions import Action, DomainMetadata
from anabranch.protocol.features import check_writable
from anabranch.protocol.properties import TableProperties, validated
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.computed_columns import IDENTITY_HIGH_WATER_MARK
from anabranch.schema.logical_types import DECLARED_TYPE, without_char_varchar
from anabranch.schema.paths import FieldPath, fold, quoted, transform, walk, with_nullable_elements
from anabranch.schema.schema_evolution import TYPE_CHANGES, visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, TableIdentifier
from anabranch.transactions.commit.commit_attempt import PROTECTED_BEFORE
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.conflict_checks import USE_EXISTING_TABLE
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.rows.deletion_vector_actions import removal

_IGNORES_NESTED_NOT_NULL = "spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled"


class CreationMode(enum.Enum):
    """What happens to an existing table. The value is the operation in the table's history."""

    CREATE = "CREATE TABLE"
    CREATE_IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS"
    REPLACE = "REPLACE TABLE"
    CREATE_OR_REPLACE = "CREATE OR REPLACE TABLE"

    @property
    def replaces(self) -> bool:
        return self in {CreationMode.REPLACE, CreationMode.CREATE_OR_REPLACE}

    @property
    def operation(self) -> str:
        return "CREATE TABLE" if self is CreationMode.CREATE_IF_NOT_EXISTS else self.value


def create_table(table: TableRef, definition: TableDefinition, mode: CreationMode) -> TableRef:
    """Create or replace the table; its name, if it has one, is in the catalog afterwards.

    Raises `TableAlreadyExistsError`, `NotADeltaTableError` (nothing to replace), `LocationNotEmptyError`,
    `TableInLocationError`, `CreateTableMismatchError`, and the errors of schemas and properties.
    """
    definition = dataclasses.replace(definition, schema=_enforceable(table, definition.schema))
    registered = table.entry is not None and table.session.catalog.find(table.entry.full_name) is not None
    if registered and not mode.replaces:
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return table
        raise TableAlreadyExistsError(table=table.label)
    snapshot = table.delta_log.snapshots.latest_or_none()
    if mode is CreationMode.REPLACE and (snapshot is None or (table.entry is not None and not registered)):
        raise NotADeltaTableError(table=table.label, found="the table to replace cannot be found")
    if snapshot is not None and table.entry is not None and table.entry.is_managed and not registered:
        check_named(table)
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return table
        if mode is CreationMode.CREATE:
            raise TableAlreadyExistsError(table=table.label)
    committed = None
    if snapshot is None:
        committed = _create(table, definition, mode)
    elif mode.replaces:
        committed = _replace(table, definition, mode, snapshot)
    elif table.entry is not None:
        _check_same(table, definition, snapshot)
    elif mode is CreationMode.CREATE:
        raise TableAlreadyExistsError(table=table.label)
    if table.entry is not None:
        register(table, table.entry, committed)
    return table


def _enforceable(table: TableRef, schema: StructType) -> StructType:
    """The columns, nullable inside arrays and maps. Raises `NestedNotNullError` for a field there that is NOT NULL.

    It is not enforced, and a NULL written to it would be read as some value. Elements that are not nullable raise
    nothing: schemas of DataFrames often have them, though no user declared them.
    """
    nullable = with_nullable_elements(schema)
    if not table.session.flag(_IGNORES_NESTED_NOT_NULL, default=False):
        for (path, declared), (_, kept) in zip(walk(schema), walk(nullable), strict=True):
            if not declared.nullable and kept.nullable:
                raise NestedNotNullError(table=table.label, column=quoted(path))
    return nullable


def _create(table: TableRef, definition: TableDefinition, mode: CreationMode) -> CommittedVersion | None:
    """Create the table; None where another program has created the same one meanwhile and that is allowed."""
    check_location_free(table, mode)
    defined = define_table(
        definition,
        label=table.label,
        session_settings=table.session.all_settings(),
        now_ms=table.session.clock.now_ms(),
        source=table.session.random,
    )
    check_defined_rules(table, defined)
    transaction = table.begin_at(creation(table, definition, mode.operation), snapshot=None)
    try:
        return transaction.commit([defined.protocol, defined.metadata, *defined.domains])
    except ProtocolChangedException as lost:
        if lost.reason is not ConflictReason.TABLE_CREATED:
            raise
        is_there = table.entry is None or is_registered(table)
        if table.entry is not None and not is_there and table.entry.is_managed:
            raise TableInLocationError(table=table.label, folder=table.path) from lost
        if not is_there:
            # The table that another program made has no name: it is treated as if it had existed before.
            _check_same(table, definition, table.latest())
        elif mode is not CreationMode.CREATE_IF_NOT_EXISTS:
            raise
        return None


def created_meanwhile(table: TableRef) -> ProtocolChangedException | None:
    """The error of a statement that began before the table existed; None where there still is no Delta table.

    It is the error that its commit would raise.
    """
    snapshot = table.delta_log.snapshots.latest_or_none()
    if snapshot is None:
        return None
    return ProtocolChangedException(
        table=table.label,
        version=snapshot.version,
        operation="another program",
        read_version=-1,
        reason=ConflictReason.TABLE_CREATED,
        advice=USE_EXISTING_TABLE,
    )


def _replace(table: TableRef, definition: TableDefinition, mode: CreationMode, snapshot: Snapshot) -> CommittedVersion:
    check_writable(snapshot.protocol, table=table.label)
    now_ms = table.session.clock.now_ms()
    defined = redefine_table(
        definition,
        snapshot.metadata,
        snapshot.protocol,
        label=table.label,
        session_settings=table.session.all_settings(),
        now_ms=now_ms,
        source=table.session.random,
    )
    check_defined_rules(table, defined)
    transaction = table.begin_at(creation(table, definition, mode.operation), snapshot=snapshot)
    transaction.record_whole_table()
    protocol: list[Action] = [] if defined.protocol == snapshot.protocol else [defined.protocol]
    removed = removed_by_replacement(snapshot, defined, now_ms=now_ms)
    return transaction.commit([*protocol, defined.metadata, *defined.domains, *removed])


def removed_by_replacement(snapshot: Snapshot, defined: ResolvedDefinition, *, now_ms: int) -> list[Action]:
    """The removes for a table that is replaced: all files, and clustering that the new definition does not have."""
    everything = np.ones(snapshot.files.count, dtype=bool)
    removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in snapshot.files.to_actions(everything)]
    new_domains = {domain.domain for domain in defined.domains}
    dropped = [
        DomainMetadata(domain=name, configuration=domain.configuration, removed=True)
        for name, domain in snapshot.domain_metadata.items()
        if name == "delta.clustering" and name not in new_domains
    ]
    return [*dropped, *removes]


def check_defined_rules(table: TableRef, defined: ResolvedDefinition) -> None:
    """Raises a typed error where the table cannot evaluate an expression of the definition."""
    check_rules(
        table.session.spark,
        parse_schema(defined.metadata.schema_string, table.label),
        TableProperties(defined.metadata.configuration).constraints,
        defined.protocol,
        partition_columns=defined.metadata.partition_columns,
        table=table.label,
    )


def check_location_free(table: TableRef, mode: CreationMode, *, began_ms: int | None = None) -> None:
    """Raises `LocationNotEmptyError` for a folder with files that would belong to no table.

    Files written since the statement began are from another program that creates this table at the same time; the first
    commit creates it. REPLACE at a path only logs a warning about Parquet files, since delta-spark accepts it.
    """
    if table.entry is None and mode.replaces:
        warn_of_parquet(table)
        return
    for file in table.delta_log.store.list_tree():
        hidden = any(part.startswith(("_", ".")) for part in file.path.split("/"))
        since = began_ms is not None and file.modified_ms >= began_ms
        if not hidden and not since:
            convert = f"To have its rows, run CONVERT TO DELTA parquet.`{table.path}`. "
            advice = convert if file.path.endswith(".parquet") else ""
            raise LocationNotEmptyError(table=table.label, example=file.path, advice=advice)


def check_named(table: TableRef) -> None:
    """Raises `TableInLocationError` for an unused name whose folder holds a table: DROP would delete its rows."""
    if table.entry is not None and not is_registered(table):
        raise TableInLocationError(table=table.label, folder=table.path)


def _check_same(table: TableRef, definition: TableDefinition, snapshot: Snapshot) -> None:
    """Raises `CreateTableMismatchError` where the definition, which may be empty, is not that of the existing table."""
    declared = _columns(without_char_varchar(definition.schema))
    existing = _columns(visible_schema(snapshot.schema))
    if declared and declared != existing:
        raise CreateTableMismatchError(
            table=table.label,
            what="schema",
            declared=definition.schema.simpleString(),
            existing=visible_schema(snapshot.schema).simpleString(),
        )
    if declared and [fold(name) for name in definition.partition_columns] != [
        fold(name) for name in snapshot.partition_columns
    ]:
        raise CreateTableMismatchError(
            table=table.label,
            what="partitioning",
            declared=", ".join(definition.partition_columns) or "none",
            existing=", ".join(snapshot.partition_columns) or "none",
        )
    for name, value in validated(definition.all_properties(table.label)).items():
        if snapshot.metadata.configuration.get(name, value) != value:
            raise CreateTableMismatchError(
                table=table.label,
                what=f"property {name}",
                declared=value,
                existing=str(snapshot.metadata.configuration.get(name)),
            )


def _columns(schema: StructType) -> list[tuple[str, DataType, object]]:
    """Name and type of every column, with the declared type of CHAR and VARCHAR."""
    return [(fold(field.name), field.dataType, field.metadata.get(DECLARED_TYPE)) for field in schema.fields]


def creation(table: TableRef, definition: TableDefinition, name: str) -> Operation:
    """The operation that the history of the table records for its creation or replacement."""
    return Operation(
        name=name,
        parameters={
            "isManaged": table.entry is not None and table.entry.is_managed,
            "description": definition.description,
            "partitionBy": list(definition.partition_columns),
            "clusterBy": list(definition.clustering_columns),
            "properties": definition.all_properties(table.label),
        },
    )


# CREATE TABLE LIKE: another table's columns, partitioning and properties, without its rows.


_OF_THE_SOURCE = MAPPING_KEYS | {TYPE_CHANGES, IDENTITY_HIGH_WATER_MARK}
_PROPERTIES_OF_THE_SOURCE = frozenset(
    (
        "delta.columnMapping.maxColumnId",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTrackingSuspended",
        PROTECTED_BEFORE,
    )
)


def definition_like(session: DeltaSession, source: TableIdentifier, properties: Mapping[str, str]) -> TableDefinition:
    """The definition of a table like `source`, of any format; `properties` take precedence over the source's."""
    if is_delta_identifier(session, source):
        like = definition_of(table_identified(session, source).latest())
    else:
        like = _definition_of_other_format(session, source)
    return dataclasses.replace(like, properties={**like.properties, **properties})


def definition_of(snapshot: Snapshot) -> TableDefinition:
    """The definition of another table like this one, without properties that concern its files and history."""
    kept = {
        name: value
        for name, value in snapshot.metadata.configuration.items()
        if value is not None and name not in _PROPERTIES_OF_THE_SOURCE
    }
    return TableDefinition(
        schema=transform(snapshot.schema, _without_marks),
        partition_columns=snapshot.partition_columns,
        clustering_columns=tuple(quoted(path) for path in clustering_columns(snapshot)),
        properties=kept,
        description=snapshot.metadata.description,
    )


def _definition_of_other_format(session: DeltaSession, source: TableIdentifier) -> TableDefinition:
    assert not isinstance(source, PathIdentifier)
    columns = session.spark.catalog.listColumns(source.quoted)
    return TableDefinition(
        schema=StructType(session.spark.table(source.quoted).schema.fields),
        partition_columns=tuple(column.name for column in columns if column.isPartition),
    )


def _without_marks(_path: FieldPath, field: StructField) -> StructField:
    """The field without metadata that concerns the source's files, such as column ids."""
    metadata = {key: value for key, value in field.metadata.items() if key not in _OF_THE_SOURCE}
    return StructField(field.name, field.dataType, field.nullable, metadata)
