"""ALTER TABLE … ADD, DROP, RENAME, ALTER and REPLACE COLUMNS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from anabranch.commands.alteration import Alteration
from anabranch.commands.changed_table import (
    ChangedTable,
    check_maps,
    check_no_lengths,
    column_json,
    widens_types,
    with_position,
)
from anabranch.commands.column_uses import check_no_layout_uses, check_no_rule_uses
from anabranch.commands.table_access import TableHandle
from anabranch.commands.table_definition import current_properties
from anabranch.schema.column_changes import ColumnChange, NewColumn, spelled, with_column, without_column
from anabranch.schema.paths import FieldPath, find, quoted
from anabranch.schema.replaced_columns import replaced_columns
from anabranch.schema.stats_column_list import without_stats_column
from anabranch.transaction.committed_version import CommittedVersion


def alter_add_columns(
    handle: TableHandle, columns: Sequence[NewColumn], *, if_not_exists: bool = False
) -> CommittedVersion | None:
    """Add columns, also to structs. Rows that are there have NULL in them.

    Raises `UnsupportedNewColumnError`, `DuplicateColumnsError`, `ColumnNotFoundError`, `NotAStructError`.
    """
    alteration = Alteration(handle)
    schema = alteration.snapshot.schema
    added = [new for new in columns if not (if_not_exists and find(schema, new.path) is not None)]
    for new in added:
        schema = with_column(schema, new, table=handle.label)
    log = [with_position({"column": column_json(new.path, new.field)}, new.position) for new in added]
    return alteration.commit("ADD COLUMNS", {"columns": log}, alteration.define(schema=schema))


def alter_drop_columns(
    handle: TableHandle, paths: Sequence[FieldPath], *, if_exists: bool = False
) -> CommittedVersion | None:
    """Drop columns, also of structs; files keep their values until they are rewritten.

    Raises `ColumnMappingNeededError`, `ColumnInUseError`, `ColumnNotFoundError`, `UnsupportedColumnChangeError`.
    """
    alteration = Alteration(handle)
    snapshot = alteration.snapshot
    schema, configuration = snapshot.schema, current_properties(snapshot.metadata)
    dropped = [path for path in paths if not (if_exists and find(schema, path) is None)]
    for path in dropped:
        own = spelled(snapshot.schema, path, table=handle.label)
        check_maps(alteration, f"drop column {quoted(own)}")
        check_no_layout_uses(snapshot, own, change="dropped", table=handle.label)
        check_no_rule_uses(snapshot, own, change="dropped", table=handle.label)
        check_no_lengths(snapshot.schema, own, handle.label)
        schema = without_column(schema, own, table=handle.label)
        configuration = without_stats_column(configuration, own)
    defined = alteration.define(schema=schema, configuration=configuration)
    return alteration.commit("DROP COLUMNS", {"columns": [quoted(path) for path in dropped]}, defined)


def alter_rename_column(handle: TableHandle, path: FieldPath, new_name: str) -> CommittedVersion | None:
    """Rename a column, also of a struct; no file is touched.

    Raises `ColumnMappingNeededError`, `ColumnInUseError`, `ColumnNotFoundError`, `DuplicateColumnsError`.
    """
    return alter_change_columns(handle, [ColumnChange(path=path, new_name=new_name)])


def alter_change_columns(handle: TableHandle, changes: Sequence[ColumnChange]) -> CommittedVersion | None:
    """Change types, comments, defaults, names, positions, and whether NULL is allowed.

    Raises `UnsupportedColumnChangeError`, `ColumnInUseError`, `ColumnMappingNeededError`, `ExistingRowsViolateError`
    where a column that is to be NOT NULL has NULL, the errors of defaults, `ColumnNotFoundError`.
    """
    alteration = Alteration(handle)
    state = ChangedTable(alteration)
    logged: list[dict[str, Any]] = []
    for change in changes:
        own = spelled(state.schema, change.path, table=handle.label)
        logged.append(state.apply(own, change))
    defined = alteration.define(
        schema=state.schema, configuration=state.configuration, partition_columns=state.partition_columns
    )
    return alteration.commit(*_changes_operation(changes, logged), defined)


def alter_replace_columns(handle: TableHandle, schema: StructType) -> CommittedVersion | None:
    """Give the table these columns: in this order, with these comments, some new, and, with mapping, some gone.

    Raises `UnsupportedColumnChangeError`, `ColumnInUseError`, `ColumnMappingNeededError`.
    """
    alteration = Alteration(handle)
    snapshot = alteration.snapshot
    replaced = replaced_columns(snapshot.schema, schema, widens=widens_types(alteration), table=handle.label)
    for path in replaced.dropped:
        check_maps(alteration, f"drop column {quoted(path)}")
        check_no_layout_uses(snapshot, path, change="dropped", table=handle.label)
        check_no_rule_uses(snapshot, path, change="dropped", table=handle.label)
    for path in replaced.retyped:
        check_no_rule_uses(snapshot, path, change="given another type", table=handle.label)
    log = [column_json((field.name,), field) for field in schema.fields]
    return alteration.commit("REPLACE COLUMNS", {"columns": log}, alteration.define(schema=replaced.schema))


def _changes_operation(
    changes: Sequence[ColumnChange], logged: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    if len(changes) != 1:
        return "CHANGE COLUMNS", {"columns": [{**entry["column"], **_position(entry)} for entry in logged]}
    change = changes[0]
    if change.new_name is not None and change.new_name != change.path[-1]:
        new_path = (*change.path[:-1], change.new_name)
        return "RENAME COLUMN", {"oldColumnPath": quoted(change.path), "newColumnPath": quoted(new_path)}
    return "CHANGE COLUMN", dict(logged[0])


def _position(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"position": entry["position"]} if "position" in entry else {}
