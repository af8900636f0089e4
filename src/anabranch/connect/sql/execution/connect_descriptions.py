"""DESCRIBE TABLE and SHOW, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.definition.table_location import delete_folder, table_of_same_columns
from anabranch.commands.describe.describe_table import describe_as_json
from anabranch.commands.describe.show_table import (
    describe_column,
    describe_table,
    show_columns,
    show_create_table,
    show_partitions,
    show_properties,
)
from anabranch.commands.table_access import TableRef
from anabranch.connect.sql.grammar.connect_description_grammar import (
    DescribeTable,
    DropTable,
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowProperties,
)
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.predicates.sql_lexer import string_value
from anabranch.spark.session.catalog import require_session_catalog
from anabranch.spark.session.table_identifiers import NameIdentifier, PathIdentifier
from anabranch.sql.statement_context import StatementContext


def _table(context: StatementContext, statement: DescribeTable) -> DataFrame:
    handle = context.table(statement.table)
    if statement.unsupported is not None:
        raise UnsupportedOperationError(operation=f"DESCRIBE TABLE … {statement.unsupported} of {handle.label}")
    if statement.as_json:
        if not statement.extended or statement.column is not None:
            problem = "AS JSON goes with EXTENDED, and with no column"
            raise InvalidArgumentError(argument="DESCRIBE TABLE", value=handle.label, problem=problem)
        return describe_as_json(handle)
    if statement.column is not None:
        return describe_column(handle, statement.column)
    return describe_table(handle, extended=statement.extended)


def _properties(context: StatementContext, statement: ShowProperties) -> DataFrame:
    return show_properties(context.table(statement.table), statement.key)


def _columns(context: StatementContext, statement: ShowColumns) -> DataFrame:
    return show_columns(context.table(statement.table))


def _partitions(context: StatementContext, statement: ShowPartitions) -> DataFrame:
    values = {column: F.expr(context.expression(value)) for column, value in statement.partition}
    return show_partitions(context.table(statement.table), values)


def _create_table(context: StatementContext, statement: ShowCreateTable) -> DataFrame:
    return show_create_table(context.table(statement.table))


SPARKS_DESCRIPTIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    DescribeTable: _table,
    ShowProperties: _properties,
    ShowColumns: _columns,
    ShowPartitions: _partitions,
    ShowCreateTable: _create_table,
}


# DROP TABLE, ALTER TABLE RENAME TO and SET LOCATION: what the catalog knows changes, the log does not.


def drop(context: StatementContext, statement: DropTable) -> DataFrame:
    """`DROP TABLE`: the name goes, and the files of a table whose folder the catalog chose."""
    identifier = context.identifier(statement.table)
    if isinstance(identifier, PathIdentifier):
        operation = f"DROP TABLE of a table without a name, {identifier},"
        raise UnsupportedOperationError(operation=operation, instead="Delete its folder.")
    handle = context.table(statement.table)
    result = context.own_sql(f"DROP TABLE {identifier.quoted}")
    if handle.entry is not None and handle.entry.leaves_folder:
        delete_folder(handle)
    context.session.forget(handle.path)
    return result


def rename_table(context: StatementContext, handle: TableRef, to: tuple[str, ...]) -> None:
    """Give the table another name. The folder of a table whose place the catalog chose moves with it."""
    name = _name_of(handle, "RENAME TO")
    new = require_session_catalog(context.session.spark, NameIdentifier(to))
    context.own_sql(f"ALTER TABLE {name.quoted} RENAME TO {new.quoted}")
    context.session.forget(handle.path)


def set_location(context: StatementContext, handle: TableRef, location: str) -> None:
    """Let the name stand for the Delta table in another folder, which has the same columns.

    Raises `NotADeltaTableError` and `CreateTableMismatchError`.
    """
    name = _name_of(handle, "SET LOCATION")
    there = table_of_same_columns(handle, location)
    context.own_sql(f"ALTER TABLE {name.quoted} SET LOCATION {_path_literal(there.path)}")


def _name_of(handle: TableRef, form: str) -> NameIdentifier:
    if handle.entry is None:
        operation = f"ALTER TABLE … {form} of a table without a name, {handle.label},"
        raise UnsupportedOperationError(operation=operation, instead="Create a table of that name at its LOCATION.")
    return handle.entry.name


def _path_literal(path: str) -> str:
    """A string of SQL that means exactly this path."""
    written = "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
    assert string_value(written) == path
    return written


NAMES: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {DropTable: drop}
