"""Positions of rows in a file, as arrays and as bitmaps."""

from __future__ import annotations

import array

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

Positions = npt.NDArray[np.uint64]
"""Ascending, from zero."""


def sorted_positions(positions: BitMap64) -> Positions:
    """The positions as an ascending array."""
    return np.asarray(positions.to_array(), dtype=np.uint64)


def bitmap_of(positions: Positions) -> BitMap64:
    """The positions as a bitmap, in any order."""
    # From numpy's own arrays the library takes one number after the other, in four times the time.
    return BitMap64(array.array("Q", positions.astype(np.uint64, copy=False).tobytes()))
