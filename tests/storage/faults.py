"""A storage that fails as planned."""

from __future__ import annotations

import collections
import enum
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from anabranch.errors.environment import StorageError
from anabranch.storage.file_tree import Deletion, Enters
from anabranch.storage.log_store import LogStore, PutOutcome, StoredFile


class PutFault(enum.Enum):
    """What happens to one conditional put."""

    NONE = "none"
    REPLY_LOST = "reply lost"
    """Made, answered UNKNOWN."""
    REQUEST_LOST = "request lost"
    """Not made, answered UNKNOWN."""
    RETRIED_INSIDE = "retried inside"
    """Made by a first attempt that the client retried: answered EXISTS for our own file."""
    DELAYED = "delayed"
    """The put returns UNKNOWN and creates the file, if its name is still free, when the test calls `land_delayed`."""
    REFUSED = "refused"
    """Surely not made: raises StorageError."""
    CRASH_BEFORE = "crash before"
    """The writer dies before the put."""
    CRASH_AFTER = "crash after"
    """The writer dies after the file was created, before the put returns."""


class WriterDied(BaseException):
    """Simulates SIGKILL: no handler of ours may catch it."""


class FaultyStore:
    """`inner` with a plan: one entry for each conditional put, in the order they come; then no faults.

    `before_put` runs before each conditional put, with its path: there a test commits first.
    """

    def __init__(
        self,
        inner: LogStore,
        puts: Iterable[PutFault] = (),
        *,
        before_put: Callable[[str], None] | None = None,
        only: Callable[[str], bool] = lambda path: True,
    ) -> None:
        self.inner = inner
        self.put_log: list[str] = []
        self._plan = collections.deque(puts)
        self._before_put = before_put
        self._only = only
        self._delayed: list[tuple[str, bytes]] = []
        self._frozen: dict[str, list[StoredFile]] | None = None
        self._frozen_uses = 0
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        return self.inner.root

    def land_delayed(self) -> list[PutOutcome]:
        """The storage finishes the puts that were held up."""
        waiting, self._delayed = self._delayed, []
        return [self.inner.put_if_absent(path, data) for path, data in waiting]

    def freeze_listings(self, *directories: str, times: int) -> None:
        """The next `times` listings show these directories as they are now."""
        self._frozen = {directory: list(self.inner.list_from(directory)) for directory in directories}
        self._frozen_uses = times

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        with self._lock:
            if self._frozen is not None and directory in self._frozen and self._frozen_uses > 0:
                self._frozen_uses -= 1
                floor = start_after.encode()
                return iter([f for f in self._frozen[directory] if f.path.rpartition("/")[2].encode() > floor])
        return self.inner.list_from(directory, start_after)

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        return self.inner.list_tree(directory)

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        return self.inner.walk(enters)

    def head(self, path: str) -> StoredFile | None:
        return self.inner.head(path)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return self.inner.read(path, size_max=size_max)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.inner.read_range(path, offset, length)

    def open(self, path: str) -> pa.NativeFile:
        return self.inner.open(path)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if not self._only(path):
            return self.inner.put_if_absent(path, data)
        if self._before_put is not None:
            self._before_put(path)
        with self._lock:
            self.put_log.append(path)
            fault = self._plan.popleft() if self._plan else PutFault.NONE
        return self._put_with(fault, path, data)

    def _put_with(self, fault: PutFault, path: str, data: bytes) -> PutOutcome:
        match fault:
            case PutFault.NONE:
                return self.inner.put_if_absent(path, data)
            case PutFault.REPLY_LOST:
                self.inner.put_if_absent(path, data)
                return PutOutcome.UNKNOWN
            case PutFault.REQUEST_LOST:
                return PutOutcome.UNKNOWN
            case PutFault.RETRIED_INSIDE:
                self.inner.put_if_absent(path, data)
                return PutOutcome.EXISTS
            case PutFault.DELAYED:
                self._delayed.append((path, data))
                return PutOutcome.UNKNOWN
            case PutFault.REFUSED:
                raise StorageError(root=self.root, path=path, doing="write", cause="no space left on device")
            case PutFault.CRASH_BEFORE:
                raise WriterDied
            case PutFault.CRASH_AFTER:
                self.inner.put_if_absent(path, data)
                raise WriterDied

    def make_durable(self, path: str) -> None:
        self.inner.make_durable(path)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(path, data)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return self.inner.delete_many(paths)

    def remove_directory(self, path: str) -> bool:
        return self.inner.remove_directory(path)
