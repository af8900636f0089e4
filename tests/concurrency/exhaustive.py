"""Every way in which a few statements can meet on a small table.

Of a schedule only two things matter: the order of the commits, and which version each statement had read. So
statements commit one after the other, and each has read every version there was.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot import Snapshot
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.describing import (
    MANIFESTS,
    ROW_TRACKING,
    Replace,
    add_column,
    add_constraint,
    cluster_by,
    drop_column,
    drop_constraint,
    drop_vectors,
    rename_column,
    set_property,
    support_row_tracking,
)
from concurrency.histories import Commit, History, Outcome, Refusal, begun, finish
from concurrency.judges import violations
from concurrency.merging import Merge, MergeByKeys, MergeSelect
from concurrency.played_table import AS_USUAL, Manner, PlayedTable
from concurrency.several_statements import Query, RollBackTo, Savepoint, SeveralStatements
from concurrency.statements import (
    Backfill,
    Delete,
    Foreign,
    Insert,
    InsertAbsent,
    InsertGenerated,
    InsertJoin,
    InsertSelect,
    Numbered,
    Optimize,
    ReplaceWhere,
    Restore,
    Rewriting,
    Statement,
    Update,
)

FILES = ((Row(0, 0), Row(1, 1)), (Row(2, 1),))

FEW_KINDS: tuple[Statement, ...] = (
    Insert((Row(1, 1),)),
    InsertSelect(Where("v", "=", 1), Change("k", 4, True)),
    Delete(Where("v", "=", 1)),
    Update(Where("k", "=", 0), Change("v", 1, False)),
    Update(Where("k", "=", 1), Change("v", 2, False)),
    Merge((Row(2, 3), Row(3, 1)), matched="update", tells_changes=True),
    Merge((Row(1, 2),), matched="update below", tells_changes=True),
    Optimize(),
    Optimize(leaves_word=False, ordered=True),
)
ALL_KINDS: tuple[Statement, ...] = (
    *FEW_KINDS,
    InsertJoin(Where("v", "=", 1), Where("v", "<", 2), Change("k", 4, True)),
    InsertAbsent((Row(1, 3), Row(4, 1))),
    MergeSelect(Where("v", "=", 1), Change("k", 1, True)),
    MergeByKeys((Row(1, 3),)),
    Delete(EVERY),
    Update(Where("k", "=", 2), Change("k", 0, False), unless=Where("v", "=", 2)),
    Merge((Row(0, 1),), matched="delete", inserts=False),
    Merge((Row(1, 2),), matched="delete below else update", not_in_source=Where("v", "=", 0)),
    Merge((Row(0, 2), Row(4, 1)), matched="next key", not_in_source=Where("v", "=", 1), orphans="update"),
    Optimize((0, 1), rows_per_file=1),
    Optimize(rows_per_file=2, ordered=True),
    Optimize(purges=True),
    Optimize(leaves_word=False),
    Rewriting(Delete(Where("k", "=", 1))),
    Rewriting(Update(Where("v", "=", 1), Change("v", 0, False))),
    ReplaceWhere(Where("k", ">=", 2), (Row(2, 2),)),
    ReplaceWhere(EVERY, (Row(1, 1), Row(5, 0))),
    Restore(),
    Restore(back=1),
    Foreign(Insert((Row(1, 1),)), tells=False, counts=False),
    Foreign(Delete(Where("v", "=", 1)), counts=False),
    Foreign(Update(Where("k", "=", 0), Change("v", 1, False)), by_vectors=False, tells=False),
)


DESCRIPTION_KINDS: tuple[Statement, ...] = (
    add_column("b"),
    drop_column("a"),
    rename_column("a", "b"),
    cluster_by("a"),
    cluster_by("k"),
    set_property("delta.checkpointInterval", "5"),
    support_row_tracking(),
    Backfill(),
    set_property(ROW_TRACKING, "true"),
    set_property(MANIFESTS, "true"),
    set_property(MANIFESTS, None),
    add_constraint(Where("v", "<", 2)),
    drop_constraint("v"),
    drop_vectors(),
    Replace(("k", "v", "a")),
    Replace(("k", "v"), (Row(0, 2),)),
    Numbered((Row(1, 1),), number=1),
    Numbered((Row(1, 1),), number=2),
    Insert((Row(1, 2),)),
    Delete(Where("v", "=", 1)),
    Delete(EVERY),
    Update(Where("k", "=", 0), Change("v", 2, False)),
    InsertSelect(Where("v", "=", 1), Change("k", 4, True)),
    Restore(back=1),
    Optimize(),
    Foreign(Insert((Row(1, 1),)), tells=False, counts=False),
    Foreign(Delete(Where("v", "=", 1))),
)
"""Statements on what describes a table, beside some on rows."""
PARTS: tuple[Statement, ...] = (
    Insert((Row(1, 1),)),
    Delete(Where("v", "=", 1)),
    Update(Where("k", "=", 1), Change("v", 2, False)),
    Merge((Row(1, 2), Row(3, 1)), matched="update", tells_changes=True),
    Query(Where("v", "=", 2)),
)
TRANSACTIONS: tuple[Statement, ...] = (
    *(SeveralStatements(pair) for pair in itertools.product(PARTS, repeat=2) if pair != (PARTS[-1], PARTS[-1])),
    SeveralStatements((PARTS[0], Savepoint("s"), PARTS[1], RollBackTo("s"))),
    SeveralStatements((Savepoint("s"), PARTS[2], RollBackTo("s"), PARTS[0])),
)
"""Transactions of two statements: all pairs of a few, and two of which one statement is undone.

Between two statements of a transaction nothing needs to be committed: both read the version that it began with.
"""
_BESIDE_TRANSACTIONS: tuple[Statement, ...] = (
    Insert((Row(1, 1),)),
    Delete(Where("v", "=", 1)),
    Update(Where("k", "=", 1), Change("v", 1, False)),
    Optimize(),
    Optimize(leaves_word=False, ordered=True),
)
TRANSACTION_KINDS: tuple[Statement, ...] = (*TRANSACTIONS, *_BESIDE_TRANSACTIONS)
FEW_TRANSACTION_KINDS: tuple[Statement, ...] = (
    *map(SeveralStatements, itertools.product(PARTS[:3], repeat=2)),
    *_BESIDE_TRANSACTIONS,
)
"""For sequences of three: a state with transactions takes several times as long as one of single statements."""


NUMBERED_KINDS: tuple[Statement, ...] = (
    InsertGenerated((), (1,)),
    InsertGenerated((), (1, 2)),
    InsertGenerated((), (0,), (3,)),
    Insert((Row(1, 1),)),
    Delete(Where("k", "=", 1)),
    Optimize(),
    Restore(back=1),
    set_property("delta.checkpointInterval", "5"),
    add_column("b"),
)
"""For a table with an identity column."""


@dataclasses.dataclass(kw_only=True)
class Explored:
    """What the exploration came to."""

    states: int = 0
    """Statements tried, each after another sequence of statements and reads."""
    commits: int = 0
    refusals: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.commits} commits, {self.refusals} conflicts, {len(self.problems)} violations"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Node:
    versions: tuple[Snapshot, ...]
    commits: tuple[Commit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    words: tuple[str, ...] = ()


def explore(
    level: str,
    kinds: Sequence[Statement],
    *,
    statements: int,
    manner: Manner = AS_USUAL,
    begun_by: Sequence[Statement] | None = None,
) -> Explored:
    """All sequences of up to so many statements, or those whose first is one of `begun_by`."""
    played = PlayedTable.created(FILES, level=level, manner=manner)
    exploration = _Exploration(played=played, level=level, kinds=tuple(kinds))
    created = _Node(versions=(played.table.snapshots.latest(),))
    exploration.visit(created, statements, tuple(kinds if begun_by is None else begun_by))
    return exploration.explored


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Exploration:
    """Goes through all sequences on one table, which it takes back to where a sequence branches off."""

    played: PlayedTable
    level: str
    kinds: tuple[Statement, ...]
    explored: Explored = dataclasses.field(default_factory=Explored)

    def visit(self, node: _Node, left: int, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            for read in node.versions:
                reached = self._step(node, statement, read, is_last=left == 1)
                if reached is not None and left > 1:
                    self.visit(reached, left - 1, self.kinds)
                self.played.rewind(node.versions[-1].version)

    def _step(self, node: _Node, statement: Statement, read: Snapshot, *, is_last: bool) -> _Node | None:
        """One statement more; None where that leads to no new version."""
        commits, refusals = list(node.commits), list(node.refusals)
        number = len(node.words)
        words = (*node.words, f"T{number} reads version {read.version} for {statement}, and commits")
        self.explored.states += 1
        try:
            finish(number, begun(self.played, statement, snapshot=read), commits, refusals)
            problems = violations(self._outcome(commits, refusals))
        except (DeltaError, AssertionError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        self.explored.problems += [f"{self.level}: {'; '.join(words)}: {problem}" for problem in problems]
        if len(commits) == len(node.commits):
            self.explored.refusals += len(refusals) - len(node.refusals)
            return None
        self.explored.commits += 1
        versions = node.versions
        if not is_last:
            # Two if it has reserved numbers.
            snapshots, last = self.played.table.snapshots, versions[-1].version
            versions += tuple(snapshots.at_version(version) for version in range(last + 1, snapshots.latest().version))
            versions += (snapshots.latest(),)
        return _Node(versions=versions, commits=tuple(commits), refusals=tuple(refusals), words=words)

    def _outcome(self, commits: Sequence[Commit], refusals: Sequence[Refusal]) -> Outcome:
        history = History(level=self.level, files=FILES, statements=(), schedule=(), manner=self.played.manner)
        return Outcome(history=history, played=self.played, commits=tuple(commits), refusals=tuple(refusals))
