"""Execution of ALTER TABLE and COMMENT ON COLUMN, in the forms that some release of Spark cannot parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.alter.alter_columns import alter_add_columns, alter_change_columns, alter_sync_identity
from anabranch.commands.alter.alter_constraints import alter_add_constraint, alter_drop_constraint
from anabranch.commands.describe.describe_table import describe_detail, describe_history, describe_other
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.schema.column_changes import ColumnChange, NewColumn, Position
from anabranch.sql.grammar.alteration_grammar import (
    AddColumns,
    AddConstraint,
    AlterColumns,
    AlterTable,
    ColumnAlteration,
    DropConstraint,
    DropFeature,
    SyncIdentity,
)
from anabranch.sql.grammar.clauses import ColumnDefinition, ColumnPosition
from anabranch.sql.grammar.maintenance_grammar import DescribeDetail, DescribeHistory
from anabranch.sql.literals import types_of
from anabranch.sql.statement_context import StatementContext


def alter(context: StatementContext, statement: AlterTable) -> DataFrame:
    """`ALTER TABLE`."""
    FORMS[type(statement.alteration)](context.table(statement.table), statement.alteration)
    return context.nothing()


def _add_columns(table: TableRef, form: AddColumns) -> None:
    types = types_of([column.type for column in form.columns])
    columns = [
        NewColumn(
            path=column.path,
            data_type=kind,
            nullable=column.nullable,
            comment=column.comment,
            default=None if column.default is None else column.default.text,
            position=_position(column.position),
        )
        for column, kind in zip(form.columns, types, strict=True)
    ]
    refuse_rules(table, form.columns, "ADD COLUMNS")
    alter_add_columns(table, columns, if_not_exists=form.if_not_exists)


def _alter_columns(table: TableRef, form: AlterColumns) -> None:
    written = [column.type for column in form.columns if column.type is not None]
    types = iter(types_of(written))
    alter_change_columns(table, [_change(column, types) for column in form.columns])


def _change(column: ColumnAlteration, types: Any) -> ColumnChange:
    return ColumnChange(
        path=column.path,
        data_type=None if column.type is None else next(types),
        nullable=column.nullable,
        comment=column.comment,
        position=_position(column.position),
        default=None if column.default is None else column.default.text,
        drop_default=column.drops_default,
        new_name=column.new_name,
    )


def _sync_identity(table: TableRef, form: SyncIdentity) -> None:
    alter_sync_identity(table, form.path)


def _add_constraint(table: TableRef, form: AddConstraint) -> None:
    if form.check.name is None:
        problem = "a constraint of an existing table needs a name: ADD CONSTRAINT name CHECK (…)"
        raise InvalidArgumentError(argument="CHECK", value=form.check.condition.text, problem=problem)
    alter_add_constraint(table, form.check.name, form.check.condition.text)


def _drop_constraint(table: TableRef, form: DropConstraint) -> None:
    alter_drop_constraint(table, form.name, if_exists=form.if_exists)


def _drop_feature(table: TableRef, form: DropFeature) -> None:
    alter_drop_feature(table, form.feature, truncate_history=form.truncates_history)


def _position(position: ColumnPosition | None) -> Position | None:
    return None if position is None else Position(after=position.after)


def refuse_rules(table: TableRef, columns: Sequence[ColumnDefinition], form: str) -> None:
    """Raises `UnsupportedOperationError` for a column that is computed or checked."""
    for column in columns:
        if column.generated is not None or column.identity is not None or column.checks:
            operation = f"ALTER TABLE {table.label} {form} with a column that is computed or checked"
            raise UnsupportedOperationError(operation=operation, instead="Use CREATE OR REPLACE TABLE.")


FORMS: Mapping[type, Callable[[TableRef, Any], None]] = {
    AddColumns: _add_columns,
    AlterColumns: _alter_columns,
    SyncIdentity: _sync_identity,
    AddConstraint: _add_constraint,
    DropConstraint: _drop_constraint,
    DropFeature: _drop_feature,
}
ALTERATIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {AlterTable: alter}


# DESCRIBE DETAIL and DESCRIBE HISTORY.


def _detail(context: StatementContext, statement: DescribeDetail) -> DataFrame:
    try:
        table = context.table(statement.table)
    except NotADeltaTableError:
        other = describe_other(context.session, context.identifier(statement.table))
        if other is None:
            raise
        return other
    return describe_detail(table)


def _history(context: StatementContext, statement: DescribeHistory) -> DataFrame:
    if statement.limit is not None and statement.limit < 0:
        problem = "it must be a whole number, 0 or more"
        raise InvalidArgumentError(argument="LIMIT", value=str(statement.limit), problem=problem)
    return describe_history(context.table(statement.table), statement.limit)


DESCRIPTIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    DescribeDetail: _detail,
    DescribeHistory: _history,
}
