"""Work after the put of a commit never makes it fail, on any storage.

Covers bugs B58 and B59, and faults F16 and F42.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch.clock import SystemClock
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import CommitFateUnknownError, LogMovedOnError
from anabranch.errors.environment import StorageError
from anabranch.log.cleanup import DAY_MS
from anabranch.protocol.actions import Action, SetTransaction
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore, PutOutcome, StoredFile
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.commit_context import RetryLimits
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from storage.faults import FaultyStore
from transactions.table_on_memory import PLAIN, TestClock, add, metadata, with_properties

CALLS = (
    "head",
    "read",
    "read_range",
    "open",
    "list_from",
    "list_tree",
    "put_if_absent",
    "put",
    "delete",
    "make_durable",
)
PATIENCE = RetryLimits(unresolved_attempts_max=3, unresolved_wait_ms_max=0)


class FaultBehindPut(FaultyStore):
    """Fails the call numbered `number` behind the put of version 1, and with `stays` every one after it.

    `meanwhile` runs right before that put, `asleep` right behind it.
    """

    def __init__(
        self,
        inner: LogStore,
        number: int,
        *,
        fault: Callable[[], BaseException],
        stays: bool,
        meanwhile: Callable[[], object] = lambda: None,
        asleep: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(inner)
        self._number, self._fault, self._stays = number, fault, stays
        self._meanwhile, self._asleep = meanwhile, asleep
        self.has_put = False
        self.calls = 0

    def _count(self) -> None:
        if not self.has_put:
            return
        self.calls += 1
        if self.calls == self._number or (self._stays and self.calls > self._number > 0):
            raise self._fault()

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS:
            self._count()
        return super().__getattribute__(name)

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        return iter(list(self.inner.list_from(directory, start_after)))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if path != commit_path(1) or self.has_put:
            return self.inner.put_if_absent(path, data)
        self._meanwhile()
        outcome = self.inner.put_if_absent(path, data)
        self.has_put = True
        self._asleep()
        return outcome


def table_on(store: LogStore, clock: Any, *, seed: int) -> DeltaLog:
    return DeltaLog(store, clock, random.Random(seed), bounds=PATIENCE)


def commit(table: DeltaLog, *actions: Action) -> int:
    return table.begin(Operation(name="WRITE")).commit(actions).version


def paths_in(store: LogStore, clock: Any) -> list[str]:
    files = table_on(store, clock, seed=99).snapshots.latest().files
    return sorted(files.columns("path")["path"].to_pylist())


def no_answer() -> StorageError:
    return StorageError(root="x", path="y", doing="look", cause="the token has expired")


def too_many_files() -> OSError:
    return OSError(24, "too many open files")


FAULTS = [(no_answer, False), (no_answer, True), (too_many_files, True), (KeyboardInterrupt, False)]


@pytest.mark.parametrize(("fault", "stays"), FAULTS, ids=["once", "from then on", "no files", "interrupt"])
@pytest.mark.parametrize(
    "stalls", [False, pytest.param(True, marks=pytest.mark.long)], ids=["promptly", "after a stall"]
)
def test_a_fault_in_any_call_behind_the_put(
    store: LogStore, fault: Callable[[], BaseException], *, stays: bool, stalls: bool
) -> None:
    """The commit is acknowledged, or its outcome is unknown. Readers read exactly what is acknowledged."""
    is_fast = isinstance(store, MemoryStore | LocalStore)
    if stalls and stays and not is_fast:
        pytest.skip("walked on other storages")
    clock = TestClock(SystemClock().now_ms())
    described = with_properties(metadata(), checkpointInterval="3")
    commit(table_on(store, clock, seed=1), PLAIN, described, add("f"))
    number, calls = 0, 0
    while number <= calls:
        _without_versions_after_0(store)

        def sleep() -> None:
            if stalls:
                clock.time_ms += 20_000
                others = table_on(store, clock, seed=3)
                for name in "xyz":
                    commit(others, add(name))

        faulty = FaultBehindPut(store, number, fault=fault, stays=stays, asleep=sleep)
        acknowledged = True
        try:
            assert commit(table_on(faulty, clock, seed=2), add("ours")) == 1
        except (CommitFateUnknownError, KeyboardInterrupt) as error:
            acknowledged = False
            assert isinstance(error, KeyboardInterrupt) or stalls, "a put that returns at once has a known outcome"
            assert isinstance(error, CommitFateUnknownError) or fault is KeyboardInterrupt
            if isinstance(error, KeyboardInterrupt):
                assert any("already committed" in note for note in error.__notes__)
        assert faulty.has_put
        assert acknowledged or number > 0
        if acknowledged:
            assert "ours" in paths_in(store, clock)
        if number == 0:
            # The first are the look behind the put and the version's files; the rest is upkeep, and alike everywhere.
            calls = faulty.calls if is_fast else min(faulty.calls, 6)
        number += 1
    assert calls >= 3, "the walk has met a look, a snapshot and a checksum"


def _without_versions_after_0(store: LogStore) -> None:
    for file in list(store.list_from("_delta_log")):
        if not file.path.startswith(commit_path(0)[:-5]):
            store.delete(file.path)


@pytest.mark.parametrize("own", [(add("ours"),), (SetTransaction(app_id="x", version=1),)], ids=["rows", "no rows"])
def test_a_put_below_a_checkpoint_is_not_acknowledged(own: tuple[Action, ...]) -> None:
    """We stall before the put. Others commit, write checkpoints, and the log below them is cleaned up."""
    clock = TestClock()
    inner = MemoryStore(clock=clock)
    described = with_properties(metadata(), checkpointInterval="2")
    commit(table_on(inner, clock, seed=1), PLAIN, described, add("f"))

    def others() -> None:
        rival = table_on(inner, clock, seed=3)
        for number in range(6):
            commit(rival, add(f"w{number}"))
            clock.time_ms += 20 * DAY_MS
        assert inner.head(commit_path(1)) is None, "cleaned up"

    faulty = FaultBehindPut(inner, 0, fault=no_answer, stays=False, meanwhile=others)
    with pytest.raises(LogMovedOnError, match="cleaned up"):
        commit(table_on(faulty, clock, seed=2), *own)
    assert inner.head(commit_path(1)) is None, "ours is taken back"
    assert paths_in(inner, clock) == ["f", *(f"w{number}" for number in range(6))]


def test_a_creation_below_a_checkpoint_is_not_acknowledged() -> None:
    clock = TestClock()
    inner = MemoryStore(clock=clock)
    described = with_properties(metadata(), checkpointInterval="2")

    class Stalls(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            if path == commit_path(0):
                rival = table_on(inner, clock, seed=3)
                commit(rival, PLAIN, described, add("f"))
                for number in range(6):
                    clock.time_ms += 20 * DAY_MS
                    commit(rival, add(f"w{number}"))
            return super().put_if_absent(path, data)

    with pytest.raises(LogMovedOnError):
        commit(table_on(Stalls(inner), clock, seed=2), PLAIN, metadata(), add("ours"))
    assert inner.head(commit_path(0)) is None
    assert len(paths_in(inner, clock)) == 7


def test_a_stalled_put_that_others_have_built_upon_is_acknowledged() -> None:
    """Also with a checkpoint above it, of which it is a part, and after the log below that is cleaned up."""
    clock = TestClock()
    inner = MemoryStore(clock=clock)
    commit(table_on(inner, clock, seed=1), PLAIN, with_properties(metadata(), checkpointInterval="2"), add("f"))

    def others() -> None:
        rival = table_on(inner, clock, seed=3)
        for number in range(3):
            clock.time_ms += 20 * DAY_MS
            commit(rival, add(f"w{number}"))

    faulty = FaultBehindPut(inner, 0, fault=no_answer, stays=False, asleep=others)
    try:
        assert commit(table_on(faulty, clock, seed=2), add("ours")) == 1
    except DeltaError as error:
        assert isinstance(error, CommitFateUnknownError)
        assert inner.head(commit_path(1)) is None, "no file shows the outcome"
    assert "ours" in paths_in(inner, clock)


class LyingStore(FaultyStore):
    """Acknowledges the commit of version 1 and does not store it."""

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        return PutOutcome.CREATED if path == commit_path(1) else super().put_if_absent(path, data)


def test_a_commit_that_is_acknowledged_and_not_stored_is_told(store: LogStore) -> None:
    """Covers fault F15: no later statement would tell of it, and readers have the version before."""
    clock = TestClock(SystemClock().now_ms())
    commit(table_on(store, clock, seed=1), PLAIN, metadata(), add("f"))
    with pytest.raises(CommitFateUnknownError, match="acknowledged the file of the commit, which is not there"):
        commit(table_on(LyingStore(store), clock, seed=2), add("ours"))
    assert paths_in(store, clock) == ["f"]
    assert commit(table_on(store, clock, seed=3), add("ours")) == 1


def test_a_commit_whose_version_another_writer_has_is_told(store: LogStore) -> None:
    """Covers fault F15: the storage acknowledges it, and the log has that version."""
    clock = TestClock(SystemClock().now_ms())
    commit(table_on(store, clock, seed=1), PLAIN, metadata(), add("f"))
    behind = table_on(LyingStore(store), clock, seed=2).begin(Operation(name="WRITE"))
    commit(table_on(store, clock, seed=3), add("theirs"))
    with pytest.raises(CommitFateUnknownError, match="acknowledged the file of the commit, which is another writer's"):
        behind.commit([add("ours")])
    assert paths_in(store, clock) == ["f", "theirs"]
