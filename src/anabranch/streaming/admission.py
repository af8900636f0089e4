"""The limits of a batch: how many files it takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Sizes = npt.NDArray[np.int64]
"""The sizes of files in bytes, in the order in which they are read."""


class Admission:
    """The room left in a batch. A batch takes at least one file, however large."""

    def __init__(self, *, files_max: int | None, bytes_max: int | None) -> None:
        """A limit of None is no limit."""
        self._files_left = files_max
        self._bytes_left = bytes_max
        self._is_empty = True

    def admit(self, sizes: Sizes, *, whole: bool = False) -> int:
        """How many of these files, from the first on, the batch takes; with `whole`, all or none of them."""
        taken = self._whole(sizes) if whole else self._one_by_one(sizes)
        if taken:
            self._is_empty = False
        if self._files_left is not None:
            self._files_left -= taken
        if self._bytes_left is not None:
            self._bytes_left -= int(sizes[:taken].sum())
        return taken

    def _one_by_one(self, sizes: Sizes) -> int:
        taken = len(sizes)
        if self._files_left is not None:
            taken = min(taken, max(self._files_left, 0))
        if self._bytes_left is not None:
            # A file is taken if the files before it are below the limit.
            before = np.cumsum(sizes) - sizes
            taken = min(taken, int(np.searchsorted(before, self._bytes_left, side="left")))
        return taken

    def _whole(self, sizes: Sizes) -> int:
        if self._is_empty:
            return len(sizes)
        fits = self._files_left is None or len(sizes) <= self._files_left
        fits = fits and (self._bytes_left is None or int(sizes.sum()) <= self._bytes_left)
        return len(sizes) if fits else 0
