"""ALTER TABLE, which Spark passes as a list of changes, run as our commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from anabranch.callbacks.definition_facts import with_sql_to_keep
from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_columns import (
    alter_add_columns,
    alter_change_columns,
    alter_drop_columns,
    alter_replace_columns,
)
from anabranch.commands.alter.alter_constraints import alter_add_constraint, alter_drop_constraint
from anabranch.commands.alter.alter_properties import alter_set_properties, alter_table_comment, alter_unset_properties
from anabranch.commands.create.table_location import set_location
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.schema.column_changes import ColumnChange, NewColumn, Position
from anabranch.schema.computed_columns import default_column
from anabranch.schema.paths import fold

Change = Mapping[str, Any]
"""An object of `anabranch.TableChanges`."""
_COLUMN_KINDS = frozenset(
    {
        "UpdateColumnType",
        "UpdateColumnNullability",
        "UpdateColumnComment",
        "UpdateColumnPosition",
        "UpdateColumnDefaultValue",
        "RenameColumn",
    }
)
_COLUMN, _LOCATION, _COMMENT = "ChangeColumn", "SetLocation", "SetComment"
_OF_STATEMENTS = {"location": _LOCATION, "comment": _COMMENT, "collation": "DEFAULT COLLATION"}
"""Properties that Spark uses for other statements and that users cannot set."""


def apply_changes(table: TableRef, text: str) -> None:
    """Make the changes of `anabranch.TableChanges.json`. All changes of one kind are one commit.

    Raises what our ALTER commands raise.
    """
    changes: Sequence[Change] = with_sql_to_keep(table.session, json.loads(text))
    if _replaces_columns(table, changes):
        added = [change for change in changes if change["kind"] == "AddColumn"]
        alter_replace_columns(table, StructType([_field(change) for change in added]))
        return
    # Properties come first: they may enable table features that the other changes need.
    for kind, group in groupby(sorted(changes, key=lambda change: change["kind"] != "SetProperty"), key=_kind):
        run = _COMMANDS.get(kind)
        if run is None:
            raise UnsupportedOperationError(operation=f"ALTER TABLE … {kind} on the Delta table {table.label}")
        run(table, list(group))


def _kind(change: Change) -> str:
    if change["kind"] == "SetProperty" and change["name"] in _OF_STATEMENTS:
        return _OF_STATEMENTS[change["name"]]
    return _COLUMN if change["kind"] in _COLUMN_KINDS else str(change["kind"])


def _replaces_columns(table: TableRef, changes: Sequence[Change]) -> bool:
    """Whether this is REPLACE COLUMNS, which Spark passes as dropping all columns and adding others."""
    if {change["kind"] for change in changes} != {"DeleteColumn", "AddColumn"}:
        return False
    dropped = {fold(change["path"][0]) for change in changes if change["kind"] == "DeleteColumn"}
    return all(fold(name) in dropped for name in table.latest().schema.fieldNames())


def _set_properties(table: TableRef, changes: Sequence[Change]) -> None:
    properties = {change["name"]: change["value"] for change in changes}
    if properties.get("provider", "").lower() == "delta":
        # It is what the table has; pipelines of Spark 4.1 and 4.2 set it with all others in each run but the first.
        del properties["provider"]
    if properties:
        alter_set_properties(table, properties)


def _remove_properties(table: TableRef, changes: Sequence[Change]) -> None:
    # Spark does not pass on whether the statement has IF EXISTS.
    alter_unset_properties(table, [change["name"] for change in changes], if_exists=True)


def _set_location(table: TableRef, changes: Sequence[Change]) -> None:
    set_location(table, changes[-1]["value"])


def _set_comment(table: TableRef, changes: Sequence[Change]) -> None:
    # Spark passes an empty text for IS NULL.
    alter_table_comment(table, changes[-1]["value"] or None)


def _add_columns(table: TableRef, changes: Sequence[Change]) -> None:
    alter_add_columns(
        table,
        [
            NewColumn(
                path=tuple(change["path"]),
                data_type=_type(change),
                nullable=change["nullable"],
                comment=change["comment"],
                default=change["default"],
                position=_position(change),
            )
            for change in changes
        ],
    )


def _drop_columns(table: TableRef, changes: Sequence[Change]) -> None:
    if_exists = all(change["ifExists"] for change in changes)
    alter_drop_columns(table, [tuple(change["path"]) for change in changes], if_exists=if_exists)


def _change_columns(table: TableRef, changes: Sequence[Change]) -> None:
    """Spark's changes of one column become one `ColumnChange`."""
    by_path: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        by_path.setdefault(tuple(change["path"]), []).append(change)
    alter_change_columns(
        table, [_column_change(path, changes_of_column) for path, changes_of_column in by_path.items()]
    )


def _column_change(path: tuple[str, ...], changes: Sequence[Change]) -> ColumnChange:
    merged = ColumnChange(path=path)
    for change in changes:
        merged = dataclasses.replace(merged, **dict(_changed_fields(change)))
    return merged


def _changed_fields(change: Change) -> Iterator[tuple[str, Any]]:
    """The fields of a `ColumnChange` that one of Spark's changes sets."""
    kind = change["kind"]
    if kind == "UpdateColumnType":
        yield "data_type", _type(change)
    elif kind == "UpdateColumnNullability":
        yield "nullable", change["nullable"]
    elif kind == "UpdateColumnComment":
        yield "comment", change["comment"]
    elif kind == "UpdateColumnPosition":
        yield "position", _position(change)
    elif kind == "RenameColumn":
        yield "new_name", change["newName"]
    elif change["default"]:
        yield "default", change["default"]
    else:
        yield "drop_default", True


def _cluster_by(table: TableRef, changes: Sequence[Change]) -> None:
    alter_cluster_by(table, [tuple(path) for path in changes[-1]["columns"]])


def _add_constraints(table: TableRef, changes: Sequence[Change]) -> None:
    for change in changes:
        if change["check"] is None:
            operation = f"The constraint {change['ddl']} of the Delta table {table.label}"
            raise UnsupportedOperationError(operation=operation, instead="Delta tables have CHECK constraints.")
        alter_add_constraint(table, change["name"], change["check"])


def _drop_constraints(table: TableRef, changes: Sequence[Change]) -> None:
    for change in changes:
        alter_drop_constraint(table, change["name"], if_exists=change["ifExists"])


def _field(change: Change) -> StructField:
    if len(change["path"]) > 1:
        problem = "REPLACE COLUMNS takes whole columns; name a struct with all its fields"
        raise InvalidArgumentError(argument="column", value=".".join(change["path"]), problem=problem)
    metadata = {} if change["comment"] is None else {"comment": change["comment"]}
    field = StructField(change["path"][0], _type(change), change["nullable"], metadata)
    return field if change["default"] is None else default_column(field, change["default"])


def _type(change: Change) -> DataType:
    return StructType.fromJson(json.loads(change["type"])).fields[0].dataType


def _position(change: Change) -> Position | None:
    previous = change["position"]
    if previous is None:
        return None
    return Position(after=previous[0] if previous else None)


_COMMANDS: Mapping[str, Callable[[TableRef, Sequence[Change]], None]] = {
    "SetProperty": _set_properties,
    _LOCATION: _set_location,
    _COMMENT: _set_comment,
    "RemoveProperty": _remove_properties,
    "AddColumn": _add_columns,
    "DeleteColumn": _drop_columns,
    _COLUMN: _change_columns,
    "ClusterBy": _cluster_by,
    "AddConstraint": _add_constraints,
    "DropConstraint": _drop_constraints,
}
