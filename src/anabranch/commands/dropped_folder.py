"""The folder of a table whose name was dropped, where the catalog leaves it and it was the catalog's choice."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.table_access import TableHandle
from anabranch.commands.vacuum_deletion import delete_files
from anabranch.errors.tables import DropIncompleteError
from anabranch.protocol.log_paths import LOG_DIRECTORY

THREADS = 8


def delete_folder(handle: TableHandle) -> None:
    """Delete all files of the table, those of the log first: without them nobody takes the rest for a table.

    Raises `DropIncompleteError`, which names a file that could not be deleted.
    """
    store, clock = handle.table.store, handle.session.clock
    found = pa.concat_tables(store.walk(lambda _: True), promote_options="none")
    files = found.filter(pc.invert(found["is_directory"]))
    in_log = pc.starts_with(files["path"], f"{LOG_DIRECTORY}/")
    for paths in (files["path"].filter(in_log), files["path"].filter(pc.invert(in_log))):
        deletion = delete_files(store, paths, clock=clock, threads=THREADS, table=handle.label)
        if deletion.failures:
            first = deletion.failures[0]
            raise DropIncompleteError(table=handle.label, folder=handle.path, path=first.path, cause=first.cause)
    directories = found["path"].filter(found["is_directory"]).to_pylist()
    for directory in sorted(directories, key=lambda path: path.count("/"), reverse=True):
        store.remove_directory(directory)
