"""Which files are rewritten together: by partition, smallest first, as long as the result is not too large."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBin:
    """Files of one partition that become one, or a few where their rows are ordered anew."""

    partition: int
    """Number of the partition among those of the plan's files."""
    files: tuple[int, ...]
    """Rows of the snapshot's file table."""
    size_bytes: int


def pack(
    files: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
    keep_single: bool,
) -> list[PlannedBin]:
    """Bins of `files`; `sizes` and `partitions` have an entry for each file of the table.

    Without `bin_bytes_max`, a partition is one bin. A file by itself gains nothing from being written again: its bin
    is left out, unless `keep_single`.
    """
    order = files[np.lexsort((files, sizes[files], partitions[files]))]
    found = pack_in_order(order, sizes=sizes, partitions=partitions, bin_bytes_max=bin_bytes_max)
    return [each for each in found if keep_single or len(each.files) > 1]


def pack_in_order(
    order: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
) -> list[PlannedBin]:
    """Bins of files that come in a given order, those of one partition one after the other."""
    found: list[PlannedBin] = []
    here: list[int] = []
    total = 0
    for file in order.tolist():
        size = int(sizes[file])
        full = bin_bytes_max is not None and total + size > bin_bytes_max
        if here and (full or partitions[file] != partitions[here[0]]):
            found.append(_bin(here, partitions, total))
            here, total = [], 0
        here.append(file)
        total += size
    if here:
        found.append(_bin(here, partitions, total))
    return found


def batches(bins: Sequence[PlannedBin], *, bytes_max: int | None, files_max: int) -> list[list[PlannedBin]]:
    """Bins by the commit that they go into: as many as fit, smallest first where `bytes_max` asks for it."""
    ordered = sorted(bins, key=lambda each: each.size_bytes) if bytes_max is not None else bins
    found: list[list[PlannedBin]] = []
    size = files = 0
    for each in ordered:
        too_large = bytes_max is not None and size + each.size_bytes > bytes_max
        if not found or too_large or files + len(each.files) > files_max:
            found.append([])
            size = files = 0
        found[-1].append(each)
        size += each.size_bytes
        files += len(each.files)
    return found


def _bin(files: list[int], partitions: npt.NDArray[np.integer], size_bytes: int) -> PlannedBin:
    return PlannedBin(partition=int(partitions[files[0]]), files=tuple(files), size_bytes=size_bytes)
