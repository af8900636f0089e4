"""Data files that Spark could not read or write: which table they are of, and what can be done."""

from __future__ import annotations

from urllib.parse import unquote

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import DataFileDamagedError, DataFileMissingError, StorageError
from anabranch.protocol.data_paths import encode_path
from anabranch.spark.session.delta_session import open_table_with
from anabranch.transaction.table import Table

_MISSING = "FAILED_READ_FILE.FILE_NOT_EXIST"
_WRITING = "TASK_WRITE_FAILED"


def failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    """The error to raise in the place of Spark's, for a file of a table of ours; None for any other."""
    plain = unquote(path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:"))
    found = open_table_with(plain)
    if found is None:
        return None
    root, table = found
    label, file = f"delta.`{root}`", plain.removeprefix(root).lstrip("/")
    reason = reason.partition("\n")[0]
    if condition == _WRITING:
        return StorageError(root=root, path=file, doing="write data files to", cause=reason)
    version = _newest_with(table, file)
    if condition == _MISSING:
        return DataFileMissingError(table=label, file=file, version=version)
    return DataFileDamagedError(table=label, file=file, version=version, problem=reason)


def _newest_with(table: Table, file: str) -> int | None:
    """The newest version, if it needs the file."""
    try:
        snapshot = table.snapshots.latest_or_none()
    except DeltaError:
        # The log is damaged as well; that is told when somebody asks for it.
        return None
    if snapshot is None or not snapshot.files.at_path(encode_path(file)):
        return None
    return snapshot.version
