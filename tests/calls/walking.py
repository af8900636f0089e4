"""One operation with one fault at one of its calls, and what the judges say of it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import CommitFateUnknownError
from anabranch.log import commit_files
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.rows import deletion_vector_actions
from calls.faults import Fault
from calls.operations import Held, Operation, Work, WrongRows
from calls.tables import FirstState, process_on
from concurrency.executor import begin
from concurrency.statements import Statement
from simulation.scheduling import InlinePool
from simulation.simulated_table import SimulatedTable
from storage.faults import WriterDied
from transactions.log_linter import COMMIT, ReplayedLog, judge_commit, lint

Storage = Any
"""A `LocalDisk` or an `S3Server`."""


@dataclasses.dataclass(kw_only=True)
class Tally:
    """What many runs came to."""

    operations: set[str] = dataclasses.field(default_factory=set)
    calls: Counter[str] = dataclasses.field(default_factory=Counter)
    """The calls of the operations, by name."""
    faults: Counter[str] = dataclasses.field(default_factory=Counter)
    results: Counter[str] = dataclasses.field(default_factory=Counter)
    complaints: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.operations)} operations, {self.calls.total()} calls, {self.faults.total()} faults, "
            f"{len(self.complaints)} complaints; results {dict(self.results)}; faults {dict(self.faults)}; "
            f"calls {dict(self.calls)}"
        )


@dataclasses.dataclass(kw_only=True)
class Run:
    """One run of an operation."""

    table: SimulatedTable
    result: str = ""
    version: int | None = None
    error: BaseException | None = None
    rival_landed: bool = False


@contextlib.contextmanager
def in_one_thread() -> Iterator[None]:
    """Calls have numbers, so pools of threads work inline; deletion vectors are files; what is logged is lost."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("concurrent.futures.ThreadPoolExecutor", InlinePool))
        for name, module in list(sys.modules.items()):
            if name.startswith("anabranch.") and hasattr(module, "ThreadPoolExecutor"):
                stack.enter_context(mock.patch.object(module, "ThreadPoolExecutor", InlinePool))
        stack.enter_context(mock.patch.object(commit_files, "PIECE_BYTES", 1_500))
        stack.enter_context(mock.patch.object(deletion_vector_actions, "INLINE_BYTES_MAX", 0))
        logger = logging.getLogger("anabranch")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        stack.callback(logger.setLevel, level)
        yield


def walk(storage: Storage, operation: Operation, tally: Tally, *, chosen: Callable[[], bool] = lambda: True) -> None:
    """Run the operation once for each of its calls and each way in which that may fail, as far as `chosen` is true."""
    with in_one_thread(), storage.in_force():
        first = operation.first_state()
        names = Trial(storage, operation, first, -1, None).run(tally)
        tally.operations.add(operation.name)
        tally.calls.update(names)
        for number, name in enumerate(names):
            for fault in storage.faults:
                if name in fault.calls and chosen():
                    tally.faults[fault.name] += 1
                    Trial(storage, operation, first, number, fault).run(tally)


class Trial:
    """One operation, of which one call fails."""

    def __init__(
        self, storage: Storage, operation: Operation, first: FirstState, number: int, fault: Fault | None
    ) -> None:
        self.storage, self.operation, self.first = storage, operation, first
        self.number, self.fault = number, fault
        self.rows = first.rows.copy()
        self.problems: list[str] = []

    def run(self, tally: Tally) -> list[str]:
        """Run it, judge it, and repeat it. Returns the calls that it made."""
        storage, calls = self.storage, self.storage.calls
        storage.fill(self.first)
        calls.begin(self.number, self.fault)
        run = self._attempt(seed=1, counted=True)
        names = list(calls.names)
        calls.begin(-1, None)
        storage.settle()
        tally.results[run.result] += 1
        if self.fault is not None and self.fault.lies:
            self._judge_reads(run)
        else:
            self._judge(run)
        where = f"call {self.number}, {names[self.number] if 0 <= self.number < len(names) else ''}: {self.fault}"
        error = f" ({type(run.error).__name__}: {str(run.error)[:200]})" if run.error else ""
        what = f"{self.operation.name}, {where}; {run.result}{error}"
        tally.complaints += [f"{what}: {problem}" for problem in self.problems]
        return names

    def _attempt(self, *, seed: int, counted: bool) -> Run:
        calls = self.storage.calls
        store = self.storage.store() if counted else self.storage.store_of_others()
        table = process_on(store, self.rows, self.operation.manner, seed=seed)
        run = Run(table=table)

        def rival(statement: Statement) -> None:
            with calls.counted(active=False):
                other = process_on(self.storage.store_of_others(), self.rows, self.operation.manner, seed=seed + 100)
                begin(other, statement).commit()
                run.rival_landed = True

        with calls.counted(active=counted):
            try:
                run.version = self.operation.run(Work(table=table, first=self.first, rival=rival))
                run.result = "done" if run.version is None else "committed"
            except WriterDied:
                run.result = "killed"
            except CommitFateUnknownError as error:
                run.result, run.error, run.version = "unknown", error, error.version
            except DeltaError as error:
                run.result, run.error = "refused", error
            except WrongRows as error:
                run.result, run.error = "wrong rows", error
                self.problems.append(str(error))
            except Exception as error:
                run.result, run.error = "crash", error
                self.problems.append(f"it ends with {type(error).__name__}: {error}")
        if self.fault is not None and self.fault.kills and counted:
            run.result = "killed"
        return run

    # What must hold after a fault that the storage has not concealed.

    def _judge(self, run: Run) -> None:
        held, versions = self._readable()
        landed = versions - self._first_versions() - run.rival_landed
        self._judge_result(run, landed)
        before = self.first.shown
        expected = [before, self.operation.after_rival(before)] if not landed else []
        if landed or self.operation.commits_max > 1:
            expected.append(self.operation.effect(self.operation.after_rival(before), self.first))
        if held not in expected and not self.problems:
            self.problems.append(f"the rows are {dict(held)}, not one of {[dict(rows) for rows in expected]}")
        if not self.problems:
            self._repeat(held, has_landed=landed > 0)

    def _judge_result(self, run: Run, landed: int) -> None:
        if landed > self.operation.commits_max or landed < 0:
            self.problems.append(f"{landed} versions of it are in the log")
        if self.fault is None and run.result not in ("committed", "done"):
            self.problems.append("it fails without a fault")
        if run.result == "committed" and landed != 1:
            self.problems.append(f"version {run.version} was acknowledged, and {landed} are in the log")
        if run.result == "refused" and landed and self.operation.commits_max == 1:
            self.problems.append("it failed, and is in the log")

    def _repeat(self, held: Held, *, has_landed: bool) -> None:
        """Another process does the same again, and no call fails."""
        run = self._attempt(seed=2, counted=False)
        again, _ = self._readable()
        if self.operation.begins_without is not None and has_landed:
            if run.result not in ("refused",) or again != held:
                self.problems.append(f"a repetition of what has landed is {run.result}")
            return
        if run.result not in ("committed", "done"):
            self.problems.append(f"a repetition is {run.result}: {type(run.error).__name__}: {run.error}")
            return
        once = self.operation.name.startswith("a stream's batch") and has_landed
        expected = held if once else self.operation.effect(self.operation.after_rival(held), self.first)
        if again != expected:
            self.problems.append(f"after a repetition the rows are {dict(again)}, not {dict(expected)}")

    def _readable(self) -> tuple[Held, int]:
        """The rows of the newest version and how many versions there are. Complains of what is wrong with the files."""
        contents = self.storage.contents()
        store, archive = MemoryStore(), MemoryStore()
        for path, (data, _) in self.first.files.items():
            archive.put(path, data)
        for path, data in contents.items():
            store.put(path, data)
            archive.put(path, data)
        versions = sum(COMMIT.fullmatch(file.path) is not None for file in archive.list_from("_delta_log"))
        if not versions:
            return Counter(), 0
        self.problems += lint(archive)
        try:
            table = process_on(store, self.rows, self.operation.manner)
            snapshot = table.table.snapshots.latest()
            if snapshot.version != versions - 1:
                self.problems.append(f"readers have version {snapshot.version} of {versions}")
            replayed = _replayed(archive, versions)
            live = table.version(snapshot)
            if {add.key for add in live.adds} != set(replayed.live):
                self.problems.append(f"readers have {[add.key for add in live.adds]}, the log {list(replayed.live)}")
            lacking = [add.path for add in live.adds if ":" not in add.path and store.head(add.path) is None]
            self.problems += [f"{path} is gone" for path in lacking]
            return Counter(table.rows(snapshot)), versions
        except DeltaError as error:
            self.problems.append(f"no reader can read the table: {type(error).__name__}: {error}")
            return Counter(), versions

    def _first_versions(self) -> int:
        return sum(COMMIT.fullmatch(path) is not None for path in self.first.files)

    # What must hold after the storage has acknowledged what it has not done.

    def _judge_reads(self, run: Run) -> None:
        """Who reads next has an error, or the rows that were acknowledged."""
        before = self.first.shown
        rivals = self.operation.after_rival(before)
        after = self.operation.effect(rivals, self.first)
        may_be = [after] if run.result in ("committed", "done") else [before, rivals, after]
        fresh = process_on(self.storage.store_of_others(), self.rows, self.operation.manner, seed=3)
        readers = [("its own process", run.table), ("another process", fresh)]
        seen = [(name, self._read(table)) for name, table in readers]
        wrong = [f"{name} reads {dict(rows)}" for name, rows in seen if rows is not None and rows not in may_be]
        if run.result == "wrong rows" or len(wrong) == len(seen):
            self.problems += wrong

    def _read(self, table: SimulatedTable) -> Held | None:
        """The rows, with their files; None for an error that says what is wrong."""
        try:
            snapshot = table.table.snapshots.latest()
            for add in table.version(snapshot).adds:
                if ":" not in add.path and not table.store.read(add.path):
                    return None
            return Counter(table.rows(snapshot))
        except DeltaError:
            return None
        except Exception as error:
            self.problems.append(f"a read ends with {type(error).__name__}: {error}")
            return None


def _replayed(archive: MemoryStore, versions: int) -> ReplayedLog:
    replayed = ReplayedLog(store=archive)
    for version in range(versions):
        judge_commit(replayed, version, archive.read(f"_delta_log/{version:020d}.json"))
    return replayed
