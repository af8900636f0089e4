"""What actors do: statements on rows and descriptions, upkeep of the log, VACUUM, and reading."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from anabranch.clock import random_uuid
from anabranch.commands.restore.restore_table import missing_files
from anabranch.log.cleanup import clean_up_log
from anabranch.log.log_compaction import write_log_compaction
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.reserved_numbers import ExecuteAgainError
from concurrency.executor import Running, begin
from concurrency.foreign import ForeignCommit
from concurrency.played_transactions import RunningTransaction
from concurrency.several_statements import SeveralStatements
from concurrency.statements import ReserveNumbers, Restore, Statement
from simulation.events import THINK
from simulation.log_watch import LogWatch
from simulation.scheduling import Turn
from simulation.simulated_table import SimulatedTable, vacuum


class VersionsGone(Exception):
    """RESTORE to a version whose files VACUUM has deleted, or may delete; it refuses that."""


@dataclasses.dataclass(kw_only=True, eq=False)
class Attempt:
    """One act of one actor, as far as it has come."""

    actor: str
    number: int
    act: Act
    running: Running | RunningTransaction | None = None
    versions: list[int] = dataclasses.field(default_factory=list)
    reservations: dict[int, ReserveNumbers] = dataclasses.field(default_factory=dict)
    """Versions that only reserve numbers for its statement, as far as it has heard of them."""
    result: str = "nothing"
    version: int | None = None
    """The version that the actor got: where it committed, or may have."""
    error: BaseException | None = None
    newest_version: int = -1
    """The newest version when it ended."""
    saw_drop: bool = False
    """Whether another program deleted the table while it ran."""
    calls_failed: bool = False
    """Whether something went wrong with its calls."""

    @property
    def keeps_removed_files(self) -> bool:
        return not (isinstance(self.act, Vacuum) and self.act.hours is not None)

    def __str__(self) -> str:
        return f"{self.actor}'s act {self.number}, {self.act}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """What an act works with."""

    turn: Turn
    played: SimulatedTable
    watch: LogWatch
    attempt: Attempt
    memory: dict[str, Any]
    """What the actor has written down; it survives the process."""

    def check(self, problems: list[str]) -> None:
        self.turn.scheduler.complain(problems)
        self.turn.check()


@dataclasses.dataclass(frozen=True)
class Act:
    """Something that an actor does, after it has waited."""

    wait_ms: int

    def run(self, process: Process) -> int | None:
        """Do it; the version that was committed."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Change(Act):
    """A statement that may commit."""

    statement: Statement

    def run(self, process: Process) -> int | None:
        played, statement = process.played, self.statement
        if isinstance(statement, SeveralStatements):
            transaction = RunningTransaction(played, statement)
            for _ in statement.steps:
                process.turn.call(THINK, "")
                transaction.proceed()
            running: Running | RunningTransaction = transaction
        else:
            running = begin(played, statement)
        if isinstance(running, Running):
            if running.transaction.snapshot is not None:
                process.check(process.watch.problems_of_snapshot(running.transaction.snapshot))
            if isinstance(statement, Restore):
                _check_files(played, running, statement)
        committed = _committed(process, running)
        return None if committed is None else committed.version

    def __str__(self) -> str:
        return str(self.statement)


def _committed(process: Process, running: Running | RunningTransaction) -> CommittedVersion | ForeignCommit | None:
    """Commit; a statement that has only lost its numbers is executed again with those that are reserved for it."""
    while True:
        process.attempt.running = running
        process.turn.call(THINK, "")
        try:
            return running.commit()
        except ExecuteAgainError as again:
            assert isinstance(running, Running)
            assert running.again is not None, "only INSERT generates numbers here"
            (numbers,) = again.reserved.ranges.values()
            process.attempt.reservations[again.reserved.version] = ReserveNumbers(numbers.first, numbers.last)
            running = running.again(again.reserved)


def _check_files(played: SimulatedTable, running: Running, statement: Restore) -> None:
    """Refuse to go back to a version whose files are gone, or may go, as RESTORE does before it commits."""
    version = 0 if statement.back is None else max(0, running.read_version - statement.back)
    before, now = played.table.snapshots.at_version(version), running.transaction.snapshot
    assert now is not None, "there is a table"
    kept_from_ms = played.clock.now_ms() - now.properties.deleted_file_retention_ms
    if before.timestamp_ms < kept_from_ms or missing_files(played.store, before.files.table):
        raise VersionsGone


@dataclasses.dataclass(frozen=True)
class Checkpoint(Act):
    """Writes a checkpoint of the newest version, of the kind that the table wants."""

    def run(self, process: Process) -> None:
        played = process.played
        snapshot = played.table.snapshots.latest()
        write_checkpoint(
            played.store, snapshot, clock=played.clock, new_uuid=functools.partial(random_uuid, played.random)
        )

    def __str__(self) -> str:
        return "CHECKPOINT"


@dataclasses.dataclass(frozen=True)
class CleanUp(Act):
    """Deletes log files that are older than the table keeps them."""

    def run(self, process: Process) -> None:
        played = process.played
        snapshot = played.table.snapshots.latest()
        now_ms = min(played.clock.now_ms(), snapshot.segment.modified_ms)
        clean_up_log(played.store, upto=snapshot.version, now_ms=now_ms, properties=snapshot.properties)

    def __str__(self) -> str:
        return "clean up the log"


@dataclasses.dataclass(frozen=True)
class CompactLog(Act):
    """Replaces the last commits for readers."""

    commits: int

    def run(self, process: Process) -> None:
        newest = process.played.table.snapshots.latest().version
        if newest >= self.commits:
            write_log_compaction(process.played.store, first=newest - self.commits + 1, last=newest)

    def __str__(self) -> str:
        return f"compact the last {self.commits} commits of the log"


@dataclasses.dataclass(frozen=True)
class Vacuum(Act):
    """VACUUM, by the retention of the table or a shorter one."""

    hours: float | None
    lite: bool = False

    def run(self, process: Process) -> None:
        vacuum(process.played, hours=self.hours, lite=self.lite)

    def __str__(self) -> str:
        return f"VACUUM{' LITE' if self.lite else ''}" + ("" if self.hours is None else f" RETAIN {self.hours} HOURS")


@dataclasses.dataclass(frozen=True)
class Read(Act):
    """Reads the newest version, or one `back` versions before, and all its rows."""

    back: int = 0

    def run(self, process: Process) -> None:
        played = process.played
        snapshots = played.table.snapshots
        snapshot = snapshots.latest()
        if self.back:
            snapshot = snapshots.at_version(max(0, snapshot.version - self.back))
        process.check(process.watch.problems_of_snapshot(snapshot))
        version = played.version(snapshot)
        for add in version.adds:
            # An old version may be without its files, which is an error and never fewer rows.
            played.store.read(add.path)

    def __str__(self) -> str:
        return f"SELECT {self.back} versions before the newest" if self.back else "SELECT"
