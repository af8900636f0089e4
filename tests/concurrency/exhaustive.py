"""Every way in which a few statements can meet on a small table.

Of a schedule only two things matter: the order of the commits, and which version each statement had read. So
statements commit one after the other, and each has read every version there was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot import Snapshot
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.executor import AS_USUAL, Manner, PlayedTable
from concurrency.histories import Commit, History, Outcome, Refusal, finish
from concurrency.judges import violations
from concurrency.statements import Delete, Insert, InsertSelect, Merge, Optimize, Statement, Update

FILES = ((Row(0, 0), Row(1, 1)), (Row(2, 1),))

KINDS: tuple[Statement, ...] = (
    Insert((Row(1, 1),)),
    Delete(Where("v", "=", 1)),
    Update(Where("k", "=", 0), Change("v", 1, False)),
    Update(Where("k", "=", 1), Change("v", 2, False)),
    Merge((Row(2, 3), Row(3, 1)), matched="update"),
    InsertSelect(Where("v", "=", 1), Change("k", 4, True)),
    Optimize(),
)
MORE_KINDS: tuple[Statement, ...] = (
    *KINDS,
    Delete(EVERY),
    Update(Where("k", "=", 2), Change("k", 0, False), unless=Where("v", "=", 2)),
    Merge((Row(0, 1),), matched="delete", inserts=False),
    Merge((Row(1, 2),), matched="update below", not_in_source=Where("v", "=", 0)),
    Optimize((0, 1), rows_per_file=1),
    Optimize(leaves_word=False),
)


@dataclasses.dataclass(kw_only=True)
class Explored:
    """What the exploration came to."""

    states: int = 0
    """Tables reached, each by another sequence of statements and reads."""
    commits: int = 0
    refusals: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.commits} commits, {self.refusals} conflicts, {len(self.problems)} violations"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Node:
    played: PlayedTable
    versions: tuple[Snapshot, ...]
    commits: tuple[Commit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    words: tuple[str, ...] = ()


def explore(level: str, kinds: Sequence[Statement], *, statements: int, manner: Manner = AS_USUAL) -> Explored:
    """All sequences of so many statements."""
    explored = Explored()
    root = PlayedTable.created(FILES, level=level, manner=manner)
    _visit(_Node(played=root, versions=(root.table.snapshots.latest(),)), level, kinds, statements, explored)
    return explored


def _visit(node: _Node, level: str, kinds: Sequence[Statement], left: int, explored: Explored) -> None:
    if not left:
        return
    for statement in kinds:
        for read in node.versions:
            reached = _step(node, level, statement, read, explored)
            if reached is not None:
                _visit(reached, level, kinds, left - 1, explored)


def _step(node: _Node, level: str, statement: Statement, read: Snapshot, explored: Explored) -> _Node | None:
    """One statement more; None where that leads to no new state."""
    played = node.played.copy()
    commits, refusals = list(node.commits), list(node.refusals)
    number = len(node.words)
    words = (*node.words, f"T{number} reads version {read.version} for {statement}, and commits")
    explored.states += 1
    try:
        finish(number, played.begin(statement, snapshot=read), commits, refusals)
        history = History(level=level, files=FILES, statements=(), schedule=())
        outcome = Outcome(history=history, played=played, commits=tuple(commits), refusals=tuple(refusals))
        problems = violations(outcome)
    except (DeltaError, AssertionError) as error:
        problems = [f"{type(error).__name__}: {error}"]
    explored.problems += [f"{level}: {'; '.join(words)}: {problem}" for problem in problems]
    if len(commits) == len(node.commits):
        explored.refusals += len(refusals) - len(node.refusals)
        return None
    explored.commits += 1
    versions = (*node.versions, played.table.snapshots.latest())
    return _Node(played=played, versions=versions, commits=tuple(commits), refusals=tuple(refusals), words=words)
