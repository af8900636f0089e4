"""Opening data files from Python, on the driver or on executors."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from anabranch.storage.log_store import LogStore
from anabranch.storage.opening import open_store


class DataFiles:
    """The data files of a table, by absolute plain path. It travels to executors and opens its stores there."""

    def __init__(self, table_root: str, storage_options: Mapping[str, str]) -> None:
        self.table_root = table_root.rstrip("/")
        self.storage_options = dict(storage_options)
        self._stores: dict[str, LogStore] = {}

    def open(self, name: str) -> pa.NativeFile:
        """The file for random access. Raises `FileMissingError`, `StorageError`."""
        root, relative = self._place(name)
        return self.store(root).open(relative)

    def store(self, root: str | None = None) -> LogStore:
        """The store of the table, or of another root."""
        root = root or self.table_root
        found = self._stores.get(root)
        if found is None:
            found = self._stores[root] = open_store(root, self.storage_options)
        return found

    def _place(self, name: str) -> tuple[str, str]:
        if name.startswith(self.table_root + "/"):
            return self.table_root, name[len(self.table_root) + 1 :]
        root, _, last = name.rpartition("/")
        return root, last

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_stores": {}}
