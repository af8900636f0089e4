"""Packs files into bins that are rewritten together, by partition, and bins into commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBin:
    """Files of one partition that are rewritten together: as one file, or as a few where their rows are ordered."""

    partition: int
    """The number of the partition, as in `FilesToPlan.partitions`."""
    files: tuple[int, ...]
    """Indexes into the snapshot's table of files."""
    size_bytes: int


def pack(
    files: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
    keep_single: bool,
) -> list[PlannedBin]:
    """Pack `files` into bins, smallest first; `sizes` and `partitions` have an entry for each file of the table.

    Without `bin_bytes_max`, a partition is one bin. A bin of one file is left out, as rewriting it gains nothing,
    unless `keep_single`.
    """
    order = files[np.lexsort((files, sizes[files], partitions[files]))]
    bins = pack_in_order(order, sizes=sizes, partitions=partitions, bin_bytes_max=bin_bytes_max)
    return [planned for planned in bins if keep_single or len(planned.files) > 1]


def pack_in_order(
    order: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
) -> list[PlannedBin]:
    """Pack files into bins in the order of `order`, in which the files of a partition follow each other."""
    bins: list[PlannedBin] = []
    open_bin: list[int] = []
    total = 0
    for file in order.tolist():
        size = int(sizes[file])
        full = bin_bytes_max is not None and total + size > bin_bytes_max
        if open_bin and (full or partitions[file] != partitions[open_bin[0]]):
            bins.append(_bin(open_bin, partitions, total))
            open_bin, total = [], 0
        open_bin.append(file)
        total += size
    if open_bin:
        bins.append(_bin(open_bin, partitions, total))
    return bins


def batches(bins: Sequence[PlannedBin], *, bytes_max: int | None, files_max: int) -> list[list[PlannedBin]]:
    """Group bins into commits, as many as fit into one; with `bytes_max`, the smallest bins come first."""
    ordered = sorted(bins, key=lambda planned: planned.size_bytes) if bytes_max is not None else bins
    commits: list[list[PlannedBin]] = []
    size = files = 0
    for planned in ordered:
        too_large = bytes_max is not None and size + planned.size_bytes > bytes_max
        if not commits or too_large or files + len(planned.files) > files_max:
            commits.append([])
            size = files = 0
        commits[-1].append(planned)
        size += planned.size_bytes
        files += len(planned.files)
    return commits


def _bin(files: list[int], partitions: npt.NDArray[np.integer], size_bytes: int) -> PlannedBin:
    return PlannedBin(partition=int(partitions[files[0]]), files=tuple(files), size_bytes=size_bytes)
