"""Rows of played tables, found in other files by their values."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory_store import MemoryStore
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.rows.row_access import FindRows, RowPositions, StoredVectors
from concurrency.conditions import Row


def finding(store: MemoryStore, data: Mapping[str, tuple[Row, ...]]) -> FindRows:
    """Of rows of the same values it takes the one that stands last: hardly ever the very row that was meant."""

    def find(_: Snapshot, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]) -> list[RowPositions] | None:
        hidden = StoredVectors(store, random.Random(0)).hidden(outputs)
        free = [
            (number, position, row)
            for number, (add, gone) in enumerate(zip(outputs, hidden, strict=True))
            for position, row in enumerate(data[add.path])
            if position not in gone
        ]
        found = []
        for each in rows:
            places = []
            for position in each.positions or ():
                wanted = data[each.file.path][position]
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

    return find
