"""Threads of one process that commit to one table: turns, and commits that are read once for all of them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyroaring import BitMap64

from anabranch.errors.commits import ConcurrentAppendException
from anabranch.log import commit_files
from anabranch.log.commit_files import RecentCommits
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.object.object_store import ObjectStore
from anabranch.transactions.commit import commit_context
from anabranch.transactions.commit.commit_context import CommitQueue, shared_queue_of
from anabranch.transactions.conflicts.traced_files import NewRows
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from storage.faults import FaultyStore
from transactions.log_linter import lint
from transactions.table_on_memory import (
    TestClock,
    Writer,
    add,
    created,
    features,
    id_is,
    metadata,
    rival_of,
    with_properties,
)


class CountingStore(FaultyStore):
    """Counts listings and reads of the log."""

    listings = reads = 0

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        self.listings += 1
        return super().list_from(directory, start_after)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self.reads += 1
        return super().read(path, size_max=size_max)


def sessions(store: FaultyStore, count: int) -> list[DeltaLog]:
    """Sessions of one process: an object for the table each, and one queue."""
    queue, clock = CommitQueue(), TestClock()
    return [DeltaLog(store, clock, random.Random(seed), queue=queue) for seed in range(10, 10 + count)]


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_turns_are_taken_in_the_order_of_arrival() -> None:
    queue, order, threads = CommitQueue(turn_seconds_max=60), list[int](), list[threading.Thread]()

    def work(number: int) -> None:
        with queue.turn():
            order.append(number)

    with queue.turn():
        for number in range(20):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            wait_until(lambda: len(queue._waiting) == len(threads))
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == list(range(20))


def test_one_thread_at_a_time_has_the_turn() -> None:
    queue, inside, most = CommitQueue(turn_seconds_max=60), list[int](), list[int]()

    def work() -> None:
        for _ in range(50):
            with queue.turn():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 400


def test_a_turn_that_takes_too_long_is_taken_over() -> None:
    """The thread that lost its turn ends it later, which must not let in two threads at once."""
    queue, order = CommitQueue(turn_seconds_max=0.05), list[str]()
    second_is_in, second_may_go = threading.Event(), threading.Event()

    def second() -> None:
        with queue.turn():
            order.append("second")
            second_is_in.set()
            second_may_go.wait(10)

    def third() -> None:
        with queue.turn():
            order.append("third")

    with queue.turn():
        threads = [threading.Thread(target=second)]
        threads[0].start()
        assert second_is_in.wait(10)
        queue._turn_seconds_max = 60
        threads.append(threading.Thread(target=third))
        threads[1].start()
        wait_until(lambda: len(queue._waiting) == 1)
    assert order == ["second"], "the end of a turn that was taken over lets no other thread in"
    second_may_go.set()
    for thread in threads:
        thread.join(10)
    assert order == ["second", "third"]


def test_an_interrupt_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = CommitQueue(turn_seconds_max=60)

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    with queue.turn():
        with monkeypatch.context() as patched:
            patched.setattr(commit_context.threading, "Event", Interrupted)
            with pytest.raises(KeyboardInterrupt), queue.turn():
                pass
        assert not queue._waiting
    with queue.turn():
        pass


def test_commits_of_several_sessions_take_one_put_each_and_are_read_once() -> None:
    first = created(add("a"))
    store = CountingStore(first.store, only=lambda path: path.endswith(".json"))
    tables = sessions(store, 8)
    late = [table.begin(Operation(name="WRITE")) for table in tables]
    store.reads = store.listings = 0
    for number, transaction in enumerate(late):
        assert transaction.commit([add(f"f{number}")]).attempts == 1

    assert len(store.put_log) == 8, "no session tries a version that another one has"
    assert store.reads == 8, "each commit is read once"
    assert store.listings == 8 + 7, "one after each commit, and one for all winners of each but the first"
    assert [table.snapshots.latest().files.count for table in tables] == [9] * 8
    assert store.reads == 8
    assert lint(first.store) == []


def test_sessions_commit_to_a_log_that_does_not_have_what_the_queue_has_seen() -> None:
    """The newest version that writers have seen is of another storage with the same root."""
    queue = CommitQueue()
    queue.note_version(100)
    first = created()
    table = DeltaLog(first.store, first.clock, random.Random(9), queue=queue)
    assert table.begin(Operation(name="WRITE")).commit([add("a")]).version == 1


def paths_after_replacement() -> list[str]:
    """What a session reads of a table that was dropped and created again, with a log of the same size."""
    clock = TestClock()
    store = MemoryStore(clock=clock)
    created(store=store)
    old, new = sessions(FaultyStore(store), 2)
    old.begin(Operation(name="WRITE")).commit([add("a")])
    old.snapshots.latest()
    first, second = (store.read(commit_path(version)) for version in range(2))
    for file in list(store.list_from("_delta_log")):
        store.delete(file.path)
    clock.sleep_ms(1)
    store.put_if_absent(commit_path(0), first)
    new.snapshots.latest()
    store.put_if_absent(commit_path(1), second.replace(b'"path":"a"', b'"path":"b"'))
    return [str(path) for path in new.snapshots.latest().files.columns("path")["path"].to_pylist()]


def test_a_table_that_was_created_again_is_read_again() -> None:
    assert paths_after_replacement() == ["b"]


def test_commits_that_are_kept_by_name_alone_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a commit of the dropped table is taken for that of the new one."""

    class ByName(RecentCommits):
        def get(self, file: StoredFile) -> Any:
            return next((commit for kept, commit in self._commits.items() if kept.path == file.path), None)

    monkeypatch.setattr(commit_context, "RecentCommits", ByName)
    assert paths_after_replacement() == ["a"]


def test_few_and_small_commits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_files, "COMMITS_MAX", 3)
    monkeypatch.setattr(commit_files, "COMMIT_BYTES_MAX", 2_000)
    first = created()
    store = CountingStore(first.store)
    (table,) = sessions(store, 1)
    table.snapshots.latest()
    for number in range(5):
        first.append(add(f"f{number}"))
    first.append(*(add(f"large{number}") for number in range(20)))
    store.reads = 0
    recent = RecentCommits()
    assert [commit.version for commit in recent.read_commits(store, after=0)] == [1, 2, 3, 4, 5, 6]
    assert store.reads == 6
    assert [len(commit.actions) for commit in recent.read_commits(store, after=3)] == [2, 2, 21]
    assert store.reads == 7, "the large commit is read again"
    assert recent._size_bytes == sum(file.size_bytes for file in recent._commits)
    recent.read_commits(store, after=0)
    assert store.reads == 10, "three are kept"


# Conditions are evaluated once for the rows of a winner, however often an attempt is lost.


def lost_twice(second_winner: Any) -> tuple[Writer, Any, list[list[str]]]:
    """A writer that loses two attempts, the second time to `second_winner`; with the files that it evaluates."""
    vectors = with_properties(metadata(), isolationLevel="Serializable")
    first = created(add("a"), protocol=features("deletionVectors"), described=vectors)
    rival = rival_of(first)
    winners = [lambda: rival.append(add("w1", ids=(0, 9), vector="v", hidden=1)), lambda: second_winner(rival)]
    store = FaultyStore(first.store, before_put=lambda _: winners.pop(0)() if winners else None, only=is_commit)
    ours = rival_of(first, seed=3, store=store).begin("DELETE")
    evaluated: list[list[str]] = []

    def evaluate(rows: Sequence[RowsOfFile]) -> list[BitMap64]:
        evaluated.append([some.file.path for some in rows])
        hidden = [some.file.deletion_vector is not None for some in rows]
        return [BitMap64() if is_hidden else BitMap64([5]) for is_hidden in hidden]

    ours.record_scan(id_is(5), files=[], rows={}, reevaluate=evaluate)
    return first, ours, evaluated


def is_commit(path: str) -> bool:
    return path.endswith(".json")


def test_rows_of_a_winner_are_evaluated_once() -> None:
    first, ours, evaluated = lost_twice(lambda rival: rival.append(add("w2", vector="w", hidden=1)))
    assert ours.commit([add("ours")]).attempts == 3
    assert evaluated == [["w1"], ["w2"]]
    assert lint(first.store) == []


def test_rows_that_come_after_an_attempt_are_found() -> None:
    _, ours, evaluated = lost_twice(lambda rival: rival.append(add("w2")))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([add("ours")])
    assert evaluated == [["w1"], ["w2"]]


def test_rows_of_one_file_that_count_as_the_same_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: after the first attempt every new row counts as one that was evaluated."""
    monkeypatch.setattr(NewRows, "identity", property(lambda self: ("any",)))
    _, ours, evaluated = lost_twice(lambda rival: rival.append(add("w2")))
    ours.commit([add("ours")])
    assert evaluated == [["w1"]]


def test_writers_with_other_rights_are_in_another_queue() -> None:
    """One of them might not read what another has read, or not write what is to be committed for it."""

    def store(key: str) -> ObjectStore:
        options = ObjectStoreOptions(service="s3", bucket="b", endpoint="S3", config={}, credentials={"key": key})
        return ObjectStore("s3a://b/t", prefix="t", options=options)

    queue = shared_queue_of(store("one"))
    assert shared_queue_of(store("one")) is queue
    assert shared_queue_of(store("another")) is not queue
    unknown = MemoryStore()
    assert shared_queue_of(unknown) is not shared_queue_of(unknown)
