"""ALTER TABLE … SET LOCATION: a name stands for the table in another folder."""

from __future__ import annotations

import dataclasses

from anabranch.commands.table_access import TableHandle, table_at
from anabranch.commands.write import register
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import CreateTableMismatchError
from anabranch.schema.visibility import visible_schema


def table_of_same_columns(handle: TableHandle, location: str) -> TableHandle:
    """The Delta table in the folder `location`. Raises `NotADeltaTableError` and `CreateTableMismatchError`."""
    there = table_at(handle.session, location)
    old, new = visible_schema(handle.latest().schema), visible_schema(there.latest().schema)
    if old.jsonValue() != new.jsonValue():
        raise CreateTableMismatchError(
            table=there.label, what="schema", declared=old.simpleString(), existing=new.simpleString()
        )
    return there


def set_location(handle: TableHandle, location: str) -> None:
    """Let the table's name stand for the table in the folder `location`, which has the same columns.

    Raises `UnsupportedOperationError` for a table without a name, `NotADeltaTableError`, `CreateTableMismatchError`.
    """
    if handle.entry is None:
        operation = f"ALTER TABLE … SET LOCATION of a table without a name, {handle.label},"
        raise UnsupportedOperationError(operation=operation, instead="Create a table of that name at its LOCATION.")
    there = table_of_same_columns(handle, location)
    register(there, dataclasses.replace(handle.entry, location=there.path))
