"""CREATE TABLE and REPLACE TABLE without rows."""

from __future__ import annotations

import enum

import numpy as np
from pyspark.sql.types import DataType, StructType

from anabranch.commands.rule_checks import check_rules
from anabranch.commands.table_access import TableHandle
from anabranch.commands.table_definition import DefinedTable, TableDefinition, define_table, redefine_table
from anabranch.commands.write import register
from anabranch.errors.conflicts import ProtocolChangedException
from anabranch.errors.tables import (
    CreateTableMismatchError,
    LocationNotEmptyError,
    NotADeltaTableError,
    TableAlreadyExistsError,
)
from anabranch.protocol.actions import Action, DomainMetadata
from anabranch.protocol.features import check_writable
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.protocol.properties import TableProperties, validated
from anabranch.schema.char_varchar import DECLARED_TYPE, without_char_varchar
from anabranch.schema.paths import fold
from anabranch.schema.serialization import parse_schema
from anabranch.schema.visibility import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.hiding_rows import removal
from anabranch.transaction.operation import Operation


class CreationMode(enum.Enum):
    """What to do about a table that exists. The value is the operation in the table's history."""

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


def create_table(handle: TableHandle, definition: TableDefinition, mode: CreationMode) -> TableHandle:
    """Create or replace the table; its name, if it has one, is in the catalog afterwards.

    Raises `TableAlreadyExistsError`, `NotADeltaTableError` (nothing to replace), `LocationNotEmptyError`,
    `CreateTableMismatchError`, and the errors of schemas and properties.
    """
    known = handle.entry is not None and handle.session.catalog.find(handle.entry.name) is not None
    if known and not mode.replaces:
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return handle
        raise TableAlreadyExistsError(table=handle.label)
    snapshot = handle.table.snapshots.latest_or_none()
    if mode is CreationMode.REPLACE and (snapshot is None or (handle.entry is not None and not known)):
        raise NotADeltaTableError(table=handle.label, found="there is no table to replace")
    if snapshot is None:
        _create(handle, definition, mode)
    elif mode.replaces:
        _replace(handle, definition, mode, snapshot)
    elif handle.entry is not None:
        _check_same(handle, definition, snapshot)
    elif mode is CreationMode.CREATE:
        raise TableAlreadyExistsError(table=handle.label)
    if handle.entry is not None:
        register(handle, handle.entry)
    return handle


def _create(handle: TableHandle, definition: TableDefinition, mode: CreationMode) -> None:
    check_location_free(handle)
    defined = define_table(
        definition,
        label=handle.label,
        session_settings=handle.session.all_settings(),
        now_ms=handle.session.clock.now_ms(),
        source=handle.session.random,
    )
    check_defined_rules(handle, defined)
    transaction = handle.begin_at(creation(handle, definition, mode.operation), snapshot=None)
    try:
        transaction.commit([defined.protocol, defined.metadata, *defined.domains])
    except ProtocolChangedException:
        # Somebody created it at the same time; for IF NOT EXISTS that is as good.
        if mode is not CreationMode.CREATE_IF_NOT_EXISTS or handle.table.snapshots.latest_or_none() is None:
            raise


def _replace(handle: TableHandle, definition: TableDefinition, mode: CreationMode, snapshot: Snapshot) -> None:
    check_writable(snapshot.protocol, table=handle.label)
    now_ms = handle.session.clock.now_ms()
    defined = redefine_table(
        definition,
        snapshot.metadata,
        snapshot.protocol,
        label=handle.label,
        session_settings=handle.session.all_settings(),
        now_ms=now_ms,
        source=handle.session.random,
    )
    check_defined_rules(handle, defined)
    transaction = handle.begin_at(creation(handle, definition, mode.operation), snapshot=snapshot)
    transaction.record_whole_table()
    protocol: list[Action] = [] if defined.protocol == snapshot.protocol else [defined.protocol]
    transaction.commit([*protocol, defined.metadata, *defined.domains, *leaving(snapshot, defined, now_ms=now_ms)])


def leaving(snapshot: Snapshot, defined: DefinedTable, *, now_ms: int) -> list[Action]:
    """What of the table that was goes when its new definition comes: all files, and clustering without successor."""
    everything = np.ones(snapshot.files.count, dtype=bool)
    removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in snapshot.files.to_actions(everything)]
    new_domains = {domain.domain for domain in defined.domains}
    dropped = [
        DomainMetadata(domain=name, configuration=domain.configuration, removed=True)
        for name, domain in snapshot.domain_metadata.items()
        if name == "delta.clustering" and name not in new_domains
    ]
    return [*dropped, *removes]


def check_defined_rules(handle: TableHandle, defined: DefinedTable) -> None:
    """Raises a typed error where an expression of the definition is none that the table can run."""
    check_rules(
        handle.session.spark,
        parse_schema(defined.metadata.schema_string, handle.label),
        TableProperties(defined.metadata.configuration).constraints,
        defined.protocol,
        partition_columns=defined.metadata.partition_columns,
        table=handle.label,
    )


def check_location_free(handle: TableHandle) -> None:
    """Refuse a folder with files that would become nobody's: not those of an unfinished creation."""
    for file in handle.table.store.list_tree():
        hidden = any(part.startswith(("_", ".")) for part in file.path.split("/"))
        if not hidden and not file.path.startswith(LOG_DIRECTORY) and handle.entry is not None:
            raise LocationNotEmptyError(table=handle.label, example=file.path)


def _check_same(handle: TableHandle, definition: TableDefinition, snapshot: Snapshot) -> None:
    """A declaration over an existing table says nothing, or what is true."""
    declared = _columns(without_char_varchar(definition.schema))
    existing = _columns(visible_schema(snapshot.schema))
    if declared and declared != existing:
        raise CreateTableMismatchError(
            table=handle.label,
            what="schema",
            declared=definition.schema.simpleString(),
            existing=visible_schema(snapshot.schema).simpleString(),
        )
    if declared and [fold(name) for name in definition.partition_columns] != [
        fold(name) for name in snapshot.partition_columns
    ]:
        raise CreateTableMismatchError(
            table=handle.label,
            what="partitioning",
            declared=", ".join(definition.partition_columns) or "none",
            existing=", ".join(snapshot.partition_columns) or "none",
        )
    for name, value in validated(definition.all_properties(handle.label)).items():
        if snapshot.metadata.configuration.get(name, value) != value:
            raise CreateTableMismatchError(
                table=handle.label,
                what=f"property {name}",
                declared=value,
                existing=str(snapshot.metadata.configuration.get(name)),
            )


def _columns(schema: StructType) -> list[tuple[str, DataType, object]]:
    """By name and type, as declared where that was CHAR or VARCHAR."""
    return [(fold(field.name), field.dataType, field.metadata.get(DECLARED_TYPE)) for field in schema.fields]


def creation(handle: TableHandle, definition: TableDefinition, name: str) -> Operation:
    """What the table's history says of its creation or replacement."""
    return Operation(
        name=name,
        parameters={
            "isManaged": handle.entry is not None and handle.entry.is_managed,
            "description": definition.description,
            "partitionBy": list(definition.partition_columns),
            "clusterBy": list(definition.clustering_columns),
            "properties": definition.all_properties(handle.label),
        },
    )
