"""ALTER TABLE … SET and UNSET TBLPROPERTIES, COMMENT ON TABLE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow.compute as pc

from anabranch.booleans import parse_boolean
from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.table_definition import ResolvedDefinition, current_properties
from anabranch.commands.drop_feature.column_mapping_removal import MODE, remove_column_mapping
from anabranch.commands.other_formats.files_for_iceberg import check_iceberg_upgrade
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import (
    ConstraintAsPropertyError,
    PropertyNeedsCommandError,
    PropertyNotSetError,
    RowTrackingEnablementError,
)
from anabranch.errors.protocol import ReadOnlyPropertyError
from anabranch.protocol.properties import (
    CONSTRAINT_PREFIX,
    FEATURE_PREFIX,
    TableProperties,
    canonical_names,
    stored_properties,
    validated,
)
from anabranch.protocol.protocol_evolution import requested_protocol
from anabranch.schema.iceberg_rules import check_iceberg_table
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.commit.after_commit import check_listable
from anabranch.transaction.commit.commit_context import CommittedVersion

COMMENT = "comment"
"""Not a property, though it is set as one: the table's description."""
CLUSTERING_COLUMNS = "clusteringColumns"
"""Catalogs of Spark keep what a table is clustered by under this name. CLUSTER BY is how to say it."""
_COMMANDS = {
    "location": "ALTER TABLE … SET LOCATION",
    "provider": "a new table",
    f"{FEATURE_PREFIX}clustering": "ALTER TABLE … CLUSTER BY",
}
_ROW_TRACKING = "delta.enableRowTracking"


def alter_set_properties(handle: TableRef, properties: Mapping[str, str]) -> CommittedVersion | None:
    """Set table properties; what they need of the protocol comes with them.

    Without column mapping, data files are written again; see `remove_column_mapping`.

    Raises `UnknownPropertyError`, `InvalidPropertyError`, `ReadOnlyPropertyError`, `PropertyNeedsCommandError`,
    `ColumnMappingChangeError`, `RowTrackingEnablementError`, `UnsupportedFeatureError`, and those of `errors.generate`.
    """
    for name in properties:
        _check_no_command(name)
    alteration = Alteration(handle)
    current = current_properties(alteration.snapshot.metadata)
    given = {name: value for name, value in properties.items() if name.lower() != COMMENT}
    asked = validated(given, current=current)
    if asked.get(MODE, "").lower() == "none" and alteration.snapshot.column_mapping_mode.maps:
        _check_may_lose_mapping(alteration, {**current, **stored_properties(asked)})
        unmapped = remove_column_mapping(handle, unset=False)
        others = {name: value for name, value in properties.items() if name.lower() != MODE.lower()}
        return (alter_set_properties(handle, others) if others else None) or unmapped
    defined = alteration.define(
        configuration={**current, **stored_properties(asked)}, requested=requested_protocol(asked)
    )
    check_iceberg_upgrade(handle, alteration.snapshot, defined)
    if parse_boolean(asked.get(_ROW_TRACKING, "")):
        _check_rows_have_ids(alteration.snapshot, handle.label)
    if TableProperties(defined.metadata.configuration).symlink_manifests_enabled:
        check_listable(alteration.snapshot, table=handle.label)
    for name, value in properties.items():
        if name.lower() == COMMENT:
            defined = _described(defined, value)
    return alteration.commit("SET TBLPROPERTIES", {"properties": dict(properties)}, defined)


def alter_unset_properties(
    handle: TableRef, names: Sequence[str], *, if_exists: bool = False
) -> CommittedVersion | None:
    """Let properties have their defaults again. Raises `PropertyNotSetError` unless `if_exists`.

    Without its mode, column mapping is turned off; see `remove_column_mapping`.
    """
    alteration = Alteration(handle)
    metadata = alteration.snapshot.metadata
    current = current_properties(metadata)
    wanted = canonical_names(names)
    for name in wanted:
        is_set = name in current or (name.lower() == COMMENT and metadata.description is not None)
        if not is_set and not if_exists:
            raise PropertyNotSetError(table=handle.label, name=name)
    if MODE in wanted and alteration.snapshot.column_mapping_mode.maps:
        _check_may_lose_mapping(alteration, {key: value for key, value in current.items() if key not in wanted})
        unmapped = remove_column_mapping(handle, unset=True)
        others = [name for name in wanted if name != MODE]
        return (alter_unset_properties(handle, others, if_exists=if_exists) if others else None) or unmapped
    defined = alteration.define(configuration={key: value for key, value in current.items() if key not in wanted})
    if any(name.lower() == COMMENT for name in wanted):
        defined = _described(defined, None)
    return alteration.commit("UNSET TBLPROPERTIES", {"properties": wanted, "ifExists": if_exists}, defined)


def alter_table_comment(handle: TableRef, comment: str | None) -> CommittedVersion | None:
    """Say what the table is about, or no longer say so."""
    if comment is None:
        return alter_unset_properties(handle, [COMMENT], if_exists=True)
    return alter_set_properties(handle, {COMMENT: comment})


def _check_no_command(name: str) -> None:
    if name.lower().startswith(CONSTRAINT_PREFIX):
        raise ConstraintAsPropertyError(name=name, command="ALTER TABLE … ADD CONSTRAINT, which checks the rows")
    if name == CLUSTERING_COLUMNS:
        raise ReadOnlyPropertyError(name=name)
    command = _COMMANDS.get(name.lower())
    if command is not None:
        raise PropertyNeedsCommandError(name=name, command=command)


def _check_may_lose_mapping(alteration: Alteration, configuration: Mapping[str, str]) -> None:
    """Before files are written again for it: Iceberg finds columns by the ids of the mapping."""
    changed = msgspec.structs.replace(alteration.snapshot.metadata, configuration=dict(configuration))
    check_iceberg_table(changed, alteration.snapshot.protocol, table=alteration.table)


def _described(defined: ResolvedDefinition, description: str | None) -> ResolvedDefinition:
    return dataclasses.replace(defined, metadata=msgspec.structs.replace(defined.metadata, description=description))


def _check_rows_have_ids(snapshot: Snapshot, table: str) -> None:
    """Rows of files that are there would need ids first."""
    ids = snapshot.files.columns("base_row_id")["base_row_id"]
    missing = pc.sum(pc.is_null(ids)).as_py() or 0
    if missing:
        raise RowTrackingEnablementError(table=table, num_files=missing)
