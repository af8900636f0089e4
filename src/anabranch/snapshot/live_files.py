"""The live files of a version, as columns. See "Action Reconciliation"."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cached_property import cached_property
from anabranch.log.checksum import FILE_SIZE_BOUNDARIES, FileSizeHistogram, deleted_record_counts, file_size_histogram
from anabranch.log.file_columns import (
    COLUMNS_WITHOUT_STATS,
    LIVE_FILE_SCHEMA,
    CompressedTexts,
    adds_of_table,
    logical_keys,
    logical_keys_of,
)
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.path_fingerprints import fingerprints

# Totals in a version checksum. They can be added and subtracted, so that a commit updates them by its own files.


SUMMARY_COLUMNS = ("size", "deletion_vector")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """Totals of the sizes and deletion vectors of files."""

    size_bytes: int
    file_counts: np.ndarray
    """The number of files per bin of `FILE_SIZE_BOUNDARIES`."""
    total_bytes: np.ndarray
    deleted_records: int
    deletion_vectors: int
    deleted_counts: np.ndarray
    """The number of files per bin of the histogram of deleted records."""

    @classmethod
    def of_table(cls, table: pa.Table) -> FileSummary:
        """The summary of files with at least the columns `SUMMARY_COLUMNS`."""
        sizes = pc.fill_null(table["size"], 0).to_numpy()
        histogram = file_size_histogram(sizes)
        vectors = table["deletion_vector"]
        deletion_vectors = len(vectors) - vectors.null_count
        if deletion_vectors:
            hidden = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_numpy()
        else:
            hidden = np.zeros(len(vectors), dtype=np.int64)
        return cls(
            size_bytes=int(sizes.sum()),
            file_counts=np.array(histogram.file_counts, dtype=np.int64),
            total_bytes=np.array(histogram.total_bytes, dtype=np.int64),
            deleted_records=int(hidden.sum()),
            deletion_vectors=deletion_vectors,
            deleted_counts=np.array(deleted_record_counts(hidden), dtype=np.int64),
        )

    def __add__(self, other: FileSummary) -> FileSummary:
        return self._combined(other, sign=1)

    def __sub__(self, other: FileSummary) -> FileSummary:
        return self._combined(other, sign=-1)

    @property
    def file_sizes(self) -> FileSizeHistogram:
        return FileSizeHistogram(
            boundaries=FILE_SIZE_BOUNDARIES,
            file_counts=tuple(self.file_counts.tolist()),
            total_bytes=tuple(self.total_bytes.tolist()),
        )

    def _combined(self, other: FileSummary, *, sign: int) -> FileSummary:
        return FileSummary(
            size_bytes=self.size_bytes + sign * other.size_bytes,
            file_counts=self.file_counts + sign * other.file_counts,
            total_bytes=self.total_bytes + sign * other.total_bytes,
            deleted_records=self.deleted_records + sign * other.deleted_records,
            deletion_vectors=self.deletion_vectors + sign * other.deletion_vectors,
            deleted_counts=self.deleted_counts + sign * other.deleted_counts,
        )


# Files as columns, some of which may have been removed by later commits.


PROBE_MAX = 64
"""The most paths that are looked up by fingerprint; for more, comparing all rows is faster."""
DIRECT_LOOKUPS = 8
"""That many lookups compare all paths, 10 ms for a million; after them, fingerprints are worth their 100 ms."""
CUTS_MAX = 256
"""With at most this many dead rows the live ones are slices of the table; with more they are copied."""
JOINED_ROWS_MAX = 1024
"""Joined blocks of at most this many rows become one chunk: each read of rows takes time for every chunk."""


class FileRows:
    """Rows of files. Their statistics are compressed, and may be loaded at their first use."""

    def __init__(self, table: pa.Table, load_stats: Callable[[], CompressedTexts]) -> None:
        """`table` has the columns of `LIVE_FILE_SCHEMA` without `stats`, which are loaded in the same order."""
        self._table = table
        self._load_stats: Callable[[], CompressedTexts] | None = load_stats
        self._loaded = CompressedTexts()
        self._lock = threading.Lock()
        self._lookups = 0

    @property
    def num_rows(self) -> int:
        return int(self._table.num_rows)

    @property
    def stats(self) -> CompressedTexts:
        """The statistics of all rows."""
        with self._lock:
            if self._load_stats is not None:
                self._loaded = self._load_stats()
                # The function may hold the checkpoint.
                self._load_stats = None
            return self._loaded

    def columns(self, names: Sequence[str]) -> pa.Table:
        """These columns of all rows."""
        if "stats" not in names:
            return self._table.select(list(names))
        return _with_stats(self._table, pa.chunked_array(list(self.stats.batches()), pa.string()), names)

    def rows_at(self, positions: np.ndarray) -> pa.Table:
        """The rows at these ascending positions, with all columns."""
        if not len(positions):
            return LIVE_FILE_SCHEMA.empty_table()
        return _with_stats(_rows_at(self._table, positions), self.stats.at(positions), LIVE_FILE_SCHEMA.names)

    def positions_at(self, paths: pa.Array) -> np.ndarray:
        """Positions of the rows whose path is one of `paths`."""
        column = self._table["path"]
        self._lookups += 1
        if len(paths) > PROBE_MAX or self._lookups <= DIRECT_LOOKUPS:
            hits: np.ndarray = pc.is_in(column, value_set=paths).to_numpy()
            return np.flatnonzero(hits)
        candidates = np.flatnonzero(np.isin(self._path_fingerprints, fingerprints(paths)))
        same: np.ndarray = pc.is_in(_rows_at(self.columns(["path"]), candidates)["path"], value_set=paths).to_numpy()
        matches: np.ndarray = candidates[same]
        return matches

    def repeated(self) -> np.ndarray:
        """Positions of the rows whose logical file is in a later row again."""
        ordered = np.sort(self._path_fingerprints)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(twice):
            return np.empty(0, dtype=np.int64)
        candidates = np.flatnonzero(np.isin(self._path_fingerprints, twice))
        keys = logical_keys(_rows_at(self.columns(["path", "deletion_vector"]), candidates)).to_pylist()
        last = dict(zip(keys, candidates, strict=True))
        return np.array([row for key, row in zip(keys, candidates, strict=True) if last[key] != row], np.int64)

    @cached_property
    def summary(self) -> FileSummary:
        """The summary of all rows."""
        return FileSummary.of_table(self.columns(SUMMARY_COLUMNS))

    @cached_property
    def _path_fingerprints(self) -> np.ndarray:
        return fingerprints(self._table["path"])


class FileBlock:
    """Rows of files, and which of them are dead. Immutable.

    Many versions may be in memory, such as those of the statements of a transaction. They share the rows, and what is
    their own is as large as the number of dead rows.
    """

    def __init__(self, rows: FileRows, dead: np.ndarray | None = None) -> None:
        """`dead` are ascending positions."""
        self._rows = rows
        self._dead = np.empty(0, dtype=np.int64) if dead is None else dead
        self.count = rows.num_rows - len(self._dead)

    @classmethod
    def of_table(cls, table: pa.Table) -> FileBlock:
        """The block of all rows of a table with the columns of `LIVE_FILE_SCHEMA`."""
        stats = CompressedTexts([table["stats"]])
        return cls(FileRows(table.select(list(COLUMNS_WITHOUT_STATS)), lambda: stats))

    @classmethod
    def joined(cls, blocks: Sequence[FileBlock]) -> FileBlock:
        """The live rows of several blocks as one."""
        stats = CompressedTexts(batch for block in blocks for batch in block.stats_batches())
        table = pa.concat_tables([block.columns(COLUMNS_WITHOUT_STATS) for block in blocks])
        return cls(FileRows(table.combine_chunks() if len(table) <= JOINED_ROWS_MAX else table, lambda: stats))

    def columns(self, names: Sequence[str]) -> pa.Table:
        """These columns of the live rows."""
        table = self._rows.columns(names)
        if not len(self._dead):
            return table
        if len(self._dead) <= CUTS_MAX:
            return _without_rows(table, self._dead)
        return table.filter(_all_but(self._dead, table.num_rows))

    @cached_property
    def summary(self) -> FileSummary:
        """The summary of the live rows: that of all rows, which versions share, minus that of the dead ones."""
        if not len(self._dead):
            return self._rows.summary
        if len(self._dead) > self.count:
            return FileSummary.of_table(self.columns(SUMMARY_COLUMNS))
        return self._rows.summary - FileSummary.of_table(_rows_at(self._rows.columns(SUMMARY_COLUMNS), self._dead))

    def stats_batches(self) -> Iterator[pa.Array]:
        """The statistics of the live rows, some rows at a time."""
        start = 0
        for batch in self._rows.stats.batches():
            first, last = np.searchsorted(self._dead, (start, start + len(batch)))
            dead = self._dead[first:last] - start
            yield batch.filter(_all_but(dead, len(batch))) if len(dead) else batch
            start += len(batch)

    def live_rows(self, positions: np.ndarray) -> pa.Table:
        """The rows at these ascending positions, which count live rows only, with all columns."""
        # Before a dead row are as many live ones as its position less the dead ones before it.
        live_before = self._dead - np.arange(len(self._dead))
        return self.take(positions + np.searchsorted(live_before, positions, side="right"))

    def take(self, positions: np.ndarray) -> pa.Table:
        """The rows at these ascending positions, which count dead rows too, with all columns."""
        return self._rows.rows_at(positions)

    def without(self, positions: np.ndarray) -> FileBlock:
        """The block with these live rows dead, too; their positions are ascending."""
        if not len(positions):
            return self
        return FileBlock(self._rows, np.insert(self._dead, np.searchsorted(self._dead, positions), positions))

    def positions_of(self, keys: pa.Array, paths: pa.Array) -> np.ndarray:
        """Positions of the live rows whose logical key is one of `keys`; `paths` are the paths of those."""
        candidates = self.positions_at(paths)
        if not len(candidates):
            return candidates
        candidate_keys = logical_keys(_rows_at(self._rows.columns(["path", "deletion_vector"]), candidates))
        same: np.ndarray = pc.is_in(candidate_keys, value_set=keys).to_numpy(zero_copy_only=False)
        matches: np.ndarray = candidates[same]
        return matches

    def positions_at(self, paths: pa.Array) -> np.ndarray:
        """Positions of the live rows whose path is one of `paths`."""
        positions = self._rows.positions_at(paths)
        at = np.searchsorted(self._dead, positions)
        is_dead = np.append(self._dead, -1)[at] == positions
        live: np.ndarray = positions[~is_dead]
        return live


def _fields_of(table: pa.Table) -> list[tuple[pa.Field, pa.ChunkedArray]]:
    return list(zip(table.schema, table.columns, strict=True))


def _all_but(dead: np.ndarray, num_rows: int) -> pa.Array:
    alive = np.ones(num_rows, dtype=bool)
    alive[dead] = False
    return pa.array(alive)


def _without_rows(table: pa.Table, dead: np.ndarray) -> pa.Table:
    starts = np.concatenate([[0], dead + 1])
    ends = np.append(dead, table.num_rows)
    slices = [table.slice(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
    return pa.concat_tables([table.slice(0, 0), *slices])


def _with_stats(table: pa.Table, stats: pa.ChunkedArray, names: Sequence[str]) -> pa.Table:
    """These columns of the table, to which statistics are added."""
    return table.append_column(LIVE_FILE_SCHEMA.field("stats"), stats).select(list(names))


def _rows_at(table: pa.Table, positions: np.ndarray) -> pa.Table:
    """The rows at these ascending positions. Arrow's `take` would first join all chunks of the table."""
    if len(positions):
        table = table.slice(int(positions[0]), int(positions[-1] - positions[0]) + 1)
        positions = positions - positions[0]
    if len(positions) == table.num_rows:
        return table
    if len(positions) <= CUTS_MAX:
        return pa.concat_tables([table.slice(0, 0), *(table.slice(int(position), 1) for position in positions)])
    selected = np.zeros(table.num_rows, dtype=bool)
    selected[positions] = True
    return table.filter(pa.array(selected))


class LiveFiles:
    """The live logical files of one version. Immutable; versions share their blocks.

    Blocks are in order, the oldest and largest first: a checkpoint is one block, and the files that commits add are
    in small blocks behind it. A commit marks rows of older blocks as dead and copies none of them.
    """

    def __init__(self, blocks: Sequence[FileBlock] = ()) -> None:
        self._blocks = tuple(block for block in blocks if block.count)

    @classmethod
    def of_table(cls, table: pa.Table) -> LiveFiles:
        """The files in a table with the columns of `LIVE_FILE_SCHEMA`, which has no logical file twice."""
        return cls([FileBlock.of_table(table)])

    @cached_property
    def count(self) -> int:
        """The number of files."""
        return sum(block.count for block in self._blocks)

    @property
    def size_bytes(self) -> int:
        """The total size of the data files."""
        return self.summary.size_bytes

    @cached_property
    def summary(self) -> FileSummary:
        """Totals and histograms, for version checksums."""
        summaries = [block.summary for block in self._blocks]
        return sum(summaries[1:], start=summaries[0]) if summaries else FileSummary.of_table(self.table)

    @cached_property
    def table(self) -> pa.Table:
        """All files, one per row, with the columns of `LIVE_FILE_SCHEMA` without `stats`."""
        return self.columns(*COLUMNS_WITHOUT_STATS)

    def columns(self, *names: str) -> pa.Table:
        """Some columns of `LIVE_FILE_SCHEMA`, in the order of `table`.

        Without `stats`, statistics are not loaded from the checkpoint. With `stats` the table is as large as all of
        them: `stats_batches` and `rows` need less memory.
        """
        if len(self._blocks) == 1:
            return self._blocks[0].columns(names)
        schema = pa.schema([LIVE_FILE_SCHEMA.field(name) for name in names])
        return pa.concat_tables([schema.empty_table(), *(block.columns(names) for block in self._blocks)])

    def stats_batches(self) -> Iterator[pa.Array]:
        """The statistics in the order of `table`, those of some files at a time."""
        for block in self._blocks:
            yield from block.stats_batches()

    def rows(self, positions: np.ndarray | Sequence[int]) -> pa.Table:
        """The rows of `table` at these positions, in this order, with all columns of `LIVE_FILE_SCHEMA`."""
        ascending, order = np.unique(np.asarray(positions, dtype=np.int64), return_inverse=True)
        tables, start = [LIVE_FILE_SCHEMA.empty_table()], 0
        for block in self._blocks:
            inside = ascending[np.searchsorted(ascending, start) : np.searchsorted(ascending, start + block.count)]
            tables.append(block.live_rows(inside - start))
            start += block.count
        selected = pa.concat_tables(tables)
        in_order = len(order) == len(ascending) and bool((np.diff(order) > 0).all())
        return selected if in_order else selected.take(pa.array(order))

    def to_actions(self, mask: np.ndarray | pa.Array | None = None, *, data_change: bool = False) -> list[AddFile]:
        """The files where `mask`, in the order of `table`, is true; all files without a mask."""
        positions = np.arange(self.count) if mask is None else np.flatnonzero(np.asarray(mask))
        return adds_of_table(self.rows(positions), data_change=data_change)

    def find(self, path: str, vector_id: str | None = None) -> AddFile | None:
        """The live file with this key: the path as in the log, and the id of its deletion vector."""
        key = path if vector_id is None else f"{path}\n{vector_id}"
        for block in self._blocks:
            positions = block.positions_of(pa.array([key]), pa.array([path]))
            if len(positions):
                return adds_of_table(block.take(positions), data_change=False)[0]
        return None

    def at_path(self, path: str) -> list[AddFile]:
        """The live files with this path: at most one, unless the log violates the protocol."""
        files: list[AddFile] = []
        for block in self._blocks:
            files += adds_of_table(block.take(block.positions_at(pa.array([path]))), data_change=False)
        return files

    def apply(self, adds: pa.Table, removes: pa.Table) -> LiveFiles:
        """The files after some commits, which added `adds` and removed `removes`. No logical file is in them twice."""
        if not adds.num_rows and not removes.num_rows:
            return self
        keys = logical_keys_of(adds, removes).combine_chunks()
        paths = pa.concat_arrays([*adds["path"].chunks, *removes["path"].chunks])
        blocks = [block.without(block.positions_of(keys, paths)) for block in self._blocks]
        return LiveFiles(_merge_small([*blocks, FileBlock.of_table(adds)]))


def _merge_small(blocks: list[FileBlock]) -> list[FileBlock]:
    """Merge the last blocks while their sizes are similar, so that the number of blocks is logarithmic."""
    blocks = [block for block in blocks if block.count]
    first, count = len(blocks) - 1, blocks[-1].count if blocks else 0
    while first > 0 and blocks[first - 1].count <= 2 * count:
        first -= 1
        count += blocks[first].count
    return blocks if first >= len(blocks) - 1 else [*blocks[:first], FileBlock.joined(blocks[first:])]
