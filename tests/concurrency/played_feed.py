"""The change data of statements on played tables, and the feed that a reader makes of a commit."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from anabranch.change_feed.feed_columns import DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.read_set import RowsOfFile
from concurrency.conditions import Row
from concurrency.played_table import PlayedTable
from concurrency.statements import Plan
from transactions.log_linter import hidden_rows, parsed

Change = tuple[str, Row]


def changes_of(plan: Plan, rows: Sequence[Row]) -> list[Change]:
    """The changes that a statement makes to these rows."""
    images = list(zip(plan.images_of, plan.inserts, strict=False))
    changes = [(UPDATE_PREIMAGE, rows[number]) for number, _ in images]
    changes += [(UPDATE_POSTIMAGE, row) for _, row in images]
    changes += [(DELETE, rows[number]) for number in sorted(plan.deletes - set(plan.images_of))]
    return [*changes, *((INSERT, row) for row in plan.inserts[len(images) :])]


@dataclasses.dataclass(frozen=True)
class PlayedChanges:
    """Writes change data files of a played table: a `ChangeDataWriter`."""

    played: PlayedTable

    def changes(self, *, deleted: Sequence[RowsOfFile], inserted: Sequence[RowsOfFile]) -> tuple[AddCDCFile, ...]:
        return self._written(self._rows(deleted), self._rows(inserted))

    def differences(self, before: Sequence[AddFile], after: Sequence[AddFile]) -> tuple[AddCDCFile, ...]:
        old, new = (
            Counter(self._rows([RowsOfFile(file=file, positions=None) for file in files])) for files in (before, after)
        )
        return self._written(list((old - new).elements()), list((new - old).elements()))

    def _rows(self, selected: Sequence[RowsOfFile]) -> list[Row]:
        hidden = self.played.hidden([rows.file for rows in selected])
        return [
            row
            for rows, vector in zip(selected, hidden, strict=True)
            for position, row in enumerate(self.played.data[rows.file.path])
            if position not in vector and (rows.positions is None or position in rows.positions)
        ]

    def _written(self, deleted: Sequence[Row], inserted: Sequence[Row]) -> tuple[AddCDCFile, ...]:
        files = self.played.write_changes([(DELETE, row) for row in deleted])
        return (*files, *self.played.write_changes([(INSERT, row) for row in inserted]))


def feed_of(played: PlayedTable, version: int) -> Counter[Change]:
    """The changes of a commit, from the log by itself. See "Reader Requirements for AddCDCFile"."""
    actions = parsed(played.store.read(commit_path(version)))
    change_files = [action["cdc"]["path"] for action in actions if "cdc" in action]
    if change_files:
        return Counter(change for path in change_files for change in played.changes[path])
    sides = [
        {action[kind]["path"]: action[kind] for action in actions if kind in action and action[kind]["dataChange"]}
        for kind in ("remove", "add")
    ]
    shown = [
        {
            (path, position)
            for path, file in files.items()
            for position in set(range(len(played.data[path]))) - set(hidden_rows(played.store, file) or ())
        }
        for files in sides
    ]
    return Counter(
        (change, played.data[path][position])
        for change, rows in ((DELETE, shown[0] - shown[1]), (INSERT, shown[1] - shown[0]))
        for path, position in rows
    )
