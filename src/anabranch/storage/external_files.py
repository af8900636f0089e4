"""Files of a table that are outside its folder, as those of a shallow clone are.

A log may name any file, and a reader opens it with the reader's own permissions. So files outside a table's folder are
opened only below prefixes that the reader has allowed, and nothing external is ever written or deleted.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from anabranch.errors.arguments import InvalidOptionError
from anabranch.storage.file_tree import Deletion, Enters
from anabranch.storage.log_store import LogStore, PutOutcome, StoredFile

PREFIX_SETTING = "spark.anabranch.allowedPathPrefixes"
"""Folders and buckets, separated by commas, below which tables may have files outside their own folder."""

_LOCAL = re.compile(r"^file:/+")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+:/")


def parse_allowed_prefixes(text: str | None) -> tuple[str, ...]:
    """The allowed prefixes that a setting lists, spelled canonically. Raises `InvalidOptionError`."""
    prefixes = [canonical_root(part.strip()) for part in (text or "").split(",") if part.strip()]
    for prefix in prefixes:
        if not prefix.startswith("/") and not _SCHEME.match(prefix):
            problem = (
                "each prefix must be an absolute path, or a URL such as s3://bucket/folder; separate them with commas"
            )
            raise InvalidOptionError(option=PREFIX_SETTING, value=prefix, problem=problem)
    return tuple(dict.fromkeys(prefixes))


def canonical_root(root: str) -> str:
    """The root of a table or another folder, spelled canonically: without `file:`, and without a slash at its end."""
    return _LOCAL.sub("/", root).rstrip("/") or "/"


def allowed_prefixes_of(store: LogStore) -> tuple[str, ...]:
    """The prefixes below which the table in a store may have files outside its own folder."""
    return store.allowed_prefixes() if isinstance(store, ExternalFileStore) else ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ExternalFile:
    """A file below an allowed prefix."""

    store: LogStore
    path: str
    """The path below the root of that store."""


class ExternalFileStore:
    """The store of a table that also reads files below allowed prefixes, by their absolute plain paths.

    `allowed_prefixes` is called for every file, since users change the setting while tables are open. All other
    operations are confined to the table's root.
    """

    def __init__(
        self, own: LogStore, *, allowed_prefixes: Callable[[], tuple[str, ...]], open_prefix: Callable[[str], LogStore]
    ) -> None:
        self.own = own
        self.root = own.root
        self.allowed_prefixes = allowed_prefixes
        self._open_prefix = open_prefix
        self._opened: dict[str, LogStore] = {}
        self._lock = threading.Lock()

    def head(self, path: str) -> StoredFile | None:
        external = self._external_file(path)
        if external is None:
            return self.own.head(path)
        file = external.store.head(external.path)
        return None if file is None else dataclasses.replace(file, path=path)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        external = self._external_file(path)
        store, path = (self.own, path) if external is None else (external.store, external.path)
        return store.read(path, size_max=size_max)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        external = self._external_file(path)
        if external is None:
            return self.own.read_range(path, offset, length)
        return external.store.read_range(external.path, offset, length)

    def open(self, path: str) -> pa.NativeFile:
        external = self._external_file(path)
        return self.own.open(path) if external is None else external.store.open(external.path)

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        return self.own.list_from(directory, start_after)

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        return self.own.list_tree(directory)

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        return self.own.walk(enters)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        return self.own.put_if_absent(path, data)

    def make_durable(self, path: str) -> None:
        self.own.make_durable(path)

    def put(self, path: str, data: bytes) -> None:
        self.own.put(path, data)

    def delete(self, path: str) -> None:
        self.own.delete(path)

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return self.own.delete_many(paths)

    def remove_directory(self, path: str) -> bool:
        return self.own.remove_directory(path)

    def _external_file(self, path: str) -> _ExternalFile | None:
        """The external file at an absolute path; None for any other path, which the table's own store checks."""
        if not path.startswith("/") and not _SCHEME.match(path):
            return None
        prefixes = self.allowed_prefixes()
        prefix = next((prefix for prefix in prefixes if path.startswith(prefix.rstrip("/") + "/")), None)
        if prefix is None:
            return None
        with self._lock:
            store = self._opened.get(prefix)
            if store is None:
                store = self._opened[prefix] = self._open_prefix(prefix)
        return _ExternalFile(store=store, path=path[len(prefix.rstrip("/")) + 1 :])
