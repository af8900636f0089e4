"""Rows of played tables, found in other files by their ids, or by their values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory_store import MemoryStore
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.rows.row_access import FindRows, RowPositions, StoredVectors
from concurrency.conditions import Row
from concurrency.played_ids import KeptIds, RowId, id_of

ToldBy = Callable[[AddFile, int], RowId | Row | None]


def finding(store: MemoryStore, data: Mapping[str, tuple[Row, ...]], kept: KeptIds) -> FindRows:
    """Of rows of the same values it takes the one that stands last: hardly ever the very row that was meant.

    Where rows have ids, they are found by these; by their values only where the new files know none of these.
    """

    def by_id(add: AddFile, position: int) -> RowId | None:
        return id_of(kept, add, position)

    def by_value(add: AddFile, position: int) -> Row:
        return data[add.path][position]

    def find(_: Snapshot, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]) -> list[RowPositions] | None:
        hidden = StoredVectors(store, random.Random(0)).hidden(outputs)
        shown = [set(range(len(data[add.path]))) - set(gone) for add, gone in zip(outputs, hidden, strict=True)]
        if all(each.file.base_row_id is not None for each in rows):
            found = _found(rows, outputs, shown, by_id)
            wanted = {id_of(kept, each.file, position) for each in rows for position in each.positions or ()}
            there = {
                id_of(kept, add, position) for add, places in zip(outputs, shown, strict=True) for position in places
            }
            if found is not None or {each and each.row_id for each in wanted} & {
                each and each.row_id for each in there
            }:
                return found
        return _found(rows, outputs, shown, by_value)

    return find


def _found(
    rows: Sequence[RowsOfFile], outputs: Sequence[AddFile], shown: Sequence[set[int]], told_by: ToldBy
) -> list[RowPositions] | None:
    free = [
        (number, position, told_by(add, position))
        for number, (add, positions) in enumerate(zip(outputs, shown, strict=True))
        for position in sorted(positions)
    ]
    found = []
    for each in rows:
        places = []
        for position in each.positions or BitMap64():
            wanted = told_by(each.file, position)
            place = next((place for place in reversed(free) if place[2] == wanted), None)
            if place is None:
                return None
            free.remove(place)
            places.append(place)
        found.append(
            RowPositions(
                outputs=np.array([number for number, _, _ in places], dtype=np.int64),
                positions=np.array([position for _, position, _ in places], dtype=np.uint64),
            )
        )
    return found
