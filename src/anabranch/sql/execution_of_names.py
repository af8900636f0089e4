"""ALTER TABLE RENAME TO and SET LOCATION: what the catalog knows changes, the log does not."""

from __future__ import annotations

from anabranch.commands.table_access import TableHandle, table_at
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import CreateTableMismatchError
from anabranch.schema.visibility import visible_schema
from anabranch.spark.catalog import require_session_catalog
from anabranch.spark.table_identifiers import NameIdentifier
from anabranch.sql.call import Call
from anabranch.sql.grammar.strings import string_value


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
    there = table_at(call.session, location)
    old, new = visible_schema(handle.latest().schema), visible_schema(there.latest().schema)
    if old.jsonValue() != new.jsonValue():
        raise CreateTableMismatchError(
            table=there.label, what="schema", declared=old.simpleString(), existing=new.simpleString()
        )
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
