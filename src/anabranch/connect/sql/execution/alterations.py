"""ALTER TABLE in all forms, and COMMENT ON TABLE, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.alter_clustering import alter_cluster_by
from anabranch.commands.alter_columns import alter_drop_columns, alter_rename_column, alter_replace_columns
from anabranch.commands.alter_properties import alter_set_properties, alter_table_comment, alter_unset_properties
from anabranch.commands.table_access import TableHandle
from anabranch.connect.sql.execution.names import rename_table, set_location
from anabranch.connect.sql.grammar.alteration_forms import (
    ClusterBy,
    CommentOnTable,
    DropColumns,
    RenameColumn,
    RenameTable,
    ReplaceColumns,
    SetLocation,
    SetProperties,
    UnknownAlteration,
    UnsetProperties,
)
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.schema.paths import quoted
from anabranch.sql.call import Call
from anabranch.sql.column_types import types_of
from anabranch.sql.execution_of_alterations import FORMS, refuse_rules
from anabranch.sql.grammar.alteration_forms import AlterTable


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


def _replace_columns(handle: TableHandle, form: ReplaceColumns) -> None:
    refuse_rules(handle, form.columns, "REPLACE COLUMNS")
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


def _cluster_by(handle: TableHandle, form: ClusterBy) -> None:
    alter_cluster_by(handle, form.columns)


def _unknown(handle: TableHandle, form: UnknownAlteration) -> None:
    raise UnsupportedOperationError(operation=f"ALTER TABLE … {form.form} on the Delta table {handle.label}")


_FORMS: Mapping[type, Callable[[TableHandle, Any], None]] = {
    **FORMS,
    SetProperties: _set_properties,
    UnsetProperties: _unset_properties,
    ReplaceColumns: _replace_columns,
    DropColumns: _drop_columns,
    RenameColumn: _rename_column,
    ClusterBy: _cluster_by,
    UnknownAlteration: _unknown,
}
ALL_ALTERATIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {AlterTable: alter, CommentOnTable: comment}
