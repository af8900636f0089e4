"""ALTER TABLE … SET and UNSET TBLPROPERTIES, COMMENT ON TABLE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from anabranch.booleans import parse_boolean
from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.alter.column_mapping_removal import MODE, remove_column_mapping
from anabranch.commands.alter.row_id_backfill import LOST_RACES_MAX, SUSPENDED, files_without_ids, give_row_ids
from anabranch.commands.definition.table_definition import ResolvedDefinition, current_properties
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
from anabranch.transactions.commit.after_commit import check_listable
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.statement_retry import execute_with_retries

COMMENT = "comment"
"""The table's description, which is set like a property but is none."""
CLUSTERING_COLUMNS = "clusteringColumns"
"""The name under which Spark's catalogs keep the clustering columns of a table. Users set them by CLUSTER BY."""
_COMMANDS = {
    "location": "ALTER TABLE … SET LOCATION",
    "provider": "a new table",
    f"{FEATURE_PREFIX}clustering": "ALTER TABLE … CLUSTER BY",
}
_ROW_TRACKING = "delta.enableRowTracking"
ENABLEMENT_ONLY_TAG = "rowTrackingEnablementOnly"
"""The tag of a commit that only enables row tracking: delta-spark's writers do not conflict with it."""


def alter_set_properties(table: TableRef, properties: Mapping[str, str]) -> CommittedVersion | None:
    """Set table properties, and add to the protocol the features that they need.

    This is one commit in most cases. To turn column mapping off, data files are rewritten (`remove_column_mapping`);
    a second commit then sets the other properties. To turn row tracking on, rows without ids get them first, in commits
    of their own (`give_row_ids`).

    Raises `UnknownPropertyError`, `InvalidPropertyError`, `ReadOnlyPropertyError`, `PropertyNeedsCommandError`,
    `ColumnMappingChangeError`, `RowTrackingEnablementError`, `UnsupportedFeatureError`, and those of
    `errors.other_formats`.
    """
    for name in properties:
        _check_no_command(name)
    alteration = Alteration(table)
    current = current_properties(alteration.snapshot.metadata)
    values = {name: value for name, value in properties.items() if name.lower() != COMMENT}
    requested = validated(values, current=current)
    if requested.get(MODE, "").lower() == "none" and alteration.snapshot.column_mapping_mode.maps:
        _check_may_lose_mapping(alteration, {**current, **stored_properties(requested)})
        unmapped = remove_column_mapping(table, unset=False)
        others = {name: value for name, value in properties.items() if name.lower() != MODE.lower()}
        return (alter_set_properties(table, others) if others else None) or unmapped
    if not _tracks_rows(requested) or not files_without_ids(alteration.snapshot):
        return _set(alteration, properties, requested)
    check_iceberg_upgrade(table, alteration.snapshot, _with_properties(alteration, requested))
    give_row_ids(table)
    session = table.session
    # The rows have ids by now. A commit of other metadata in between must not make the statement fail.
    return execute_with_retries(
        lambda _: _set_where_rows_have_ids(table, properties, requested),
        retries_max=LOST_RACES_MAX,
        random=session.random,
        sleep=session.clock.sleep_ms,
    )


def _set_where_rows_have_ids(
    table: TableRef, properties: Mapping[str, str], values: Mapping[str, str]
) -> CommittedVersion | None:
    alteration = Alteration(table)
    _check_rows_have_ids(alteration)
    return _set(alteration, properties, values)


def _set(alteration: Alteration, properties: Mapping[str, str], values: Mapping[str, str]) -> CommittedVersion | None:
    """Set the properties by one commit."""
    table = alteration.table
    defined = _with_properties(alteration, values)
    check_iceberg_upgrade(table, alteration.snapshot, defined)
    if TableProperties(defined.metadata.configuration).symlink_manifests_enabled:
        check_listable(alteration.snapshot, table=table.label)
    for name, value in properties.items():
        if name.lower() == COMMENT:
            defined = _described(defined, value)
    tags = {ENABLEMENT_ONLY_TAG: "true"} if _tracks_rows(values) and len(properties) == 1 else {}
    edited = {*values, *stored_properties(values), *(COMMENT for name in properties if name.lower() == COMMENT)}
    return alteration.commit("SET TBLPROPERTIES", {"properties": dict(properties)}, defined, edited=edited, tags=tags)


def alter_unset_properties(
    table: TableRef, names: Sequence[str], *, if_exists: bool = False
) -> CommittedVersion | None:
    """Return properties to their defaults. Raises `PropertyNotSetError` unless `if_exists`.

    Unsetting its mode turns column mapping off; see `remove_column_mapping`.
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
    """Set the description of the table, or remove it."""
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
    """Raises before files are rewritten where the table needs the mapping: Iceberg finds columns by its ids."""
    changed = msgspec.structs.replace(alteration.snapshot.metadata, configuration=dict(configuration))
    check_iceberg_table(changed, alteration.snapshot.protocol, table=alteration.label)


def _described(defined: ResolvedDefinition, description: str | None) -> ResolvedDefinition:
    return dataclasses.replace(defined, metadata=msgspec.structs.replace(defined.metadata, description=description))


def _with_properties(alteration: Alteration, values: Mapping[str, str]) -> ResolvedDefinition:
    """The table with these properties added to its own. Turning row tracking on ends its suspension."""
    current = current_properties(alteration.snapshot.metadata)
    if _tracks_rows(values):
        current.pop(SUSPENDED, None)
    return alteration.define(
        configuration={**current, **stored_properties(values)}, requested=requested_protocol(values)
    )


def _tracks_rows(values: Mapping[str, str]) -> bool:
    return parse_boolean(values.get(_ROW_TRACKING, "")) is True


def _check_rows_have_ids(alteration: Alteration) -> None:
    """Raises `RowTrackingEnablementError`: a writer that violates the protocol may have added files without ids."""
    missing = files_without_ids(alteration.snapshot)
    if missing:
        reason = (
            f"all rows were given ids, and now {missing} files have none. A writer that does not keep to the protocol "
            "has added them, or another statement has taken row tracking away: stop it, and set the property again"
        )
        raise RowTrackingEnablementError(table=alteration.label, reason=reason)
