"""Rows of played tables, found in other files by their ids, or by their values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from anabranch.transactions.rows.located_rows import FindRows, RowPositions
from concurrency.conditions import Row
from concurrency.played_ids import KeptIds, RowId, id_of

RowIdentity = Callable[[AddFile, int], RowId | Row | None]


def finding(store: MemoryStore, data: Mapping[str, tuple[Row, ...]], kept: KeptIds) -> FindRows:
    """A `FindRows` that takes the last of several rows with the same values, which is hardly ever the same row.

    Where rows have ids, they are found by these; by their values only where the new files have none of these ids.
    """

    def by_id(add: AddFile, position: int) -> RowId | None:
        return id_of(kept, add, position)

    def by_value(add: AddFile, position: int) -> Row:
        return data[add.path][position]

    def find(_: Snapshot, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]) -> list[RowPositions] | None:
        hidden = StoredVectors(store, random.Random(0)).hidden(outputs)
        visible = [set(range(len(data[add.path]))) - set(gone) for add, gone in zip(outputs, hidden, strict=True)]
        if all(file_rows.file.base_row_id is not None for file_rows in rows):
            located = _located(rows, outputs, visible, by_id)
            moved = {
                id_of(kept, file_rows.file, position) for file_rows in rows for position in file_rows.positions or ()
            }
            in_outputs = {
                id_of(kept, add, position)
                for add, positions in zip(outputs, visible, strict=True)
                for position in positions
            }
            if located is not None or {row and row.row_id for row in moved} & {
                row and row.row_id for row in in_outputs
            }:
                return located
        return _located(rows, outputs, visible, by_value)

    return find


def _located(
    rows: Sequence[RowsOfFile], outputs: Sequence[AddFile], visible: Sequence[set[int]], identity_of: RowIdentity
) -> list[RowPositions] | None:
    free = [
        (number, position, identity_of(add, position))
        for number, (add, positions) in enumerate(zip(outputs, visible, strict=True))
        for position in sorted(positions)
    ]
    located = []
    for file_rows in rows:
        new_rows = []
        for position in file_rows.positions or BitMap64():
            identity = identity_of(file_rows.file, position)
            row = next((row for row in reversed(free) if row[2] == identity), None)
            if row is None:
                return None
            free.remove(row)
            new_rows.append(row)
        located.append(
            RowPositions(
                outputs=np.array([number for number, _, _ in new_rows], dtype=np.int64),
                positions=np.array([position for _, position, _ in new_rows], dtype=np.uint64),
            )
        )
    return located
