"""ALTER TABLE … SET LOCATION gives a name to the table in another folder. DROP TABLE deletes a table's folder."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.catalog_registration import register
from anabranch.commands.table_access import TableRef, table_at
from anabranch.commands.vacuum.vacuum_plan import delete_files
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import CreateTableMismatchError, DropIncompleteError
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.schema.schema_evolution import visible_schema


def table_of_same_columns(table: TableRef, location: str) -> TableRef:
    """The Delta table in the folder `location`. Raises `NotADeltaTableError` and `CreateTableMismatchError`."""
    there = table_at(table.session, location)
    old, new = visible_schema(table.latest().schema), visible_schema(there.latest().schema)
    if old.jsonValue() != new.jsonValue():
        raise CreateTableMismatchError(
            table=there.label, what="schema", declared=old.simpleString(), existing=new.simpleString()
        )
    return there


def set_location(table: TableRef, location: str) -> None:
    """Make the table's name that of the table in the folder `location`, which has the same columns.

    Raises `UnsupportedOperationError` for a table without a name, `NotADeltaTableError`, `CreateTableMismatchError`.
    """
    if table.entry is None:
        operation = f"ALTER TABLE … SET LOCATION of a table without a name, {table.label},"
        raise UnsupportedOperationError(operation=operation, instead="Create a table of that name at its LOCATION.")
    if table.entry.of_folders:
        operation = f"ALTER TABLE … SET LOCATION of {table.label}, whose folder follows from its name,"
        raise UnsupportedOperationError(operation=operation, instead="Use a name in spark_catalog.")
    there = table_of_same_columns(table, location)
    register(there, dataclasses.replace(table.entry, location=there.path))


THREADS = 8


def delete_folder(table: TableRef) -> None:
    """Delete all files of a managed table that was dropped; the log first, so that the folder is no table any more.

    Raises `DropIncompleteError`, which names a file that could not be deleted.
    """
    store, clock = table.delta_log.store, table.session.clock
    entries = pa.concat_tables(store.walk(lambda _: True), promote_options="none")
    files = entries.filter(pc.invert(entries["is_directory"]))
    in_log = pc.starts_with(files["path"], f"{LOG_DIRECTORY}/")
    for paths in (files["path"].filter(in_log), files["path"].filter(pc.invert(in_log))):
        deletion = delete_files(store, paths, clock=clock, threads=THREADS, table=table.label)
        if deletion.failures:
            first = deletion.failures[0]
            raise DropIncompleteError(table=table.label, folder=table.path, path=first.path, cause=first.cause)
    directories = entries["path"].filter(entries["is_directory"]).to_pylist()
    for directory in sorted(directories, key=lambda path: path.count("/"), reverse=True):
        store.remove_directory(directory)
