"""Files in memory, for tests, simulation and demos."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.clock import Clock, SystemClock
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.storage.file_tree import Deletion, Enters, delete_one_by_one, pages_of
from anabranch.storage.log_store import (
    PutOutcome,
    StoredFile,
    check_directory_path,
    check_file_path,
    check_file_paths,
    check_size,
    join_path,
    sort_key,
    split_path,
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Content:
    data: bytes
    modified_ms: int


class MemoryStore:
    """A `LogStore` in memory, for any number of threads.

    Two stores share nothing, even with the same root. Modification times are those of the clock.
    """

    def __init__(self, root: str = "memory:/table", clock: Clock | None = None) -> None:
        self.root = root
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._directories: dict[str, dict[str, _Content]] = {}

    def __repr__(self) -> str:
        return f"MemoryStore({self.root!r})"

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        check_directory_path(directory, root=self.root)
        floor = sort_key(start_after)
        with self._lock:
            contents = list(self._directories.get(directory, {}).items())
        files = sorted((sort_key(name), name, content) for name, content in contents if sort_key(name) > floor)
        return (_stored(join_path(directory, name), content) for _, name, content in files)

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        check_directory_path(directory, root=self.root)
        with self._lock:
            files = [
                _stored(join_path(within, name), content)
                for within, contents in self._directories.items()
                if directory in {"", within} or within.startswith(directory + "/")
                for name, content in contents.items()
            ]
        return iter(files)

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        directories: dict[str, bool] = {"": True}

        def shows(directory: str) -> bool:
            if directory not in directories:
                directories[directory] = shows(split_path(directory)[0]) and enters(directory)
            return directories[directory]

        files = self.list_tree()
        shown = (file for file in files if shows(split_path(file.path)[0]))
        return pages_of((file.path, file.size_bytes, file.modified_ms, False) for file in shown)

    def head(self, path: str) -> StoredFile | None:
        content = self._find(path)
        return None if content is None else _stored(path, content)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        content = self._find(path)
        if content is None:
            raise FileMissingError(root=self.root, path=path)
        check_size(len(content.data), size_max, root=self.root, path=path)
        return content.data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = self.read(path)
        if offset < 0 or length < 0 or offset + length > len(data):
            cause = f"bytes {offset} to {offset + length} of a file of {len(data)}"
            raise StorageError(root=self.root, path=path, doing="read", cause=cause)
        return data[offset : offset + length]

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        directory, name = self._split(path)
        content = _Content(bytes(data), self._clock.now_ms())
        with self._lock:
            contents = self._directories.setdefault(directory, {})
            if name in contents:
                return PutOutcome.EXISTS
            contents[name] = content
        return PutOutcome.CREATED

    def make_durable(self, path: str) -> None:
        """Do nothing: files in memory do not outlive the process."""

    def put(self, path: str, data: bytes) -> None:
        directory, name = self._split(path)
        content = _Content(bytes(data), self._clock.now_ms())
        with self._lock:
            self._directories.setdefault(directory, {})[name] = content

    def delete(self, path: str) -> None:
        directory, name = self._split(path)
        with self._lock:
            self._directories.get(directory, {}).pop(name, None)

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return delete_one_by_one(check_file_paths(paths, root=self.root), self.delete)

    def remove_directory(self, path: str) -> bool:
        check_file_path(path, root=self.root)
        return False

    def _find(self, path: str) -> _Content | None:
        directory, name = self._split(path)
        with self._lock:
            return self._directories.get(directory, {}).get(name)

    def _split(self, path: str) -> tuple[str, str]:
        return split_path(check_file_path(path, root=self.root))


def _stored(path: str, content: _Content) -> StoredFile:
    return StoredFile(path=path, size_bytes=len(content.data), modified_ms=content.modified_ms)
