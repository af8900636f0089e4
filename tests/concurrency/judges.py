"""Judges of histories. They know the log and the statements, and nothing of conflict checks.

Judges C1 and C2; the linter of logs, judge C5, is `log_linter`, and judge C9 is `row_ids`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from anabranch.errors.commits import ConcurrentDeleteDeleteException, ConcurrentTransactionException, ConflictReason
from anabranch.protocol.log_paths import commit_path
from concurrency.conditions import Row
from concurrency.describing import Alter, Description, Replace, described, keeps_rules
from concurrency.feed_judge import feed_has_net_changes
from concurrency.histories import Commit, Outcome, Refusal, as_rows
from concurrency.played_table import PlayedTable
from concurrency.replayed_rows import rows_at_every_version
from concurrency.row_ids import ids_stay
from concurrency.several_statements import SeveralStatements
from concurrency.statements import (
    Backfill,
    DeleteByColumns,
    Foreign,
    InsertByPosition,
    InsertGenerated,
    Numbered,
    Optimize,
    ReplaceWhere,
    ReserveNumbers,
    Restore,
    Statement,
)
from transactions.log_linter import lint, parsed

ORDERED_MAX = 14
MARK = "delta.identity.highWaterMark"


def violations(outcome: Outcome, tables: Sequence[Counter[Row]] | None = None) -> list[str]:
    """What is wrong with a history, in words. `tables` are those of `table_at_every_version`, where they are known."""
    tables = tables or table_at_every_version(outcome.played)
    foreign = {commit.version for commit in outcome.commits if isinstance(commit.statement, Foreign)}
    faults = lint(outcome.played.store, foreign=foreign)
    faults += effects_explain_the_tables(outcome, tables)
    faults += examples_are_rows_in_conflict(outcome)
    faults += numbered_once(outcome)
    faults += identity_values_are_unique(outcome)
    if outcome.history.manner.tracks_rows and not outcome.history.manner.describes:
        faults += ids_stay(outcome)
    if outcome.history.manner.feeds:
        faults += feed_has_net_changes(outcome, tables)
    if outcome.history.manner.describes:
        faults += descriptions_in_order(outcome, tables)
    if outcome.history.level == "Serializable":
        return faults + replay_oracle(outcome, tables)
    columns = descriptions(outcome.played)[0].columns
    return faults + witness(outcome, tables[0], tables[-1], columns)


def table_at_every_version(played: PlayedTable) -> list[Counter[Row]]:
    """The rows of each version, read from the log by itself."""
    return [Counter(row for _, _, row in rows) for rows in rows_at_every_version(played)]


def effects_explain_the_tables(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """Every commit did to the table what its statement had worked out, no more and no less."""
    faults = []
    for commit in outcome.commits:
        before, after = tables[commit.version - 1], tables[commit.version]
        expected = Counter(before)
        expected.subtract(commit.effect.deleted)
        expected.update(commit.effect.inserted)
        if any(count < 0 for count in expected.values()) or +expected != after:
            faults.append(
                f"version {commit.version}: T{commit.number} deletes {dict(commit.effect.deleted)} and inserts "
                f"{dict(commit.effect.inserted)}; the table went from {dict(before)} to {dict(after)}"
            )
    return faults


def matches_statement(description: Description, statement: Alter | Replace, *, read: Description) -> bool:
    """Whether the table is what the statement made of the one that it read, but for features that others added."""
    expected = statement.change(read)
    if expected is None:
        return False
    features = description.features - (read.features - expected.features) | (expected.features - read.features)
    return (
        description == dataclasses.replace(expected, features=features)
        and features >= read.features & expected.features
    )


def descriptions_in_order(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """The description of each version is what its statement makes of the one before, and all rows keep its rules.

    A statement that would be refused at its version is not in the log, unless the table already has the description that
    it would make: two statements that make the same change both succeed. Features that other commits added since the
    version that it read do not count.
    """
    faults = []
    by_version = descriptions(outcome.played)
    for commit in outcome.commits:
        before, after, statement = by_version[commit.version - 1], by_version[commit.version], commit.statement
        describes = isinstance(statement, Alter | Replace)
        expected = statement.change(before) if isinstance(statement, Alter | Replace) else before
        agrees = (
            describes and before == after and matches_statement(before, statement, read=by_version[commit.read_version])
        )
        if isinstance(statement, SeveralStatements) and set(statement.rules) != set(before.rules):
            faults.append(f"version {commit.version}: T{commit.number} has run with other constraints")
        if isinstance(statement, Restore):
            then = by_version[0 if statement.back is None else max(0, commit.read_version - statement.back)]
            expected = dataclasses.replace(then, features=then.features | before.features)
        if expected != after and not agrees:
            faults.append(
                f"version {commit.version}: T{commit.number}, {statement}, makes {expected}, and it is {after}"
            )
    for version, (description, rows) in enumerate(zip(by_version, tables, strict=True)):
        bad = [row for row in rows if not keeps_rules(row, description.rules)]
        if bad:
            faults.append(f"version {version} holds {bad}, and its rules are {list(map(str, description.rules))}")
        if any(name not in description.columns for name in description.clustered):
            faults.append(f"version {version} is clustered by {description.clustered}, of {description.columns}")
    return faults


def descriptions(played: PlayedTable) -> list[Description]:
    """The description of each version, read from the log alone."""
    by_version: list[Description] = []
    state: dict[str, Any] = {}
    domains: dict[str, dict[str, Any]] = {}
    while played.store.head(commit_path(len(by_version))) is not None:
        for action in parsed(played.store.read(commit_path(len(by_version)))):
            state |= {kind: fields for kind, fields in action.items() if kind in ("metaData", "protocol")}
            for fields in (action["domainMetadata"],) if "domainMetadata" in action else ():
                domains.pop(fields["domain"], None)
                if not fields["removed"]:
                    domains[fields["domain"]] = fields
        by_version.append(described(state["metaData"], state["protocol"], domains))
    return by_version


def statements_of(commit: Commit) -> Sequence[Statement]:
    """The statement that was committed, or those of a transaction."""
    statement = commit.statement
    return statement.kept_statements if isinstance(statement, SeveralStatements) else [statement]


def numbered_once(outcome: Outcome) -> list[str]:
    """No write of an application is in the log twice, or after a later one; ALREADY_WRITTEN is raised only if it is."""
    progress: list[int] = []
    for version in range(len(outcome.commits) + 1):
        actions = parsed(outcome.played.store.read(commit_path(version)))
        versions = [action["txn"]["version"] for action in actions if "txn" in action]
        progress.append(max([*progress[-1:], *versions], default=0))
    faults = [
        f"version {commit.version}: {statement}, and write {progress[commit.version - 1]} is there"
        for commit in outcome.commits
        for statement in statements_of(commit)
        if isinstance(statement, Numbered) and progress[commit.version - 1] >= statement.number
    ]
    for refusal in outcome.refusals:
        if isinstance(refusal.statement, Numbered) and isinstance(refusal.error, ConcurrentTransactionException):
            is_there = progress[refusal.after] >= refusal.statement.number
            if is_there is not (refusal.error.reason is ConflictReason.ALREADY_WRITTEN):
                faults.append(f"T{refusal.number} gets {refusal.error.reason} after write {progress[refusal.after]}")
    return faults


def identity_values_are_unique(outcome: Outcome) -> list[str]:
    """No value of an identity column is in two commits, and each version's mark is the furthest made or reserved.

    A value of a row that a transaction has deleted again is in no commit, and another commit may make it again. A
    reservation begins behind the mark, and no statement is refused because of its numbers, but transactions of several.
    """
    faults = [
        f"T{refusal.number} is refused because of its numbers"
        for refusal in outcome.refusals
        if refusal.error.reason is ConflictReason.IDENTITY_COLUMNS and isinstance(refusal.statement, InsertGenerated)
    ]
    reserved = {
        commit.version: commit.statement for commit in outcome.commits if isinstance(commit.statement, ReserveNumbers)
    }
    furthest = 0
    used: set[int | None] = set()
    made = {
        commit.version: {row.v for row in rows}
        for commit in outcome.commits
        if (rows := [row for part in statements_of(commit) if isinstance(part, InsertGenerated) for row in part.rows])
    }
    committed = {commit.version: {row.v for row in commit.effect.inserted} for commit in outcome.commits}
    mark: int | None = None
    for version in range(len(outcome.commits) + 1 if made else 0):
        for action in parsed(outcome.played.store.read(commit_path(version))):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                (new_mark,) = (field["metadata"][MARK] for field in fields if MARK in field["metadata"])
                faults += (
                    [f"version {version}: the mark falls from {mark} to {new_mark}"] if mark and new_mark < mark else []
                )
                if version in reserved and mark and reserved[version].first <= mark:
                    faults.append(f"version {version}: {reserved[version]}, and the mark was {mark}")
                mark = new_mark
        if version in reserved:
            furthest = max(furthest, reserved[version].last)
            faults += [] if mark == furthest else [f"version {version}: the mark is {mark}, behind {furthest}"]
        if version in made:
            values = made[version] & committed[version]
            faults += [f"version {version}: value {value} again" for value in values & used]
            used |= values
            furthest = max(furthest, *(value for value in made[version] if value is not None))
            faults += [] if mark == furthest else [f"version {version}: the mark is {mark}, behind {furthest}"]
    return faults


def examples_are_rows_in_conflict(outcome: Outcome) -> list[str]:
    """The rows that a conflict shows are rows that the loser deletes, or that one of its conditions finds."""
    faults = []
    for refusal in outcome.refusals:
        error, deletes = refusal.error, isinstance(refusal.error, ConcurrentDeleteDeleteException)
        by_position = any(example.startswith("row ") for example in error.example_keys)
        if (by_position and not refusal.calls_failed) or len(error.example_keys) > 3:
            faults.append(f"T{refusal.number} is shown {error.example_keys}")
        if error.reason is ConflictReason.ROW_LEVEL_CHANGES and not error.example_keys:
            faults.append(f"T{refusal.number} is shown no row of those in conflict")
        manner = outcome.history.manner
        if not (manner.reevaluates and manner.names_rows) or _names_no_rows(refusal.statement):
            continue
        for row in [_row_shown(outcome, example) for example in error.example_keys]:
            looks = refusal.plan.looks
            if row not in refusal.effect.deleted if deletes else not any(look.condition(row) for look in looks):
                faults.append(f"T{refusal.number}, {refusal.statement}, is shown {row}, which is nothing to it")
    return faults


def _row_shown(outcome: Outcome, example: str) -> Row:
    """A row by its values, or by its position in a file where they could not be read."""
    position = re.fullmatch(r"row (\d+) of (.*)", example)
    return row_of_words(example) if position is None else outcome.played.data[position[2]][int(position[1])]


def _names_no_rows(statement: Statement) -> bool:
    if isinstance(statement, SeveralStatements):
        return statement.names_no_rows
    return isinstance(statement, ReplaceWhere | Restore)


def row_of_words(text: str) -> Row:
    """The row of a text such as `k = 1, v = NULL`."""
    values = dict(part.split(" = ") for part in text.split(", "))
    return Row(**{name: None if value == "NULL" else int(value) for name, value in values.items()})


def replay_oracle(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """Judge C1: the log is a serial order. Each statement, run again at its place, does what it did."""
    faults = []
    rows = tables[0]
    by_version = descriptions(outcome.played)
    for commit in outcome.commits:
        statement = commit.statement.with_columns(len(by_version[commit.version - 1].columns))
        effect = statement.effect(as_rows(rows))
        if effect != commit.effect:
            faults.append(
                f"version {commit.version}: T{commit.number}, {commit.statement}, run at its place deletes "
                f"{dict(effect.deleted)} and inserts {dict(effect.inserted)}, not {dict(commit.effect.deleted)} and "
                f"{dict(commit.effect.inserted)}"
            )
        rows = rows - effect.deleted + effect.inserted
        if rows != tables[commit.version]:
            faults.append(f"version {commit.version} is {dict(tables[commit.version])}, a serial run has {dict(rows)}")
    return faults


def witness(outcome: Outcome, first: Counter[Row], last: Counter[Row], columns: Sequence[str] = ()) -> list[str]:
    """Judge C2: some order of the statements explains the table. The one that the rules mean is tried first."""
    if explains(reordered(outcome.commits), first, last, columns):
        return []
    if _sees_columns(outcome.commits) and has_serial_order(outcome.commits, first, last, columns):
        return []
    if len(outcome.commits) <= ORDERED_MAX and has_serial_order(outcome.commits, first, last, columns):
        return [f"only another order than {[commit.number for commit in reordered(outcome.commits)]} explains it"]
    return [f"no order of {[f'T{commit.number}' for commit in outcome.commits]} explains the table {dict(last)}"]


def _sees_columns(commits: Sequence[Commit]) -> bool:
    """Whether a statement depends on the columns of the table. It may come before those that others have added."""
    return any(isinstance(commit.statement, InsertByPosition | DeleteByColumns) for commit in commits)


def reordered(commits: Sequence[Commit]) -> list[Commit]:
    """The log, but with each blind append after the last statement that was committed after it and ignored it."""
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
    readers = (
        other
        for other in between
        if other.plan.looks and not other.is_blind and not isinstance(other.statement, Optimize | Alter | Backfill)
    )
    if any(other.read_version >= append.version for other in readers):
        return False
    return any(look.condition(row) for look in commit.plan.looks for row in append.effect.inserted)


def explains(order: Sequence[Commit], first: Counter[Row], last: Counter[Row], columns: Sequence[str] = ()) -> bool:
    """Whether each statement, run in this order, does what it did."""
    rows = first
    described = _description_of(columns)
    for commit in order:
        described = _described_after(commit, described)
        effect = commit.statement.with_columns(len(described.columns)).effect(as_rows(rows))
        if effect != commit.effect:
            return False
        rows = rows - effect.deleted + effect.inserted
    return rows == last


def has_serial_order(
    commits: Sequence[Commit], first: Counter[Row], last: Counter[Row], columns: Sequence[str] = ()
) -> bool:
    """Whether any order explains the table. What commits there are, not their order, decides the rows after them."""
    dead_ends: set[tuple[frozenset[int], Description]] = set()

    def goes_on(rows: Counter[Row], described: Description, left: frozenset[int]) -> bool:
        if not left:
            return rows == last
        if (left, described) in dead_ends:
            return False
        for number in left:
            commit = commits[number]
            after = _described_after(commit, described)
            effect = commit.statement.with_columns(len(after.columns)).effect(as_rows(rows))
            if effect == commit.effect and goes_on(rows - effect.deleted + effect.inserted, after, left - {number}):
                return True
        dead_ends.add((left, described))
        return False

    return goes_on(first, _description_of(columns), frozenset(range(len(commits))))


def _description_of(columns: Sequence[str]) -> Description:
    return Description(tuple(columns), (), (), frozenset())


def _described_after(commit: Commit, described: Description) -> Description:
    if not isinstance(commit.statement, Alter):
        return described
    # A statement that adds a column which is there has been committed without effect.
    return commit.statement.change(described) or described


def is_needless(refusal: Refusal, tables: Sequence[Counter[Row]]) -> bool:
    """Whether a statement that was refused would have done the same, run at the end of the log at that time."""
    rows = tables[refusal.after]
    return refusal.statement.effect(as_rows(rows)) == refusal.effect
