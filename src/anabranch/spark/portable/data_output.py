"""Where Python workers put new data files: complete and durable before they are told of."""

from __future__ import annotations

import contextlib
import os
import time

import pyarrow as pa

from anabranch.errors.storage import StorageError
from anabranch.storage import durable_files
from anabranch.storage.local import LocalStore
from anabranch.storage.log_store import LogStore


class DataOutput:
    """One new file of a table, written from front to back.

    On a local disk it grows in its final place: no commit names it yet, and nobody looks for it; where a file of its
    name is, that raises `StorageError`. Elsewhere it is kept in memory and stored when it is complete, since object
    stores know no half-written objects.
    """

    def __init__(self, store: LogStore, path: str) -> None:
        self._store = store
        self._path = path
        self._local = os.path.join(store.root, *path.split("/")) if isinstance(store, LocalStore) else None
        self.sink = self._open()

    def finish(self) -> tuple[int, int]:
        """Make the file durable. Its size in bytes and when it was modified, in milliseconds since the epoch."""
        if self._local is None:
            data = self.sink.getvalue().to_pybytes()
            self._store.put(self._path, data)
            return len(data), time.time_ns() // 1_000_000
        self.sink.close()
        with open(self._local, "rb") as file:
            os.fsync(file.fileno())
        durable_files.sync_directory(os.path.dirname(self._local))
        found = os.stat(self._local)
        return found.st_size, found.st_mtime_ns // 1_000_000

    def abandon(self) -> None:
        """Drop what was written; whatever cannot be dropped is left to VACUUM."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self.sink.close()
        if self._local is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._local)

    def _open(self) -> pa.NativeFile:
        if self._local is None:
            return pa.BufferOutputStream()
        durable_files.make_directories(os.path.dirname(self._local), durable_below=self._store.root)
        try:
            os.close(os.open(self._local, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError as error:
            cause = "there is a file of that name"
            raise StorageError(root=self._store.root, path=self._path, doing="write", cause=cause) from error
        return pa.OSFile(self._local, "wb")
