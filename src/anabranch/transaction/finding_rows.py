"""Rows that were written to other files as they are, found there by their values.

Two rows of the same values are one to every statement: what holds for one of them holds for the other, and a table
that lost one of them is the same as if it had lost the other. So it does not matter which of them is taken for which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.row_moves import Positions, sorted_positions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPlaces:
    """Where rows of one file stand now, in ascending order of where they stood."""

    outputs: npt.NDArray[np.int64]
    """Numbers of files."""
    positions: Positions

    def of(self, rows: BitMap64, *, among: BitMap64, output_count: int) -> list[BitMap64]:
        """The places of `rows`, by output. `among` are the rows whose places these are."""
        chosen = np.searchsorted(sorted_positions(among), sorted_positions(rows))
        outputs, positions = self.outputs[chosen], self.positions[chosen]
        return [BitMap64(positions[outputs == number]) for number in range(output_count)]


FindRows = Callable[[Snapshot, Sequence[RowsOfFile], Sequence[AddFile]], Sequence[RowPlaces] | None]
"""Where these rows stand among the rows that some newer files show, an entry each; no place is given twice. The rows
were live once and look as in the snapshot. None where a row is not to be found, or values cannot be compared."""


def checked_places(
    places: Sequence[RowPlaces] | None, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> Sequence[RowPlaces] | None:
    """`places`, if each row has one of its own."""
    if places is None or len(places) != len(rows):
        return None
    if any(len(found.positions) != len(each.positions or ()) for found, each in zip(places, rows, strict=True)):
        return None
    pairs = [
        (int(output), int(row)) for each in places for output, row in zip(each.outputs, each.positions, strict=True)
    ]
    if len(set(pairs)) != len(pairs) or any(not 0 <= output < len(outputs) for output, _ in pairs):
        return None
    return places
