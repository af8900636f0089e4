"""A run of files as columns, of which some may be dead by now."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.file_columns import LIVE_FILE_SCHEMA, logical_keys
from anabranch.snapshot.file_summary import COLUMNS, FileSummary
from anabranch.snapshot.fingerprints import fingerprints

PROBE_MAX = 64
"""Up to so many paths are looked up by fingerprint; for more, comparing all is faster."""
DIRECT_LOOKUPS = 8
"""So many look-ups compare all paths, 10 ms for a million; only then the fingerprints, 100 ms, are worth it."""
CUTS_MAX = 256
"""Up to so many dead rows the live ones are slices of what is there; beyond, they are copied."""


class FileRows:
    """Rows of files, all there from the start but for the columns that are loaded when first asked for."""

    def __init__(self, table: pa.Table, load_rest: Callable[[], pa.Table] | None = None) -> None:
        self._table = table
        self._load_rest = load_rest
        self._lock = threading.Lock()
        self._lookups = 0

    @property
    def num_rows(self) -> int:
        return int(self._table.num_rows)

    def columns(self, names: Sequence[str]) -> pa.Table:
        with self._lock:
            if self._load_rest is not None and not set(names) <= set(self._table.column_names):
                for field, column in _fields_of(self._load_rest()):
                    self._table = self._table.append_column(field, column)
                self._load_rest = None
            return self._table.select(list(names))

    def positions_at(self, paths: pa.Array) -> np.ndarray:
        """Positions of the rows whose path is one of `paths`."""
        column = self._table["path"]
        self._lookups += 1
        if len(paths) > PROBE_MAX or self._lookups <= DIRECT_LOOKUPS:
            hits: np.ndarray = pc.is_in(column, value_set=paths).to_numpy()
            return np.flatnonzero(hits)
        candidates = np.flatnonzero(np.isin(self._path_fingerprints, fingerprints(paths)))
        same: np.ndarray = pc.is_in(_rows_at(self.columns(["path"]), candidates)["path"], value_set=paths).to_numpy()
        found: np.ndarray = candidates[same]
        return found

    @functools.cached_property
    def summary(self) -> FileSummary:
        """Of all rows."""
        return FileSummary.of_table(self.columns(COLUMNS))

    @functools.cached_property
    def _path_fingerprints(self) -> np.ndarray:
        return fingerprints(self._table["path"])


class FileBlock:
    """Rows of files and which of them are still live. Immutable."""

    def __init__(self, rows: FileRows, alive: np.ndarray | None = None) -> None:
        self._rows = rows
        self._alive = alive
        self.count = rows.num_rows if alive is None else int(np.count_nonzero(alive))

    @classmethod
    def of_table(cls, table: pa.Table) -> FileBlock:
        return cls(FileRows(table))

    def columns(self, names: Sequence[str]) -> pa.Table:
        """The live rows."""
        table = self._rows.columns(names)
        if self._alive is None:
            return table
        dead = np.flatnonzero(~self._alive)
        return table.filter(pa.array(self._alive)) if len(dead) > CUTS_MAX else _without_rows(table, dead)

    @functools.cached_property
    def summary(self) -> FileSummary:
        """Of the live rows: that of all rows, which versions share, less the dead ones."""
        if self._alive is None:
            return self._rows.summary
        dead = np.flatnonzero(~self._alive)
        if len(dead) > self.count:
            return FileSummary.of_table(self.columns(COLUMNS))
        return self._rows.summary - FileSummary.of_table(_rows_at(self._rows.columns(COLUMNS), dead))

    def take(self, positions: np.ndarray) -> pa.Table:
        """The rows of these ascending positions, counted over dead ones too, with all columns."""
        return _rows_at(self._rows.columns(LIVE_FILE_SCHEMA.names), positions)

    def without(self, positions: np.ndarray) -> FileBlock:
        """The same with these rows dead."""
        if not len(positions):
            return self
        alive = np.ones(self._rows.num_rows, dtype=bool) if self._alive is None else self._alive.copy()
        alive[positions] = False
        return FileBlock(self._rows, alive)

    def positions_of(self, keys: pa.Array, paths: pa.Array) -> np.ndarray:
        """Positions of the live rows whose logical key is one of `keys`; `paths` are the paths of those."""
        candidates = self.positions_at(paths)
        if not len(candidates):
            return candidates
        found = logical_keys(_rows_at(self._rows.columns(["path", "deletion_vector"]), candidates))
        same: np.ndarray = pc.is_in(found, value_set=keys).to_numpy(zero_copy_only=False)
        matches: np.ndarray = candidates[same]
        return matches

    def positions_at(self, paths: pa.Array) -> np.ndarray:
        """Positions of the live rows whose path is one of `paths`."""
        found = self._rows.positions_at(paths)
        return found if self._alive is None else found[self._alive[found]]


def _fields_of(table: pa.Table) -> list[tuple[pa.Field, pa.ChunkedArray]]:
    return list(zip(table.schema, table.columns, strict=True))


def _without_rows(table: pa.Table, dead: np.ndarray) -> pa.Table:
    starts = np.concatenate([[0], dead + 1])
    ends = np.append(dead, table.num_rows)
    slices = [table.slice(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
    return pa.concat_tables([table.slice(0, 0), *slices])


def _rows_at(table: pa.Table, positions: np.ndarray) -> pa.Table:
    """The rows of these ascending positions. Arrow's `take` would first join all chunks of the table."""
    if len(positions) <= CUTS_MAX:
        return pa.concat_tables([table.slice(0, 0), *(table.slice(int(position), 1) for position in positions)])
    chosen = np.zeros(table.num_rows, dtype=bool)
    chosen[positions] = True
    return table.filter(pa.array(chosen))
