"""ALTER TABLE in all forms, and COMMENT ON TABLE, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_columns import alter_drop_columns, alter_rename_column, alter_replace_columns
from anabranch.commands.alter.alter_properties import alter_set_properties, alter_table_comment, alter_unset_properties
from anabranch.commands.table_access import TableRef
from anabranch.connect.sql.execution.connect_descriptions import rename_table, set_location
from anabranch.connect.sql.grammar.connect_alteration_grammar import (
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
from anabranch.sql.execute.execute_alterations import FORMS, refuse_rules
from anabranch.sql.grammar.alteration_grammar import AlterTable
from anabranch.sql.literals import types_of
from anabranch.sql.statement_context import StatementContext


def alter(context: StatementContext, statement: AlterTable) -> DataFrame:
    """`ALTER TABLE`."""
    handle = context.table(statement.table)
    alteration = statement.alteration
    if isinstance(alteration, RenameTable):
        rename_table(context, handle, alteration.to)
    elif isinstance(alteration, SetLocation):
        set_location(context, handle, alteration.location)
    else:
        _FORMS[type(alteration)](handle, alteration)
    return context.nothing()


def comment(context: StatementContext, statement: CommentOnTable) -> DataFrame:
    """`COMMENT ON TABLE`."""
    alter_table_comment(context.table(statement.table), statement.comment)
    return context.nothing()


def _set_properties(handle: TableRef, form: SetProperties) -> None:
    alter_set_properties(handle, dict(form.properties))


def _unset_properties(handle: TableRef, form: UnsetProperties) -> None:
    alter_unset_properties(handle, form.names, if_exists=form.if_exists)


def _replace_columns(handle: TableRef, form: ReplaceColumns) -> None:
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


def _drop_columns(handle: TableRef, form: DropColumns) -> None:
    alter_drop_columns(handle, form.paths, if_exists=form.if_exists)


def _rename_column(handle: TableRef, form: RenameColumn) -> None:
    alter_rename_column(handle, form.path, form.to)


def _cluster_by(handle: TableRef, form: ClusterBy) -> None:
    alter_cluster_by(handle, form.columns)


def _unknown(handle: TableRef, form: UnknownAlteration) -> None:
    raise UnsupportedOperationError(operation=f"ALTER TABLE … {form.form} on the Delta table {handle.label}")


_FORMS: Mapping[type, Callable[[TableRef, Any], None]] = {
    **FORMS,
    SetProperties: _set_properties,
    UnsetProperties: _unset_properties,
    ReplaceColumns: _replace_columns,
    DropColumns: _drop_columns,
    RenameColumn: _rename_column,
    ClusterBy: _cluster_by,
    UnknownAlteration: _unknown,
}
ALL_ALTERATIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    AlterTable: alter,
    CommentOnTable: comment,
}
