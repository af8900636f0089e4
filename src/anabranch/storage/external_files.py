"""Files of a table that lie in folders of others, as those of a shallow clone do.

A log may name any file, and whoever reads it does so with his own rights. So nothing outside a table's folder is
opened but below places that the reader himself has allowed; and nothing there is ever written or deleted.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from anabranch.errors.arguments import InvalidOptionError
from anabranch.storage.file_tree import Deletion, Enters
from anabranch.storage.log_store import LogStore, PutOutcome, StoredFile
from anabranch.storage.store_opening import open_store

PLACES_SETTING = "spark.anabranch.allowedPathPrefixes"
"""Folders and buckets, separated by commas, below which tables may name files outside their own folder."""

_LOCAL = re.compile(r"^file:/+")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+:/")


def parse_places(text: str | None) -> tuple[str, ...]:
    """The places that a setting lists, in one spelling each. Raises `InvalidOptionError`."""
    found = [place_of(each.strip()) for each in (text or "").split(",") if each.strip()]
    for place in found:
        if not place.startswith("/") and not _SCHEME.match(place):
            problem = "each prefix is an absolute path, or a URL such as s3://bucket/folder; commas part them"
            raise InvalidOptionError(option=PLACES_SETTING, value=place, problem=problem)
    return tuple(dict.fromkeys(found))


def place_of(root: str) -> str:
    """The root of a table, or another folder, as a place."""
    return _LOCAL.sub("/", root).rstrip("/") or "/"


def allowed_places(store: LogStore) -> tuple[str, ...]:
    """Where else the table in that store may have files."""
    return store.places() if isinstance(store, ExternalFileStore) else ()


def open_reaching(url: str, options: Mapping[str, str]) -> LogStore:
    """As `open_store`, without a session: the places are those that `options` lists under `PLACES_SETTING`."""
    own, places = open_store(url, options), parse_places(options.get(PLACES_SETTING))
    if not places:
        return own
    return ExternalFileStore(own, places=lambda: places, open_place=lambda place: open_store(place, options))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Elsewhere:
    """A file below an allowed place."""

    store: LogStore
    path: str
    """Below the root of that store."""


class ExternalFileStore:
    """A table's own store, which also reads files below allowed places by their absolute plain paths.

    `places` is asked anew each time: users allow and forbid while tables are open. Everything else that a store
    does is confined to the table's root, as ever.
    """

    def __init__(
        self, own: LogStore, *, places: Callable[[], tuple[str, ...]], open_place: Callable[[str], LogStore]
    ) -> None:
        self.own = own
        self.places = places
        self._open_place = open_place
        self._opened: dict[str, LogStore] = {}
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        return self.own.root

    def head(self, path: str) -> StoredFile | None:
        there = self._elsewhere(path)
        if there is None:
            return self.own.head(path)
        file = there.store.head(there.path)
        return None if file is None else dataclasses.replace(file, path=path)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        there = self._elsewhere(path)
        store, path = (self.own, path) if there is None else (there.store, there.path)
        return store.read(path, size_max=size_max)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        there = self._elsewhere(path)
        if there is None:
            return self.own.read_range(path, offset, length)
        return there.store.read_range(there.path, offset, length)

    def open(self, path: str) -> pa.NativeFile:
        there = self._elsewhere(path)
        return self.own.open(path) if there is None else there.store.open(there.path)

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

    def _elsewhere(self, path: str) -> _Elsewhere | None:
        """Where an absolute path leads; None for a path of the table, and for one that only its own store may judge."""
        if not path.startswith("/") and not _SCHEME.match(path):
            return None
        place = next((each for each in self.places() if path.startswith(each.rstrip("/") + "/")), None)
        if place is None:
            return None
        with self._lock:
            store = self._opened.get(place)
            if store is None:
                store = self._opened[place] = self._open_place(place)
        return _Elsewhere(store=store, path=path[len(place.rstrip("/")) + 1 :])
