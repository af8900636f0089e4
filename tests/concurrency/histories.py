"""Histories: statements, and the order in which they read and commit."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from anabranch.errors.commits import (
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.reserved_numbers import ExecuteAgainError
from concurrency.conditions import Row
from concurrency.executor import Running, begin
from concurrency.played_table import AS_USUAL, Manner, PlayedTable
from concurrency.played_transactions import RunningTransaction
from concurrency.several_statements import SeveralStatements
from concurrency.statements import (
    Effect,
    Foreign,
    Insert,
    InsertAbsent,
    InsertGenerated,
    Optimize,
    Plan,
    ReserveNumbers,
    Statement,
    shown,
)

LEVELS = ("Serializable", "WriteSerializable")


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """Each statement is in `schedule` twice, by its number: where it reads, and where it commits.

    A transaction of several statements reads for its first one there, and may be in between: at each of these points it
    runs its next statement. Those that are left run before it commits.
    """

    level: str
    files: tuple[tuple[Row, ...], ...]
    statements: tuple[Statement, ...]
    schedule: tuple[int, ...]
    manner: Manner = AS_USUAL

    def with_files(self, files: tuple[tuple[Row, ...], ...]) -> History:
        """The same statements on another table."""
        return dataclasses.replace(self, files=files)

    def in_words(self) -> str:
        """The history as a person would write it down."""
        lines = [f"a table, {self.level}, {self.manner}"]
        lines += [f"  file {number}: {', '.join(map(shown, rows))}" for number, rows in enumerate(self.files)]
        begun: set[int] = set()
        for step, number in enumerate(self.schedule):
            goes_on = "goes on" if number in self.schedule[step + 1 :] else "commits"
            lines.append(f"  T{number} {goes_on if number in begun else f'reads for {self.statements[number]}'}")
            begun.add(number)
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Commit:
    """A statement that was committed."""

    number: int
    statement: Statement
    read_version: int
    version: int
    plan: Plan
    effect: Effect

    @property
    def is_blind(self) -> bool:
        """Whether it is known to have read nothing."""
        if isinstance(self.statement, Foreign):
            return self.statement.tells and isinstance(self.statement.statement, Insert)
        if isinstance(self.statement, SeveralStatements):
            return not self.plan.looks
        return isinstance(self.statement, Insert) and not isinstance(self.statement, InsertAbsent)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusal:
    """A statement that was refused by a conflict."""

    number: int
    statement: Statement
    read_version: int
    after: int
    """The newest version at that time."""
    plan: Plan
    effect: Effect
    error: DeltaConcurrentModificationException
    calls_failed: bool = False
    """Whether calls of its store failed, so that rows in conflict could perhaps not be read."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a history."""

    history: History
    played: PlayedTable
    commits: tuple[Commit, ...]
    refusals: tuple[Refusal, ...]


def run(history: History) -> Outcome:
    """Play it."""
    played = PlayedTable.created(history.files, level=history.level, manner=history.manner)
    running: dict[int, Running | RunningTransaction] = {}
    commits: list[Commit] = []
    refusals: list[Refusal] = []
    later: list[ExecutedAgain] = []
    for step, number in enumerate(history.schedule):
        if number not in running:
            running[number] = begun(played, history.statements[number])
        elif number in history.schedule[step + 1 :]:
            started = running[number]
            assert isinstance(started, RunningTransaction), "only a transaction of several statements goes on"
            started.proceed()
        else:
            finish(number, running[number], commits, refusals, later)
        for again in [again for again in later if again.step()]:
            later.remove(again)
            finish(again.number, again.running, commits, refusals, later)
    while later:
        last = later.pop(0)
        finish(last.number, last.running, commits, refusals, later)
    return Outcome(history=history, played=played, commits=tuple(commits), refusals=tuple(refusals))


def begun(
    played: PlayedTable, statement: Statement, *, snapshot: Snapshot | None = None
) -> Running | RunningTransaction:
    """The statement, or the first one of a transaction, has read the newest version, or `snapshot`."""
    if isinstance(statement, SeveralStatements):
        return RunningTransaction(played, statement, snapshot=snapshot)
    return begin(played, statement, snapshot=snapshot)


@dataclasses.dataclass(kw_only=True, eq=False)
class ExecutedAgain:
    """A statement for which numbers were reserved, and which has been executed again and waits to commit."""

    number: int
    running: Running
    steps_left: int

    def step(self) -> bool:
        """Whether it commits after this step of another statement."""
        self.steps_left -= 1
        return self.steps_left < 0


def finish(
    number: int,
    running: Running | RunningTransaction,
    commits: list[Commit],
    refusals: list[Refusal],
    later: list[ExecutedAgain] | None = None,
) -> None:
    """Commit, and note what came of it. A statement that is executed again commits at once, or `later`."""
    facts: dict[str, object] = {"number": number, "read_version": running.read_version}
    try:
        landed = running.commit()
    except ExecuteAgainError as error:
        assert isinstance(running, Running)
        assert running.again is not None
        (numbers,) = error.reserved.ranges.values()
        facts["statement"] = ReserveNumbers(numbers.first, numbers.last)
        nothing = Effect(Counter(), Counter())
        commits.append(Commit(**facts, version=error.reserved.version, plan=Plan(), effect=nothing))  # type: ignore[arg-type]
        again = running.again(error.reserved)
        assert isinstance(again.statement, InsertGenerated)
        if later is None:
            finish(number, again, commits, refusals)
        else:
            later.append(ExecutedAgain(number=number, running=again, steps_left=again.statement.waits))
        return
    except DeltaConcurrentModificationException as error:
        facts["statement"] = running.statement
        about_description = isinstance(error, MetadataChangedException | ProtocolChangedException)
        assert about_description or not isinstance(running.statement, Optimize), error
        last = len(commits)
        lost = Refusal(**facts, after=last, plan=running.plan, effect=running.effect, error=error)  # type: ignore[arg-type]
        refusals.append(lost)
        if isinstance(running, RunningTransaction) and running.statement.is_run_again:
            finish(number, running.run_again(), commits, refusals)
            assert refusals[-1] is lost, f"T{number} has a conflict, and no commit came before its own"
        return
    facts["statement"] = running.statement
    if landed is not None:
        commits.append(Commit(**facts, version=landed.version, plan=running.plan, effect=running.effect))  # type: ignore[arg-type]


def replayed(rows: Counter[Row], effect: Effect) -> Counter[Row]:
    """The table after the effect; every row it deletes must be there."""
    left = rows - effect.deleted
    assert left.total() == rows.total() - effect.deleted.total(), "a row that is not there was deleted"
    return left + effect.inserted


def as_rows(rows: Counter[Row]) -> Sequence[Row]:
    return list(rows.elements())
