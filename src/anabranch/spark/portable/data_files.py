"""Opening data files from Python, on the driver or on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.storage.elsewhere import open_reaching
from anabranch.storage.log_store import LogStore

_HADOOP = "spark.hadoop."


def storage_options(
    spark: SparkSession, table_root: str, options: Sequence[tuple[str, str]], *, elsewhere: Sequence[str] = ()
) -> dict[str, str]:
    """How Python reaches the table's storage: the session's Hadoop settings, and before them those of the call.

    `elsewhere` are places outside the table where it may have files.
    """
    given = {key: value for key, value in options if "." in key}
    if not any("://" in root for root in (table_root, *elsewhere)):
        return given
    settings = dict(spark.conf.getAll)
    return {**{key: value for key, value in settings.items() if key.startswith(_HADOOP)}, **given}


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
            found = self._stores[root] = open_reaching(root, self.storage_options)
        return found

    def _place(self, name: str) -> tuple[str, str]:
        if name.startswith(self.table_root + "/"):
            return self.table_root, name[len(self.table_root) + 1 :]
        root, _, last = name.rpartition("/")
        return root, last

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_stores": {}}
