"""DROP TABLE, ALTER TABLE RENAME TO and SET LOCATION: what the catalog knows changes, the log does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.dropped_folder import delete_folder
from anabranch.commands.set_location import table_of_same_columns
from anabranch.commands.table_access import TableHandle
from anabranch.connect.sql.grammar.drops import DropTable
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.predicates.sql_strings import string_value
from anabranch.spark.catalog import require_session_catalog
from anabranch.spark.table_identifiers import NameIdentifier, PathIdentifier
from anabranch.sql.call import Call


def drop(call: Call, statement: DropTable) -> DataFrame:
    """`DROP TABLE`: the name goes, and the files of a table whose folder the catalog chose."""
    identifier = call.identifier(statement.table)
    if isinstance(identifier, PathIdentifier):
        operation = f"DROP TABLE of a table without a name, {identifier},"
        raise UnsupportedOperationError(operation=operation, instead="Delete its folder.")
    handle = call.table(statement.table)
    result = call.own_sql(f"DROP TABLE {identifier.quoted}")
    if handle.entry is not None and handle.entry.leaves_folder:
        delete_folder(handle)
    call.session.forget(handle.path)
    return result


def rename_table(call: Call, handle: TableHandle, to: tuple[str, ...]) -> None:
    """Give the table another name. The folder of a table whose place the catalog chose moves with it."""
    name = _name_of(handle, "RENAME TO")
    new = require_session_catalog(call.session.spark, NameIdentifier(to))
    call.own_sql(f"ALTER TABLE {name.quoted} RENAME TO {new.quoted}")
    call.session.forget(handle.path)


def set_location(call: Call, handle: TableHandle, location: str) -> None:
    """Let the name stand for the Delta table in another folder, which has the same columns.

    Raises `NotADeltaTableError` and `CreateTableMismatchError`.
    """
    name = _name_of(handle, "SET LOCATION")
    there = table_of_same_columns(handle, location)
    call.own_sql(f"ALTER TABLE {name.quoted} SET LOCATION {_path_literal(there.path)}")


def _name_of(handle: TableHandle, form: str) -> NameIdentifier:
    if handle.entry is None:
        operation = f"ALTER TABLE … {form} of a table without a name, {handle.label},"
        raise UnsupportedOperationError(operation=operation, instead="Create a table of that name at its LOCATION.")
    return handle.entry.name


def _path_literal(path: str) -> str:
    """A string of SQL that means exactly this path."""
    written = "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
    assert string_value(written) == path
    return written


NAMES: Mapping[type, Callable[[Call, Any], DataFrame]] = {DropTable: drop}
