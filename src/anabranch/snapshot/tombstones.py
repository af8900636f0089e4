"""Files that were removed, kept for VACUUM and for checkpoints. See "Action Reconciliation"."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.file_columns import logical_keys
from anabranch.snapshot.reconciliation import FileChanges, no_tombstones, subtract

LAYERS_MAX = 64
"""Commits noted before they are worked in, so that the chain behind a long-lived table stays short."""


class Tombstones:
    """The tombstones of one version. Immutable; worked out when asked for, since reading needs none."""

    def __init__(self, load: Callable[[], pa.Table] = no_tombstones, layers: tuple[FileChanges, ...] = ()) -> None:
        self._load = load
        self._layers = layers

    @functools.cached_property
    def table(self) -> pa.Table:
        """One row a logical file: `TOMBSTONE_SCHEMA`."""
        table = self._load()
        for changes in self._layers:
            keys = pa.chunked_array(
                [*_chunks(logical_keys(changes.adds)), *_chunks(logical_keys(changes.removes))], pa.string()
            )
            table = pa.concat_tables([subtract(table, keys), changes.removes])
        return table

    def apply(self, changes: FileChanges) -> Tombstones:
        """The tombstones after these changes."""
        if not changes.count:
            return self
        if len(self._layers) >= LAYERS_MAX:
            worked_in = self.table
            return Tombstones(lambda: worked_in, (changes,))
        return Tombstones(self._load, (*self._layers, changes))

    def retained(self, *, after_ms: int) -> pa.Table:
        """Those removed later than `after_ms`; one without a time counts as removed at the epoch, as in Delta."""
        table = self.table
        removed_at = pc.fill_null(table["deletion_timestamp"], 0)
        return table.filter(pc.greater(removed_at, after_ms))


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
