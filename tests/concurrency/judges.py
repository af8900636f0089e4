"""Judges of histories. They know the log and the statements, and nothing of conflict checks.

C1 and C2 of the list of judges; the linter of logs, C5, is `log_linter`.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence

from log_linter import lint

from anabranch.deletion_vectors.reading import load_vector
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.log_paths import commit_path
from concurrency.conditions import Row
from concurrency.executor import PlayedTable
from concurrency.histories import Commit, Outcome, as_rows
from concurrency.statements import Insert, Optimize

PERMUTED_MAX = 7


def violations(outcome: Outcome, *, with_linter: bool = True) -> list[str]:
    """What is wrong with a history, in words."""
    tables = table_at_every_version(outcome.played)
    found = lint(outcome.played.store) if with_linter else []
    found += effects_tell_the_tables(outcome, tables)
    if outcome.history.level == "Serializable":
        return found + replay_oracle(outcome, tables)
    return found + witness(outcome, tables[0], tables[-1])


def table_at_every_version(played: PlayedTable) -> list[Counter[Row]]:
    """The rows of each version, read from the log by itself."""
    tables: list[Counter[Row]] = []
    live: dict[str, set[int]] = {}
    while played.store.head(commit_path(len(tables))) is not None:
        actions = [json.loads(line) for line in played.store.read(commit_path(len(tables))).splitlines()]
        for action in actions:
            if "remove" in action:
                live.pop(action["remove"]["path"])
        for action in actions:
            if "add" in action:
                live[action["add"]["path"]] = _hidden(played, action["add"].get("deletionVector"))
        tables.append(
            Counter(
                row
                for path, hidden in live.items()
                for position, row in enumerate(played.data[path])
                if position not in hidden
            )
        )
    return tables


def _hidden(played: PlayedTable, vector: dict[str, object] | None) -> set[int]:
    if vector is None:
        return set()
    descriptor = DeletionVectorDescriptor(
        storage_type=vector["storageType"],  # type: ignore[arg-type]
        path_or_inline_dv=vector["pathOrInlineDv"],  # type: ignore[arg-type]
        offset=vector.get("offset"),  # type: ignore[arg-type]
        size_in_bytes=vector["sizeInBytes"],  # type: ignore[arg-type]
        cardinality=vector["cardinality"],  # type: ignore[arg-type]
    )
    return set(load_vector(played.store, descriptor))


def effects_tell_the_tables(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """Every commit did to the table what its statement had worked out, no more and no less."""
    found = []
    for commit in outcome.commits:
        before, after = tables[commit.version - 1], tables[commit.version]
        expected = Counter(before)
        expected.subtract(commit.effect.deleted)
        expected.update(commit.effect.inserted)
        if any(count < 0 for count in expected.values()) or +expected != after:
            found.append(
                f"version {commit.version}: T{commit.number} deletes {dict(commit.effect.deleted)} and inserts "
                f"{dict(commit.effect.inserted)}; the table went from {dict(before)} to {dict(after)}"
            )
    return found


def replay_oracle(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """C1: the log is a serial order. Each statement, run again at its place, does what it did."""
    found = []
    rows = tables[0]
    for commit in outcome.commits:
        effect = commit.statement.effect(as_rows(rows))
        if effect != commit.effect:
            found.append(
                f"version {commit.version}: T{commit.number}, {commit.statement}, run at its place deletes "
                f"{dict(effect.deleted)} and inserts {dict(effect.inserted)}, not {dict(commit.effect.deleted)} and "
                f"{dict(commit.effect.inserted)}"
            )
        rows = rows - effect.deleted + effect.inserted
        if rows != tables[commit.version]:
            found.append(f"version {commit.version} is {dict(tables[commit.version])}, a serial run has {dict(rows)}")
    return found


def witness(outcome: Outcome, first: Counter[Row], last: Counter[Row]) -> list[str]:
    """C2: some order of the statements explains the table. The one that the rules mean is tried first."""
    if explains(reordered(outcome.commits), first, last):
        return []
    if len(outcome.commits) <= PERMUTED_MAX and has_serial_order(outcome.commits, first, last):
        return [f"only another order than {[commit.number for commit in reordered(outcome.commits)]} explains it"]
    return [f"no order of {[f'T{commit.number}' for commit in outcome.commits]} explains the table {dict(last)}"]


def reordered(commits: Sequence[Commit]) -> list[Commit]:
    """The log, but each blind append behind the last statement that landed after it without heeding it."""
    order = list(commits)
    for append in reversed(commits):
        heedless = [commit for commit in commits if append.is_blind and _ignored(commit, append, commits)]
        if heedless:
            order.remove(append)
            order.insert(order.index(heedless[-1]) + 1, append)
    return order


def _ignored(commit: Commit, append: Commit, commits: Sequence[Commit]) -> bool:
    """Whether the commit would have read rows of the append, and did not.

    Where a third statement had read them already, it did not ignore them: they were gone again, or did not count.
    """
    if not commit.read_version < append.version < commit.version:
        return False
    between = (other for other in commits if append.version < other.version < commit.version)
    readers = (other for other in between if not other.is_blind and not isinstance(other.statement, Optimize))
    if any(other.read_version >= append.version for other in readers):
        return False
    assert isinstance(append.statement, Insert)
    plan = commit.statement.plan(append.statement.rows)
    return any(each.rows for each in plan.looks)


def explains(order: Sequence[Commit], first: Counter[Row], last: Counter[Row]) -> bool:
    """Whether each statement, run in this order, does what it did."""
    rows = first
    for commit in order:
        effect = commit.statement.effect(as_rows(rows))
        if effect != commit.effect:
            return False
        rows = rows - effect.deleted + effect.inserted
    return rows == last


def has_serial_order(commits: Sequence[Commit], first: Counter[Row], last: Counter[Row]) -> bool:
    """Every order is tried."""
    return any(explains(order, first, last) for order in itertools.permutations(commits))


def is_needless(outcome: Outcome, number: int) -> bool:
    """Whether a statement that was refused would have done the same, run at the end of the log at that time."""
    refusal = next(each for each in outcome.refusals if each.number == number)
    rows = table_at_every_version(outcome.played)[refusal.after]
    return refusal.statement.effect(as_rows(rows)) == refusal.effect
