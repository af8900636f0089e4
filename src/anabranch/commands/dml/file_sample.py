"""A look at some of the files that a statement may change, which says how best to read them all."""

from __future__ import annotations

from typing import Final

import numpy as np

from anabranch.log.file_columns import FileMask

SAMPLED_BYTES_MIN: Final = 64 << 20
"""A smaller read of all columns takes no longer than a job that looks at some files."""
FILES_MIN: Final = 8
"""Of fewer files a look at one says too little."""
SAMPLED_EVERY: Final = 16
"""One of so many files is looked at, the middle one of them."""


def are_enough(files: FileMask) -> bool:
    """Whether the files are so many that some of them are like the others."""
    return bool(np.count_nonzero(files) >= FILES_MIN)


def sample_of(files: FileMask) -> FileMask:
    """Some of the files, evenly spread over them all."""
    chosen, numbers = np.zeros_like(files), np.flatnonzero(files)
    chosen[numbers[min(SAMPLED_EVERY // 2, len(numbers) - 1) :: SAMPLED_EVERY]] = True
    return chosen
