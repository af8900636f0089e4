"""What a statement does to a table, as a plain function of the rows that it sees."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from anabranch_judge.recorded_history import Change, Statement
from anabranch_judge.rows import Condition, Row, Rows, key_of, matches, row_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The rows that a version lacks of the one before, and those that it has more."""

    removed: Rows
    added: Rows

    @staticmethod
    def between(before: Rows, after: Rows) -> Difference:
        """The difference of two tables."""
        return Difference(removed=before - after, added=after - before)

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)

    @property
    def rows(self) -> set[Row]:
        """All rows of the difference."""
        return {*self.removed, *self.added}


def effect(statement: Statement, rows: Rows, key: Sequence[str]) -> Difference:
    """What the statement would do to a table with these rows."""
    after = Counter(rows)
    for change in statement.changes:
        _apply(change, after, key)
    return Difference.between(rows, +after)


def conditions(statement: Statement, key: Sequence[str]) -> list[Condition]:
    """The conditions by which the changes of a statement select rows."""
    by_key = {"upsert", "insert if absent"}
    return [
        dict(key_of(row_of(change.row), key)) if change.kind in by_key else change.where
        for change in statement.changes
        if change.kind != "insert"
    ]


def _apply(change: Change, rows: Rows, key: Sequence[str]) -> None:
    if change.kind == "insert":
        rows[row_of(change.row)] += 1
        return
    where: Condition = change.where if change.kind in {"update", "delete"} else dict(key_of(row_of(change.row), key))
    selected = {row: count for row, count in rows.items() if count > 0 and matches(row, where)}
    if change.kind == "insert if absent":
        if not selected:
            rows[row_of(change.row)] += 1
        return
    for row, count in selected.items():
        del rows[row]
        if change.kind == "update":
            rows[_updated(row, change)] += count
    if change.kind == "upsert":
        rows[row_of(change.row)] += 1


def _updated(row: Row, change: Change) -> Row:
    values = dict(row)
    # A null plus a number is null.
    increased = {name: values[name] + number for name, number in change.increments.items() if name in values}  # type: ignore[operator]
    return row_of({**values, **change.values, **increased})
