"""What the commit loop works with, its limits and its result; and the turns of the threads that commit to one table.

Without turns all threads of a process try the same version, and all but one read the winner's commit, check again and
lose again: each commit costs as much as there are writers, and a writer that is behind has more to check than the
others and falls further behind. With turns a writer checks once, over all commits that landed while it waited.

No commit depends on a turn for being right. A turn that takes too long, as that of a thread that evaluates conditions
in Spark, is taken over by the next in line, and writers on other machines take none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from anabranch.cached_property import cached_property
from anabranch.clock import Clock
from anabranch.log.commit_files import RecentCommits
from anabranch.protocol.actions import Action
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.local.durable_files import DirectoryLock
from anabranch.storage.log_store import IdentifiedStore, LogStore, is_on_local_disk
from anabranch.transactions.conflicts.conflict_context import CanMatch
from anabranch.transactions.proposed_commit import Bin
from anabranch.transactions.rows.deletion_vector_actions import Vectors
from anabranch.transactions.rows.located_rows import FindRows

TURN_SECONDS_MAX = 2.0
"""A turn may take that long before the next in line takes it over. A commit takes milliseconds, or some requests."""


class Turns(Protocol):
    """Turns of several processes."""

    def turn(self) -> AbstractContextManager[bool]:
        """A block that processes enter one after the other; whether this one had to wait."""


class Waiter:
    """A thread in the line."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.is_released = False
        """Another thread has done the work of this one, which needs no turn."""


class CommitQueue:
    """The writers of one table in this process, first come, first served. It is thread-safe.

    `processes` makes the processes of this machine take turns, too.
    """

    def __init__(self, *, processes: Turns | None = None, turn_seconds_max: float = TURN_SECONDS_MAX) -> None:
        self.recent = RecentCommits()
        self._processes = processes
        self._turn_seconds_max = turn_seconds_max
        self._lock = threading.Lock()
        self._turn = 0
        """The number of the turn that is taken, or was taken last."""
        self._is_taken = False
        self._waiting: deque[Waiter] = deque()
        self._newest_version = -1

    @property
    def newest_version(self) -> int:
        """The newest version that these writers have committed or lost to; -1 before the first.

        The log may not have it: another table may be in the folder by now.
        """
        return self._newest_version

    def note_version(self, version: int) -> None:
        """Record a version that is in the log."""
        with self._lock:
            self._newest_version = max(self._newest_version, version)

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        """A block that threads enter one after the other; whether this one had to wait for another process."""
        with self.turn_or_release(Waiter()) as has_waited:
            assert has_waited is not None, "only members of a group are released"
            yield has_waited

    @contextlib.contextmanager
    def turn_or_release(self, waiter: Waiter) -> Iterator[bool | None]:
        """As `turn`, for a thread that another one may take out of the line; None where that has happened."""
        turn = self._wait_for_turn(waiter)
        if turn is None:
            yield None
            return
        try:
            with contextlib.nullcontext(False) if self._processes is None else self._processes.turn() as has_waited:
                yield has_waited
        finally:
            self._pass_on(turn)

    def take_out(self, chooses: Callable[[Waiter], bool], *, count_max: int) -> list[Waiter]:
        """Take those that `chooses` chooses out of the line, first come first. They wait until `release` is called."""
        with self._lock:
            chosen = list(itertools.islice(filter(chooses, self._waiting), count_max))
            for waiter in chosen:
                self._waiting.remove(waiter)
            return chosen

    def release(self, waiters: Iterable[Waiter]) -> None:
        """Let these go on without a turn."""
        for waiter in waiters:
            waiter.is_released = True
            waiter.called.set()

    def _wait_for_turn(self, waiter: Waiter) -> int | None:
        """Wait, and return the number of our turn; None where we are released."""
        with self._lock:
            if not self._is_taken:
                return self._take()
            self._waiting.append(waiter)
            current = self._turn
        try:
            while not waiter.called.wait(self._turn_seconds_max):
                with self._lock:
                    is_next = bool(self._waiting) and self._waiting[0] is waiter
                    if is_next and self._turn == current:
                        self._waiting.popleft()
                        return self._take()
                    current = self._turn
        except BaseException:
            self._leave(waiter)
            raise
        if waiter.is_released:
            return None
        with self._lock:
            return self._take()

    def _take(self) -> int:
        self._is_taken = True
        self._turn += 1
        return self._turn

    def _pass_on(self, turn: int) -> None:
        with self._lock:
            if turn == self._turn:
                self._call_next()

    def _call_next(self) -> None:
        # A turn that is passed on counts as taken, so that no thread that comes later is before the next in line.
        self._is_taken = bool(self._waiting)
        if self._waiting:
            self._turn += 1
            self._waiting.popleft().called.set()

    def _leave(self, waiter: Waiter) -> None:
        """Leave the line, after an interrupt by the user."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.called.is_set() and not waiter.is_released:
                self._call_next()


_queues: weakref.WeakValueDictionary[Hashable, CommitQueue] = weakref.WeakValueDictionary()
_queues_lock = threading.Lock()


def shared_queue_of(store: LogStore) -> CommitQueue:
    """The queue of the table in `store`, for all stores that read the same files with the same rights.

    A queue keeps commits that one writer has read, and in a group one writer commits for another, so writers with
    other rights have a queue of their own.
    """
    if not isinstance(store, IdentifiedStore):
        return CommitQueue()
    with _queues_lock:
        queue = _queues.get(store.identity)
        if queue is None:
            is_local = is_on_local_disk(store)
            processes = DirectoryLock(f"{store.root.rstrip('/')}/{LOG_DIRECTORY}") if is_local else None
            queue = _queues[store.identity] = CommitQueue(processes=processes)
        return queue


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """The limits of the commit loop."""

    attempts_max: int = 10_000
    """Versions tried. Each lost attempt is a commit of another writer, so the table makes progress."""
    checks_ms_max: float = 600_000
    """Longest time of the conflict checks after a lost attempt."""
    unresolved_attempts_max: int = 12
    """Times that one version is tried while the storage does not report an outcome."""
    lost_attempt_wait_ms_max: float = 100
    """Longest pause after a lost attempt. It is short, or writers that lost most often would lose further."""
    unresolved_wait_ms_max: float = 5_000
    """Longest pause while the outcome of an attempt is unknown."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """A table's storage and everything else that the commit loop needs."""

    store: LogStore
    clock: Clock
    random: random.Random
    can_match: CanMatch
    engine_info: str
    vectors: Callable[[], Vectors]
    queue: CommitQueue
    bounds: RetryLimits = RetryLimits()
    find_rows: FindRows | None = None

    def wait_after_lost_attempt(self, attempt: int) -> None:
        """Wait for a random time, so that concurrent writers do not collide again."""
        self._wait(attempt, limit_ms=self.bounds.lost_attempt_wait_ms_max)

    def wait_while_unresolved(self, attempt: int) -> None:
        """Give a failing storage time to recover."""
        self._wait(attempt + 5, limit_ms=self.bounds.unresolved_wait_ms_max)

    def _wait(self, attempt: int, *, limit_ms: float) -> None:
        ceiling_ms = min(limit_ms, 2.0 ** min(attempt, 20))
        self.clock.sleep_ms(self.random.uniform(0, ceiling_ms))


# A commit of ours that is in the log.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CommittedVersion:
    """A commit, with its version and the commits that landed first."""

    version: int
    timestamp_ms: int
    """The in-commit timestamp where the table has them, else our clock at the attempt."""
    txn_id: str
    attempts: int
    """Versions tried; 1 where no other commit landed first."""
    reconciled: tuple[int, ...]
    """Versions that were committed between the one read and this one."""
    dropped_bins: tuple[Bin, ...] = ()
    """For a commit that changes no row: the bins that winners made impossible. Another commit may rewrite them."""
    is_shared: bool = False
    """Whether it is the commit of another statement, too, which does what follows a commit."""
    is_part: bool = False
    """Whether it is only the result of one statement of a larger transaction, and in no log."""
    actions: tuple[Action, ...] = dataclasses.field(repr=False)
    """The actions as they are in the log."""
    load: Callable[[int], Snapshot] = dataclasses.field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as of this version, read on first access."""
        return self.load(self.version)
