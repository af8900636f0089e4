"""How sizes and deletions spread over files.

See "File Size Histogram Schema" and "Deleted Record Counts Histogram Schema".
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Final

import numpy as np

_KB: Final = 1024
_MB: Final = 1024 * _KB
_GB: Final = 1024 * _MB


def _steps(*ranges: tuple[int, int, int]) -> list[int]:
    """Boundaries after each `start`, by `step`, up to and including `end`."""
    return [boundary for start, end, step in ranges for boundary in range(start + step, end + 1, step)]


FILE_SIZE_BOUNDARIES: Final[tuple[int, ...]] = (
    0,
    *(size * _KB for size in (8, 16, 32, 64, 128, 256, 512)),
    *(size * _MB for size in (1, 2, 4)),
    *_steps(
        (4 * _MB, 40 * _MB, 4 * _MB),
        (40 * _MB, 120 * _MB, 8 * _MB),
        (120 * _MB, 144 * _MB, 4 * _MB),
        (144 * _MB, 576 * _MB, 16 * _MB),
        (576 * _MB, 1408 * _MB, 64 * _MB),
        (1408 * _MB, 2 * _GB, 128 * _MB),
        (2 * _GB, 4 * _GB, 256 * _MB),
    ),
    *(size * _GB for size in (8, 16, 32, 64, 128, 256)),
)
"""The bins that Delta uses, so that histograms of different writers can be compared."""

DELETED_RECORDS_BOUNDARIES: Final[tuple[int, ...]] = (0, *(10**power for power in range(8)), 2**31 - 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeHistogram:
    """Files and their bytes by size; bin i holds sizes from boundary i up to the next."""

    boundaries: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.boundaries) == len(self.file_counts) == len(self.total_bytes) > 0:
            raise ValueError("the arrays of a histogram differ in length")
        if self.boundaries[0] != 0 or any(low >= high for low, high in pairwise(self.boundaries)):
            raise ValueError("the boundaries of a histogram do not ascend from 0")


def file_size_histogram(sizes: np.ndarray, boundaries: tuple[int, ...] = FILE_SIZE_BOUNDARIES) -> FileSizeHistogram:
    """The histogram of these file sizes in bytes; negative ones, which no file has, count as 0."""
    sizes = np.maximum(sizes.astype(np.int64), 0)
    bins = np.searchsorted(np.array(boundaries), sizes, side="right") - 1
    counts = np.bincount(bins, minlength=len(boundaries))
    totals = np.zeros(len(boundaries), dtype=np.int64)
    # Not `bincount` with weights, which would add in floating point and lose bytes beyond 2^53.
    np.add.at(totals, bins, sizes)
    return FileSizeHistogram(
        boundaries=boundaries, file_counts=tuple(counts.tolist()), total_bytes=tuple(totals.tolist())
    )


def deleted_record_counts(cardinalities: np.ndarray) -> tuple[int, ...]:
    """Files by how many of their rows are hidden, 0 where there is no vector."""
    bins = np.searchsorted(np.array(DELETED_RECORDS_BOUNDARIES), cardinalities, side="right") - 1
    counts = np.bincount(np.maximum(bins, 0), minlength=len(DELETED_RECORDS_BOUNDARIES))
    return tuple(counts.tolist())
