"""Moved rows that were found in their new files by their values.

No statement can distinguish two rows with the same values: what is true of one is true of the other, and a table
without the one is the same as a table without the other. So it does not matter which of them is taken for which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from anabranch.deletion_vectors.bitmap_format import Positions, bitmap_of, sorted_positions
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.read_set import RowsOfFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPositions:
    """The new positions of rows of one file, in ascending order of their old positions."""

    outputs: npt.NDArray[np.int64]
    """For each row the index of its output file."""
    positions: Positions

    def of(self, rows: BitMap64, *, among: BitMap64, output_count: int) -> list[BitMap64]:
        """The new positions of `rows`, for each output. `among` are all rows of which this holds the positions."""
        chosen = np.searchsorted(sorted_positions(among), sorted_positions(rows))
        outputs, positions = self.outputs[chosen], self.positions[chosen]
        return [bitmap_of(positions[outputs == number]) for number in range(output_count)]


FindRows = Callable[[Snapshot, Sequence[RowsOfFile], Sequence[AddFile]], Sequence[RowPositions] | None]
"""Finds these rows among the visible rows of newer files, and returns one entry for each entry of rows; no position is
returned twice. The rows were live once and have the values of the snapshot. None where a row is missing, or values
cannot be compared."""


def checked_positions(
    located: Sequence[RowPositions] | None, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> Sequence[RowPositions] | None:
    """`located`, if it has a position for each row and none twice; else None."""
    if located is None or len(located) != len(rows):
        return None
    counts = zip(located, rows, strict=True)
    if any(len(new.positions) != len(old.positions or ()) for new, old in counts):
        return None
    pairs = [(int(output), int(row)) for new in located for output, row in zip(new.outputs, new.positions, strict=True)]
    if len(set(pairs)) != len(pairs) or any(not 0 <= output < len(outputs) for output, _ in pairs):
        return None
    return located
