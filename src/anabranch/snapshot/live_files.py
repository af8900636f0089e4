"""The files of one version, as columns. See "Action Reconciliation"."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.log.file_columns import LIVE_FILE_SCHEMA, adds_of_table, logical_keys
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.file_block import FileBlock
from anabranch.snapshot.file_summary import FileSummary
from anabranch.snapshot.reconciliation import FileChanges


class LiveFiles:
    """The live logical files of one version. Immutable; versions share what they have in common.

    Kept as blocks, oldest and largest first: a checkpoint is one block, and what commits add is small
    blocks behind it. A commit marks rows of older blocks dead and copies none of them.
    """

    def __init__(self, blocks: Sequence[FileBlock] = ()) -> None:
        self._blocks = tuple(block for block in blocks if block.count)

    @classmethod
    def of_table(cls, table: pa.Table) -> LiveFiles:
        """From columns as in `LIVE_FILE_SCHEMA`, no logical file twice."""
        return cls([FileBlock.of_table(table)])

    @functools.cached_property
    def count(self) -> int:
        """How many there are."""
        return sum(block.count for block in self._blocks)

    @property
    def size_bytes(self) -> int:
        """Sum of the sizes of their data files."""
        return self.summary.size_bytes

    @functools.cached_property
    def summary(self) -> FileSummary:
        """Histograms and sums, for version checksums."""
        summaries = [block.summary for block in self._blocks]
        return sum(summaries[1:], start=summaries[0]) if summaries else FileSummary.of_table(self.table)

    @functools.cached_property
    def table(self) -> pa.Table:
        """All of them, one row a file: `LIVE_FILE_SCHEMA`."""
        return self.columns(*LIVE_FILE_SCHEMA.names)

    def columns(self, *names: str) -> pa.Table:
        """Some of the columns, rows as in `table`. Leaving out `stats` saves loading it from a checkpoint."""
        if len(self._blocks) == 1:
            return self._blocks[0].columns(names)
        schema = pa.schema([LIVE_FILE_SCHEMA.field(name) for name in names])
        return pa.concat_tables([schema.empty_table(), *(block.columns(names) for block in self._blocks)])

    def to_actions(self, mask: np.ndarray | pa.Array | None = None, *, data_change: bool = False) -> list[AddFile]:
        """The files where `mask`, by row of `table`, is true; all without a mask."""
        chosen = self.table if mask is None else self.table.filter(pa.array(mask))
        return adds_of_table(chosen, data_change=data_change)

    def find(self, path: str, vector_id: str | None = None) -> AddFile | None:
        """The live file of this identity: the path as in the log, and the id of its vector."""
        key = path if vector_id is None else f"{path}\n{vector_id}"
        for block in self._blocks:
            positions = block.positions_of(pa.array([key]), pa.array([path]))
            if len(positions):
                return adds_of_table(block.take(positions), data_change=False)[0]
        return None

    def at_path(self, path: str) -> list[AddFile]:
        """The live files of this path: one, unless the log breaks the protocol."""
        found: list[AddFile] = []
        for block in self._blocks:
            found += adds_of_table(block.take(block.positions_at(pa.array([path]))), data_change=False)
        return found

    def apply(self, changes: FileChanges) -> LiveFiles:
        """The files after these changes."""
        if not changes.count:
            return self
        keys = pa.concat_arrays([*_chunks(logical_keys(changes.adds)), *_chunks(logical_keys(changes.removes))])
        paths = pa.concat_arrays([*changes.adds["path"].chunks, *changes.removes["path"].chunks])
        blocks = [block.without(block.positions_of(keys, paths)) for block in self._blocks]
        return LiveFiles(_merge_small([*blocks, FileBlock.of_table(changes.adds)]))


def _merge_small(blocks: list[FileBlock]) -> list[FileBlock]:
    """Join the last blocks while the one before is not much larger, so that their number grows with the logarithm."""
    blocks = [block for block in blocks if block.count]
    while len(blocks) > 1 and blocks[-2].count <= 2 * blocks[-1].count:
        joined = FileBlock.of_table(pa.concat_tables([block.columns(LIVE_FILE_SCHEMA.names) for block in blocks[-2:]]))
        blocks[-2:] = [joined]
    return blocks


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
