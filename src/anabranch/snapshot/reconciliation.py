"""Reconciliation of file actions: the newest of a logical file counts. See "Action Reconciliation"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cached_property import cached_property
from anabranch.log.file_columns import (
    TOMBSTONE_SCHEMA,
    logical_keys,
    logical_keys_of,
    table_of_adds,
    table_of_removes,
)
from anabranch.protocol.actions import AddFile, RemoveFile

PENDING_MAX = 50_000
"""File actions that are objects before they are converted to columns; a commit may have millions."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The changes of consecutive commits to the files of a table. No logical file occurs twice."""

    adds: pa.Table
    """Files added and still live, with the columns of `LIVE_FILE_SCHEMA`."""
    removes: pa.Table
    """Files removed and not added again, with the columns of `TOMBSTONE_SCHEMA`."""

    @property
    def count(self) -> int:
        return int(self.adds.num_rows + self.removes.num_rows)


class FileReconciler:
    """Receives the file actions of consecutive commits in order and keeps the newest of each logical file.

    At most `PENDING_MAX` actions are objects at a time, so that most of the memory needed is that of the columns.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str | None], AddFile | RemoveFile] = {}
        self._flushed: list[FileChanges] = []

    def take(self, action: AddFile | RemoveFile) -> None:
        key = action.key
        self._pending.pop(key, None)
        self._pending[key] = action
        if len(self._pending) >= PENDING_MAX:
            self._flush()

    def changes(self) -> FileChanges:
        """The net changes of all actions received so far."""
        if self._pending or not self._flushed:
            self._flush()
        if len(self._flushed) > 1:
            self._flushed = [_newest_of(self._flushed)]
        return self._flushed[0]

    def _flush(self) -> None:
        actions = self._pending.values()
        self._flushed.append(
            FileChanges(
                adds=table_of_adds([action for action in actions if isinstance(action, AddFile)]),
                removes=table_of_removes([action for action in actions if isinstance(action, RemoveFile)]),
            )
        )
        self._pending = {}


def _newest_of(batches: list[FileChanges]) -> FileChanges:
    """The net changes of batches, oldest first, each without a logical file that occurs twice."""
    adds = pa.concat_tables([batch.adds for batch in batches])
    removes = pa.concat_tables([batch.removes for batch in batches])
    generations = np.concatenate(
        [np.full(batch.adds.num_rows, number) for number, batch in enumerate(batches)]
        + [np.full(batch.removes.num_rows, number) for number, batch in enumerate(batches)]
    )
    keys = logical_keys_of(adds, removes)
    # A key occurs once in a batch, so that (key, generation) is unique, and the newest row of a key is
    # the one with its largest generation.
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    newest = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(newest, codes, generations)
    kept = newest[codes] == generations
    if kept.all():
        return FileChanges(adds=adds, removes=removes)
    return FileChanges(
        adds=adds.filter(pa.array(kept[: adds.num_rows])), removes=removes.filter(pa.array(kept[adds.num_rows :]))
    )


def no_tombstones() -> pa.Table:
    """An empty table of tombstones."""
    return TOMBSTONE_SCHEMA.empty_table()


def without_keys(table: pa.Table, keys: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The rows whose logical key is not in `keys`."""
    if len(keys) == 0 or table.num_rows == 0:
        return table
    matches = pc.is_in(logical_keys(table), value_set=keys)
    return table.filter(pc.invert(matches))


# Removed files, which VACUUM and checkpoints need. See "Action Reconciliation".


LAYERS_MAX = 64
"""Commits that are kept apart before they are merged, which bounds the memory of a table open for long."""


class Tombstones:
    """The tombstones of one version. Immutable; computed at first use, since reading needs none."""

    def __init__(self, load: Callable[[], pa.Table] = no_tombstones, layers: tuple[FileChanges, ...] = ()) -> None:
        self._load = load
        self._layers = layers

    @cached_property
    def table(self) -> pa.Table:
        """One row per logical file, with the columns of `TOMBSTONE_SCHEMA`."""
        if not self._layers:
            return self._load()
        # Keys of all tombstones are compared once, not once per commit: a table may have many.
        changes = _newest_of(list(self._layers))
        keys = logical_keys_of(changes.adds, changes.removes)
        return pa.concat_tables([without_keys(self._load(), keys), changes.removes]).combine_chunks()

    def apply(self, changes: FileChanges) -> Tombstones:
        """The tombstones after these changes."""
        if not changes.count:
            return self
        if len(self._layers) >= LAYERS_MAX or "table" in vars(self):
            merged = self.table
            return Tombstones(lambda: merged, (changes,))
        return Tombstones(self._load, (*self._layers, changes))

    def retained(self, *, after_ms: int) -> pa.Table:
        """The tombstones removed after `after_ms`; one without a time counts as removed at the epoch, as in Delta."""
        table = self.table
        removed_at = pc.fill_null(table["deletion_timestamp"], 0)
        return table.filter(pc.greater(removed_at, after_ms))
