"""ALTER TABLE … SET and UNSET TBLPROPERTIES, COMMENT ON TABLE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from anabranch.booleans import parse_boolean
from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.alter.row_id_backfill import LOST_RACES_MAX, SUSPENDED, files_without_ids, give_row_ids
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
from anabranch.transaction.commit.after_commit import check_listable
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.statement_retry import re_executed

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
ENABLEMENT_ONLY_TAG = "rowTrackingEnablementOnly"
"""Of a commit that changes nothing but this: delta-spark's writers need not fail behind it."""


def alter_set_properties(table: TableRef, properties: Mapping[str, str]) -> CommittedVersion | None:
    """Set table properties; what they need of the protocol comes with them.

    Mostly that is one commit. Without column mapping, data files are written again; see `remove_column_mapping`, after
    whose commit any other properties are set by a second one. With row tracking, rows that have no ids get some first,
    in commits of their own; see `give_row_ids`.

    Raises `UnknownPropertyError`, `InvalidPropertyError`, `ReadOnlyPropertyError`, `PropertyNeedsCommandError`,
    `ColumnMappingChangeError`, `RowTrackingEnablementError`, `UnsupportedFeatureError`, and those of
    `errors.other_formats`.
    """
    for name in properties:
        _check_no_command(name)
    alteration = Alteration(table)
    current = current_properties(alteration.snapshot.metadata)
    given = {name: value for name, value in properties.items() if name.lower() != COMMENT}
    asked = validated(given, current=current)
    if asked.get(MODE, "").lower() == "none" and alteration.snapshot.column_mapping_mode.maps:
        _check_may_lose_mapping(alteration, {**current, **stored_properties(asked)})
        unmapped = remove_column_mapping(table, unset=False)
        others = {name: value for name, value in properties.items() if name.lower() != MODE.lower()}
        return (alter_set_properties(table, others) if others else None) or unmapped
    if not _tracks_rows(asked) or not files_without_ids(alteration.snapshot):
        return _set(alteration, properties, asked)
    check_iceberg_upgrade(table, alteration.snapshot, _with_properties(alteration, asked))
    give_row_ids(table)
    session = table.session
    # The ids are there: a change of the description in between is no reason to say that nothing was done.
    return re_executed(
        lambda _: _set_where_rows_have_ids(table, properties, asked),
        retries_max=LOST_RACES_MAX,
        random=session.random,
        sleep=session.clock.sleep_ms,
    )


def _set_where_rows_have_ids(
    table: TableRef, properties: Mapping[str, str], asked: Mapping[str, str]
) -> CommittedVersion | None:
    alteration = Alteration(table)
    _check_rows_have_ids(alteration)
    return _set(alteration, properties, asked)


def _set(alteration: Alteration, properties: Mapping[str, str], asked: Mapping[str, str]) -> CommittedVersion | None:
    """The one commit that sets them."""
    table = alteration.table
    defined = _with_properties(alteration, asked)
    check_iceberg_upgrade(table, alteration.snapshot, defined)
    if TableProperties(defined.metadata.configuration).symlink_manifests_enabled:
        check_listable(alteration.snapshot, table=table.label)
    for name, value in properties.items():
        if name.lower() == COMMENT:
            defined = _described(defined, value)
    tags = {ENABLEMENT_ONLY_TAG: "true"} if _tracks_rows(asked) and len(properties) == 1 else {}
    edited = {*asked, *stored_properties(asked), *(COMMENT for name in properties if name.lower() == COMMENT)}
    return alteration.commit("SET TBLPROPERTIES", {"properties": dict(properties)}, defined, edited=edited, tags=tags)


def alter_unset_properties(
    table: TableRef, names: Sequence[str], *, if_exists: bool = False
) -> CommittedVersion | None:
    """Let properties have their defaults again. Raises `PropertyNotSetError` unless `if_exists`.

    Without its mode, column mapping is turned off; see `remove_column_mapping`.
    """
    alteration = Alteration(table)
    metadata = alteration.snapshot.metadata
    current = current_properties(metadata)
    wanted = canonical_names(names)
    for name in wanted:
        is_set = name in current or (name.lower() == COMMENT and metadata.description is not None)
        if not is_set and not if_exists:
            raise PropertyNotSetError(table=table.label, name=name)
    if MODE in wanted and alteration.snapshot.column_mapping_mode.maps:
        _check_may_lose_mapping(alteration, {key: value for key, value in current.items() if key not in wanted})
        unmapped = remove_column_mapping(table, unset=True)
        others = [name for name in wanted if name != MODE]
        return (alter_unset_properties(table, others, if_exists=if_exists) if others else None) or unmapped
    defined = alteration.define(configuration={key: value for key, value in current.items() if key not in wanted})
    if any(name.lower() == COMMENT for name in wanted):
        defined = _described(defined, None)
    edited = {*wanted, *(COMMENT for name in wanted if name.lower() == COMMENT)}
    parameters = {"properties": wanted, "ifExists": if_exists}
    return alteration.commit("UNSET TBLPROPERTIES", parameters, defined, edited=edited)


def alter_table_comment(table: TableRef, comment: str | None) -> CommittedVersion | None:
    """Say what the table is about, or no longer say so."""
    if comment is None:
        return alter_unset_properties(table, [COMMENT], if_exists=True)
    return alter_set_properties(table, {COMMENT: comment})


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
    check_iceberg_table(changed, alteration.snapshot.protocol, table=alteration.label)


def _described(defined: ResolvedDefinition, description: str | None) -> ResolvedDefinition:
    return dataclasses.replace(defined, metadata=msgspec.structs.replace(defined.metadata, description=description))


def _with_properties(alteration: Alteration, asked: Mapping[str, str]) -> ResolvedDefinition:
    """The table with these properties besides its own. Row tracking that is turned on is suspended no longer."""
    current = current_properties(alteration.snapshot.metadata)
    if _tracks_rows(asked):
        current.pop(SUSPENDED, None)
    return alteration.define(configuration={**current, **stored_properties(asked)}, requested=requested_protocol(asked))


def _tracks_rows(asked: Mapping[str, str]) -> bool:
    return parse_boolean(asked.get(_ROW_TRACKING, "")) is True


def _check_rows_have_ids(alteration: Alteration) -> None:
    """Who does not keep to the protocol may have brought files without ids all the while."""
    missing = files_without_ids(alteration.snapshot)
    if missing:
        reason = (
            f"all rows were given ids, and now {missing} files have none. A writer that does not keep to the protocol "
            "has added them, or another statement has taken row tracking away: stop it, and set the property again"
        )
        raise RowTrackingEnablementError(table=alteration.label, reason=reason)
