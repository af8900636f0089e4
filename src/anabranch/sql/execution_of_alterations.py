"""ALTER TABLE and COMMENT ON TABLE, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.alter_clustering import alter_cluster_by
from anabranch.commands.alter_columns import (
    alter_add_columns,
    alter_change_columns,
    alter_drop_columns,
    alter_rename_column,
    alter_replace_columns,
)
from anabranch.commands.alter_constraints import alter_add_constraint, alter_drop_constraint
from anabranch.commands.alter_features import alter_drop_feature
from anabranch.commands.alter_identity import alter_sync_identity
from anabranch.commands.alter_properties import alter_set_properties, alter_table_comment, alter_unset_properties
from anabranch.commands.table_access import TableHandle
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.schema.column_changes import ColumnChange, NewColumn, Position
from anabranch.schema.paths import quoted
from anabranch.sql.call import Call
from anabranch.sql.column_types import types_of
from anabranch.sql.execution_of_names import rename_table, set_location
from anabranch.sql.grammar.alteration_forms import (
    AddColumns,
    AddConstraint,
    AlterColumns,
    AlterTable,
    ClusterBy,
    ColumnAlteration,
    CommentOnTable,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    RenameTable,
    ReplaceColumns,
    SetLocation,
    SetProperties,
    SyncIdentity,
    UnknownAlteration,
    UnsetProperties,
)
from anabranch.sql.grammar.columns import ColumnDefinition, Place


def alter(call: Call, statement: AlterTable) -> DataFrame:
    """`ALTER TABLE`."""
    handle = call.table(statement.table)
    alteration = statement.alteration
    if isinstance(alteration, RenameTable):
        rename_table(call, handle, alteration.to)
    elif isinstance(alteration, SetLocation):
        set_location(call, handle, alteration.location)
    else:
        _FORMS[type(alteration)](handle, alteration)
    return call.nothing()


def comment(call: Call, statement: CommentOnTable) -> DataFrame:
    """`COMMENT ON TABLE`."""
    alter_table_comment(call.table(statement.table), statement.comment)
    return call.nothing()


def _set_properties(handle: TableHandle, form: SetProperties) -> None:
    alter_set_properties(handle, dict(form.properties))


def _unset_properties(handle: TableHandle, form: UnsetProperties) -> None:
    alter_unset_properties(handle, form.names, if_exists=form.if_exists)


def _add_columns(handle: TableHandle, form: AddColumns) -> None:
    types = types_of([column.type for column in form.columns])
    columns = [
        NewColumn(
            path=column.path,
            data_type=kind,
            nullable=column.nullable,
            comment=column.comment,
            default=None if column.default is None else column.default.text,
            position=_position(column.place),
        )
        for column, kind in zip(form.columns, types, strict=True)
    ]
    _refuse_rules(handle, form.columns, "ADD COLUMNS")
    alter_add_columns(handle, columns, if_not_exists=form.if_not_exists)


def _replace_columns(handle: TableHandle, form: ReplaceColumns) -> None:
    _refuse_rules(handle, form.columns, "REPLACE COLUMNS")
    types = types_of([column.type for column in form.columns])
    schema = StructType()
    for column, kind in zip(form.columns, types, strict=True):
        if len(column.path) > 1:
            problem = "REPLACE COLUMNS takes whole columns; name a struct with all its fields"
            raise InvalidArgumentError(argument="column", value=quoted(column.path), problem=problem)
        metadata = {} if column.comment is None else {"comment": column.comment}
        schema = schema.add(column.path[0], kind, column.nullable, metadata)
    alter_replace_columns(handle, schema)


def _drop_columns(handle: TableHandle, form: DropColumns) -> None:
    alter_drop_columns(handle, form.paths, if_exists=form.if_exists)


def _rename_column(handle: TableHandle, form: RenameColumn) -> None:
    alter_rename_column(handle, form.path, form.to)


def _alter_columns(handle: TableHandle, form: AlterColumns) -> None:
    written = [column.type for column in form.columns if column.type is not None]
    types = iter(types_of(written))
    alter_change_columns(handle, [_change(column, types) for column in form.columns])


def _change(column: ColumnAlteration, types: Any) -> ColumnChange:
    return ColumnChange(
        path=column.path,
        data_type=None if column.type is None else next(types),
        nullable=column.nullable,
        comment=column.comment,
        position=_position(column.place),
        default=None if column.default is None else column.default.text,
        drop_default=column.drops_default,
        new_name=column.new_name,
    )


def _sync_identity(handle: TableHandle, form: SyncIdentity) -> None:
    alter_sync_identity(handle, form.path)


def _add_constraint(handle: TableHandle, form: AddConstraint) -> None:
    if form.check.name is None:
        problem = "a constraint of a table that is there needs a name: ADD CONSTRAINT name CHECK (…)"
        raise InvalidArgumentError(argument="CHECK", value=form.check.condition.text, problem=problem)
    alter_add_constraint(handle, form.check.name, form.check.condition.text)


def _drop_constraint(handle: TableHandle, form: DropConstraint) -> None:
    alter_drop_constraint(handle, form.name, if_exists=form.if_exists)


def _cluster_by(handle: TableHandle, form: ClusterBy) -> None:
    alter_cluster_by(handle, form.columns)


def _drop_feature(handle: TableHandle, form: DropFeature) -> None:
    alter_drop_feature(handle, form.feature, truncate_history=form.truncates_history)


def _unknown(handle: TableHandle, form: UnknownAlteration) -> None:
    raise UnsupportedOperationError(operation=f"ALTER TABLE … {form.form} on the Delta table {handle.label}")


def _position(place: Place | None) -> Position | None:
    return None if place is None else Position(after=place.after)


def _refuse_rules(handle: TableHandle, columns: Sequence[ColumnDefinition], form: str) -> None:
    for column in columns:
        if column.generated is not None or column.identity is not None or column.checks:
            operation = f"ALTER TABLE {handle.label} {form} with a column that is computed or checked"
            raise UnsupportedOperationError(operation=operation, instead="Use CREATE OR REPLACE TABLE.")


_FORMS: Mapping[type, Callable[[TableHandle, Any], None]] = {
    SetProperties: _set_properties,
    UnsetProperties: _unset_properties,
    AddColumns: _add_columns,
    ReplaceColumns: _replace_columns,
    DropColumns: _drop_columns,
    RenameColumn: _rename_column,
    AlterColumns: _alter_columns,
    SyncIdentity: _sync_identity,
    AddConstraint: _add_constraint,
    DropConstraint: _drop_constraint,
    ClusterBy: _cluster_by,
    DropFeature: _drop_feature,
    UnknownAlteration: _unknown,
}
ALTERATIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {AlterTable: alter, CommentOnTable: comment}
