"""The simulated storage: what it holds, and the connection of one process, at whose calls everything happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from anabranch.errors.environment import StorageError
from anabranch.storage.file_tree import Deletion, Enters, delete_one_by_one, pages_of
from anabranch.storage.log_store import PutOutcome, StoredFile, split_path
from anabranch.storage.memory_store import MemoryStore
from simulation.events import Event, Kind

T = TypeVar("T")


class Watcher(Protocol):
    """A judge that sees each change of the storage when it is made. `cause` is the act that requested it."""

    def created(self, path: str, data: bytes, cause: object) -> None: ...

    def replaced(self, path: str, cause: object) -> None: ...

    def deleted(self, path: str, cause: object) -> None: ...

    def lost_power(self) -> None: ...


class Disk(MemoryStore):
    """All files, by the storage's own clock. On a local disk, names vanish with the power unless they were synced."""

    def __init__(self, clock: object) -> None:
        super().__init__(clock=clock)  # type: ignore[arg-type]
        self.watcher: Watcher | None = None
        self._durable: dict[str, dict[str, object]] = {}

    def create(self, path: str, data: bytes, cause: object) -> PutOutcome:
        outcome = self.put_if_absent(path, data)
        if outcome is PutOutcome.CREATED and self.watcher is not None:
            self.watcher.created(path, data, cause)
        return outcome

    def replace(self, path: str, data: bytes, cause: object) -> None:
        self.put(path, data)
        if self.watcher is not None:
            self.watcher.replaced(path, cause)

    def erase(self, path: str, cause: object) -> None:
        existed = self.head(path) is not None
        self.delete(path)
        if existed and self.watcher is not None:
            self.watcher.deleted(path, cause)

    def sync(self, directory: str) -> None:
        """Make the names of a directory durable. Their contents are: a file gets its name once its data is synced."""
        self._durable[directory] = dict(self._directories.get(directory, {}))

    def lose_power(self) -> None:
        """Every directory is as it was when it was last synced."""
        self._directories = {directory: dict(contents) for directory, contents in self._durable.items()}  # type: ignore[misc]
        if self.watcher is not None:
            self.watcher.lost_power()


class Caller(Protocol):
    """The process that a connection belongs to."""

    def call(self, name: str, path: str) -> Sequence[Event]:
        """Let happen what happens before the call. Raises where the process dies."""

    def after_call(self, events: Sequence[Event]) -> None:
        """Let happen what happens after the call."""

    def later(self, time_ms: int, effect: Callable[[], object]) -> None:
        """Have the storage do something later."""

    @property
    def cause(self) -> object:
        """The act that the process is in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Call:
    """One call, and what goes wrong with it."""

    path: str
    events: Sequence[Event]

    def value(self, kind: Kind) -> int | None:
        return next((event.value for event in self.events if event.kind is kind), None)

    def has(self, kind: Kind) -> bool:
        return self.value(kind) is not None


class SimulatedStore:
    """The `LogStore` of one process. Each call is a step of the simulation, and so is each fsync of a local disk."""

    def __init__(self, disk: Disk, caller: Caller, *, local: bool) -> None:
        self._disk = disk
        self._caller = caller
        self._local = local
        self._sync_fails = False

    @property
    def root(self) -> str:
        return self._disk.root

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        call = self._begin("list_from", directory)
        return self._ended(call, iter(self._seen(call, self._disk.list_from(directory, start_after))))

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        call = self._begin("list_tree", directory)
        return self._ended(call, iter(self._seen(call, self._disk.list_tree(directory))))

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        call = self._begin("walk", "")
        rows = [row for page in self._disk.walk(enters) for row in page.to_pylist()]
        files = {row["path"]: tuple(row.values()) for row in rows}
        seen = self._seen(
            call, [StoredFile(path=path, size_bytes=row[1], modified_ms=row[2]) for path, row in files.items()]
        )
        return self._ended(call, pages_of(files[file.path] for file in seen))  # type: ignore[misc]

    def head(self, path: str) -> StoredFile | None:
        call = self._begin("head", path)
        return self._ended(call, self._disk.head(path))

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        call = self._begin("read", path)
        data = self._disk.read(path, size_max=size_max)
        return self._ended(call, self._torn(call, data))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        call = self._begin("read_range", path)
        if call.has(Kind.TORN):
            raise self._failure(path, "the connection was closed early")
        return self._ended(call, self._disk.read_range(path, offset, length))

    def open(self, path: str) -> pa.NativeFile:
        call = self._begin("open", path)
        return self._ended(call, pa.BufferReader(self._torn(call, self._disk.read(path))))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        call = self._begin("put_if_absent", path)
        cause = self._caller.cause
        if call.has(Kind.REQUEST_LOST):
            return self._ended(call, PutOutcome.UNKNOWN)
        for kind in (Kind.LATE, Kind.REPEATED):
            if (delay_ms := call.value(kind)) is not None:
                self._caller.later(delay_ms, lambda: self._disk.create(path, data, cause))
        if call.has(Kind.LATE):
            return self._ended(call, PutOutcome.UNKNOWN)
        outcome = self._disk.create(path, data, cause)
        if outcome is PutOutcome.CREATED and not self._is_synced(path):
            outcome = PutOutcome.UNKNOWN
        if call.has(Kind.RETRIED_INSIDE):
            outcome = PutOutcome.EXISTS
        return self._ended(call, PutOutcome.UNKNOWN if call.has(Kind.REPLY_LOST) else outcome)

    def make_durable(self, path: str) -> None:
        call = self._begin("make_durable", path)
        if not self._is_synced(path):
            raise self._failure(path, "EIO at fsync")
        self._ended(call, None)

    def put(self, path: str, data: bytes) -> None:
        call = self._begin("put", path)
        cause = self._caller.cause
        for kind in (Kind.LATE, Kind.REPEATED):
            if (delay_ms := call.value(kind)) is not None:
                self._caller.later(delay_ms, lambda: self._disk.replace(path, data, cause))
        if call.has(Kind.LATE):
            raise self._failure(path, "no reply within the time")
        self._disk.replace(path, data, cause)
        if not self._is_synced(path):
            raise self._failure(path, "EIO at fsync")
        self._ended(call, None)

    def delete(self, path: str) -> None:
        call = self._begin("delete", path)
        self._disk.erase(path, self._caller.cause)
        self._ended(call, None)

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return delete_one_by_one(paths, self.delete)

    def remove_directory(self, path: str) -> bool:
        self._begin("remove_directory", path)
        return False

    def _begin(self, name: str, path: str) -> _Call:
        call = _Call(path=path, events=self._caller.call(name, path))
        if call.has(Kind.FAILS):
            raise self._failure(path, "the token has expired")
        return call

    def _ended(self, call: _Call, result: T) -> T:
        self._caller.after_call(call.events)
        if call.has(Kind.FAILS_AFTER):
            raise self._failure(call.path, "the connection was reset")
        return result

    def _is_synced(self, path: str) -> bool:
        """Sync the directory of a file; whether that succeeded. Object stores need none."""
        directory = split_path(path)[0]
        if self._local:
            call = _Call(path=path, events=self._caller.call("sync", path))
            self._sync_fails = self._sync_fails or call.has(Kind.SYNC_FAILS_ALWAYS)
            if self._sync_fails or call.has(Kind.SYNC_FAILS) or call.has(Kind.FAILS):
                return False
        self._disk.sync(directory)
        return True

    def _seen(self, call: _Call, files: Iterator[StoredFile] | Sequence[StoredFile]) -> list[StoredFile]:
        listed = list(files)
        age_ms, count = call.value(Kind.STALE), call.value(Kind.PARTIAL)
        if age_ms is not None:
            newest_ms = self._disk._clock.now_ms() - age_ms
            listed = [file for file in listed if file.modified_ms <= newest_ms]
        if (gap := call.value(Kind.GAP)) is not None and listed:
            del listed[gap % len(listed)]
        return listed if count is None else listed[:count]

    def _torn(self, call: _Call, data: bytes) -> bytes:
        share = call.value(Kind.TORN)
        return data if share is None else data[: len(data) * share // 100]

    def _failure(self, path: str, cause: str) -> StorageError:
        return StorageError(root=self.root, path=path, doing="reach", cause=cause)
