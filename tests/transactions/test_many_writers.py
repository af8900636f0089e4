"""Writers that really run at once."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import threading
from pathlib import Path

import pytest

from anabranch.clock import SystemClock
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.log.commit_files import read_commits
from anabranch.protocol.actions import AddFile
from anabranch.storage.local.durable_files import DirectoryLock
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.commit_context import CommitQueue
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from transactions.log_linter import lint
from transactions.table_on_memory import PLAIN, add, id_is, metadata, remove

WRITERS, COMMITS = 16, 50


def create(store: LogStore) -> DeltaLog:
    table = DeltaLog(store, SystemClock(), random.SystemRandom())
    table.begin(Operation(name="CREATE TABLE")).commit([PLAIN, metadata()])
    return table


def append_many(table: DeltaLog, name: str, commits: int) -> list[int]:
    committed = []
    for number in range(commits):
        file = add(f"{name}-{number}", ids=(number, number), rows=1)
        committed.append(table.begin(Operation(name="WRITE")).commit([file]).version)
    return committed


@pytest.mark.long
@pytest.mark.parametrize(
    ("shared", "commits"), [(True, COMMITS), (False, 10)], ids=["one table object", "a table object each"]
)
def test_threads_append(shared: bool, commits: int) -> None:
    """Covers fault F62: 800 commits, no gap, each exactly once."""
    store = MemoryStore()
    table = create(store)
    committed: list[int] = []

    def work(name: str) -> None:
        mine = table if shared else DeltaLog(store, SystemClock(), random.SystemRandom())
        committed.extend(append_many(mine, name, commits))

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(committed) == list(range(1, WRITERS * commits + 1))
    snapshot = table.snapshots.latest()
    assert snapshot.version == WRITERS * commits
    paths = snapshot.files.columns("path")["path"].to_pylist()
    assert sorted(paths) == sorted(f"t{writer}-{number}" for writer in range(WRITERS) for number in range(commits))
    assert lint(store) == []


def test_threads_move_one_counter() -> None:
    """A file is a counter, which each thread increments by rewriting it. The sum is the number of successes."""
    store = MemoryStore()
    table = create(store)
    table.begin(Operation(name="WRITE")).commit([add("count-0", ids=(0, 0), rows=1)])
    successes, conflicts = [], []

    def work() -> None:
        for _ in range(25):
            transaction = table.begin(Operation(name="UPDATE"))
            assert transaction.snapshot is not None
            [old] = transaction.snapshot.files.to_actions()
            count = int(old.path.removeprefix("count-"))
            transaction.record_scan(id_is(0), files=[old.key])
            new = add(f"count-{count + 1}", ids=(0, 0), rows=1)
            try:
                successes.append(transaction.commit([remove(old), new]).version)
            except DeltaConcurrentModificationException as conflict:
                conflicts.append(conflict)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    [last] = table.snapshots.latest().files.to_actions()
    assert len(successes) + len(conflicts) == 200
    assert last.path == f"count-{len(successes)}"
    assert lint(store) == []


def _append_in_process(root: str, name: str, commits: int) -> None:
    append_many(DeltaLog(LocalStore(root), SystemClock(), random.SystemRandom()), name, commits)


def _append_in_turn(root: str, name: str, commits: int) -> None:
    queue = CommitQueue(processes=DirectoryLock(f"{root}/_delta_log", wait_seconds_max=60))
    append_many(DeltaLog(LocalStore(root), SystemClock(), random.SystemRandom(), queue=queue), name, commits)


@pytest.mark.long
def test_no_process_waits_long_for_its_turn(tmp_path: Path) -> None:
    """Between two commits of a process there are a few of each other one."""
    root = str(tmp_path / "t")
    table = create(LocalStore(root))
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_append_in_turn, args=(root, f"p{number}", 30)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)

    assert [process.exitcode for process in processes] == [0] * 4
    versions: dict[str, list[int]] = {}
    for commit in read_commits(LocalStore(root), after=0):
        [path] = [action.path for action in commit.actions if isinstance(action, AddFile)]
        versions.setdefault(path.partition("-")[0], []).append(commit.version)
    assert sum(map(len, versions.values())) == 120
    gaps = [later - earlier for mine in versions.values() for earlier, later in itertools.pairwise(mine)]
    assert max(gaps) <= 16
    assert table.snapshots.latest().files.count == 120
    assert lint(LocalStore(root)) == []


@pytest.mark.long
def test_processes_append(tmp_path: Path) -> None:
    """Four processes on a local disk, 50 commits each."""
    root = str(tmp_path / "t")
    table = create(LocalStore(root))
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_append_in_process, args=(root, f"p{number}", COMMITS)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)

    assert [process.exitcode for process in processes] == [0] * 4
    snapshot = table.snapshots.latest()
    assert snapshot.version == 4 * COMMITS
    assert snapshot.files.count == 4 * COMMITS
    assert lint(LocalStore(root)) == []
