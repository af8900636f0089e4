"""Transactions of several statements as pure functions: what their statements do one after the other."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from concurrency.conditions import EVERY, Row, Where
from concurrency.describing import keeps_rules
from concurrency.statements import Effect, Look, Plan, ReplaceWhere, Statement, is_append, look

NumberedRow = tuple[int | None, Row]
"""A row with its number in the table that the transaction began with; None for one that the transaction has written."""


@dataclasses.dataclass(frozen=True)
class Query(Statement):
    """A SELECT, whose rows the program sees."""

    where: Where

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan(looks=(look(self.where, rows, of_query=True),))

    def __str__(self) -> str:
        return f"SELECT WHERE {self.where}"


@dataclasses.dataclass(frozen=True)
class Savepoint:
    name: str

    def __str__(self) -> str:
        return f"SAVEPOINT {self.name}"


@dataclasses.dataclass(frozen=True)
class RollBackTo:
    name: str

    def __str__(self) -> str:
        return f"ROLLBACK TO {self.name}"


Step = Statement | Savepoint | RollBackTo
Seen = tuple[frozenset[tuple[Row, int]], frozenset[tuple[Row, int]]] | str
"""What a program sees of a statement: for a query its rows, else the rows that it deletes; and those that it inserts.
The rows of a multiset are counted."""
FAILED: Seen = "a constraint is violated"
"""What it sees of one that fails."""


@dataclasses.dataclass(frozen=True)
class Composition:
    """What all statements together do to a table of numbered rows."""

    plan: Plan
    seen: tuple[Seen, ...]


@dataclasses.dataclass(frozen=True)
class SeveralStatements(Statement):
    """BEGIN TRANSACTION, these statements, and COMMIT or ROLLBACK."""

    steps: tuple[Step, ...]
    rolls_back: bool = False
    is_run_again: bool = False
    """Whether the program runs it again after a conflict."""
    rules: tuple[Where, ...] = ()
    """The constraints of the table, known once it has begun. A statement that violates one fails, and the others run."""

    @property
    def names_no_rows(self) -> bool:
        """Whether a statement of it never names single rows."""
        return any(isinstance(step, ReplaceWhere) for step in self.steps)

    @property
    def kept_statements(self) -> list[Statement]:
        """Those that no ROLLBACK TO has undone."""
        kept: list[Statement] = []
        savepoints: list[tuple[str, int]] = []
        for step in self.steps:
            if isinstance(step, Savepoint):
                savepoints = [*(other for other in savepoints if other[0] != step.name), (step.name, len(kept))]
            elif isinstance(step, RollBackTo):
                names = [name for name, _ in savepoints]
                if step.name in names:
                    savepoints = savepoints[: names.index(step.name) + 1]
                    del kept[savepoints[-1][1] :]
            else:
                kept.append(step)
        return kept

    def composition(self, rows: Sequence[Row]) -> Composition:
        state: list[NumberedRow] = list(enumerate(rows))
        savepoints: list[tuple[str, list[NumberedRow]]] = []
        looks: list[Look] = []
        seen: list[Seen] = []
        for step in self.steps:
            if isinstance(step, Savepoint):
                savepoints = [*(kept for kept in savepoints if kept[0] != step.name), (step.name, state)]
            elif isinstance(step, RollBackTo):
                names = [name for name, _ in savepoints]
                if step.name in names:
                    savepoints = savepoints[: names.index(step.name) + 1]
                    state = savepoints[-1][1]
            else:
                plan = step.plan([row for _, row in state])
                if not all(keeps_rules(row, self.rules) for row in plan.inserts):
                    read = plan.looks if is_append(step) else (look(EVERY, [row for _, row in state]),)
                    looks += [_of_first_version(failed, state) for failed in read]
                    seen.append(FAILED)
                    continue
                looks += [_of_first_version(read, state) for read in plan.looks]
                seen.append(seen_of(step, plan, [row for _, row in state]))
                state = [numbered for index, numbered in enumerate(state) if index not in plan.deletes]
                state += [(None, row) for row in plan.inserts]
        left = frozenset(number for number, _ in state if number is not None)
        plan = Plan(
            looks=tuple(looks),
            deletes=frozenset(range(len(rows))) - left,
            inserts=tuple(row for number, row in state if number is None),
        )
        return Composition(plan, tuple(seen))

    def plan(self, rows: Sequence[Row]) -> Plan:
        return self.composition(rows).plan

    def effect(self, rows: Sequence[Row]) -> Effect:
        composition = self.composition(rows)
        deleted = Counter(rows[number] for number in composition.plan.deletes)
        return Effect(deleted, Counter(composition.plan.inserts), seen=composition.seen)

    def __str__(self) -> str:
        end = "ROLLBACK" if self.rolls_back else "COMMIT, run again after a conflict" if self.is_run_again else "COMMIT"
        return "; ".join(["BEGIN", *map(str, self.steps), end])


def _of_first_version(read: Look, state: Sequence[NumberedRow]) -> Look:
    numbers = (state[index][0] for index in read.rows)
    return dataclasses.replace(read, rows=frozenset(number for number in numbers if number is not None))


def seen_of(statement: Statement, plan: Plan, rows: Sequence[Row]) -> Seen:
    """What the program sees of one statement on these rows."""
    read = plan.looks[0].rows if isinstance(statement, Query) else plan.deletes
    return counted([rows[number] for number in read]), counted(plan.inserts)


def counted(rows: Sequence[Row]) -> frozenset[tuple[Row, int]]:
    return frozenset(Counter(rows).items())
