"""Judge C9: ids of rows are unique in each version, stay with their rows, and are never assigned again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from concurrency.conditions import Row
from concurrency.histories import Commit, Outcome
from concurrency.played_ids import id_in_file
from concurrency.played_table import PlayedTable
from concurrency.replayed_rows import rows_at_every_version
from concurrency.several_statements import Query, SeveralStatements
from concurrency.statements import Delete, Foreign, Insert, Optimize, Restore, Rewriting, Statement, Update

Rows = dict[int, tuple[Row, int]]
"""A row and the version that changed it last, by its id."""


def ids_stay(outcome: Outcome) -> list[str]:
    """What is wrong with the ids of a table that has tracked its rows from the start.

    Once an engine that knows no ids has moved rows, an UPDATE that had read them before gives them back the ids that
    they had then.
    """
    tables, twice = ids_at_every_version(outcome.played)
    faults = [f"version {version}: two rows have the id {row_id}" for version, row_id in twice]
    assigned = set(tables[0])
    ids_lost = False
    for commit in outcome.commits:
        ids_lost = ids_lost or not _keeps_ids(commit.statement)
        faults += [
            f"version {commit.version}: {fault}" for fault in _faults(commit, tables, set() if ids_lost else assigned)
        ]
        assigned |= tables[commit.version].keys()
    return faults


def ids_at_every_version(played: PlayedTable) -> tuple[list[Rows], list[tuple[int, int]]]:
    """The rows of each version by their ids, read from the log by itself; and ids that two rows of one version have."""
    tables: list[Rows] = []
    twice: list[tuple[int, int]] = []
    for live in rows_at_every_version(played):
        rows: Rows = {}
        for add, position, row in live:
            base, version = add["baseRowId"], add["defaultRowCommitVersion"]
            ids = id_in_file(played.kept, add["path"], position, base=base, default_version=version)
            assert ids is not None, "the file has ids"
            if ids.row_id in rows:
                twice.append((len(tables), ids.row_id))
            rows[ids.row_id] = row, ids.version
        tables.append(rows)
    return tables, twice


def _faults(commit: Commit, tables: list[Rows], assigned: set[int]) -> list[str]:
    before, after, statement = tables[commit.version - 1], tables[commit.version], commit.statement
    if isinstance(statement, Restore):
        then = tables[0 if statement.back is None else max(0, commit.read_version - statement.back)]
        expected = {**before, **then}
        return _others(after, expected, what="comes back as another")
    faults = [
        f"id {row_id} is given out again" for row_id in after.keys() - before if row_id <= max(assigned, default=-1)
    ]
    stayed = {row_id: after[row_id] for row_id in after.keys() & before}
    faults += [
        f"id {row_id} was {before[row_id]} and is {now}, which this version did not change"
        for row_id, now in stayed.items()
        if now != before[row_id] and now[1] != commit.version
    ]
    if _keeps_ids(statement) and assigned:
        faults += _as_stated(_inner(statement), before, after)
    return faults


def _others(rows: Rows, expected: Mapping[int, tuple[Row, int]], *, what: str) -> list[str]:
    return [f"id {row_id} {what}: {row}" for row_id, row in rows.items() if expected.get(row_id) != row]


def _as_stated(statement: Statement, before: Rows, after: Rows) -> list[str]:
    """The faults in ids that follow from the kind of statement alone."""
    if isinstance(statement, Update) and before.keys() != after.keys():
        return [f"an UPDATE gives ids {json.dumps(sorted(after.keys() ^ before.keys()))} or takes them away"]
    if isinstance(statement, Delete | Optimize):
        missing = isinstance(statement, Optimize) and before.keys() != after.keys()
        return _others(after, before, what="is new") + (["ids are missing"] if missing else [])
    if isinstance(statement, Insert):
        return _others(before, after, what="is missing")
    return []


def _inner(statement: Statement) -> Statement:
    """The statement without who runs it; of a transaction in which all are of one kind, any of them."""
    if isinstance(statement, SeveralStatements):
        changes = [step for step in statement.steps if isinstance(step, Statement) and not isinstance(step, Query)]
        return changes[0] if len(set(map(type, changes))) == 1 else statement
    return statement.statement if isinstance(statement, Rewriting | Foreign) else statement


def _keeps_ids(statement: Statement) -> bool:
    return statement.keeps_ids if isinstance(statement, Foreign | Optimize) else True
