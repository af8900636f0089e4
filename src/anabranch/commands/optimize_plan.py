"""Which files OPTIMIZE and REORG rewrite, and which of them together."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from anabranch.commands.bin_packing import PlannedBin, pack
from anabranch.commands.optimize_settings import OptimizeSettings
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import FileMask


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesToPlan:
    """What a plan is made from: an entry for each file of a snapshot."""

    considered: FileMask
    """Those that the user's condition chooses."""
    partitions: npt.NDArray[np.int64]
    """Which partition each lies in, by number."""
    sizes: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    """As the log says, hidden ones included; -1 where it does not."""
    hidden: npt.NDArray[np.int64]
    """How many of them a vector hides."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, considered: FileMask, partitions: npt.NDArray[np.int64]) -> FilesToPlan:
        """As the snapshot has them."""
        columns = snapshot.skipping_columns
        return cls(
            considered=considered,
            partitions=partitions,
            sizes=np.asarray(pc.fill_null(snapshot.files.table["size"], 0).to_numpy(), dtype=np.int64),
            rows=np.asarray(pc.fill_null(columns.num_records(), -1).to_numpy(), dtype=np.int64),
            hidden=columns.hidden_rows(),
        )

    @property
    def hide_rows_uncounted(self) -> FileMask:
        """Those whose vector hides rows out of an unknown number."""
        return (self.rows < 0) & (self.hidden > 0)

    def row_counts(self, files: tuple[int, ...]) -> list[int] | None:
        """Rows of each of these files; None if one is not known."""
        counts = self.rows[list(files)]
        return None if (counts < 0).any() else [int(count) for count in counts]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilesInCubes:
    """What clustering found: files that it has put together before, and others."""

    num_cubes: int
    num_files_in_cubes: int
    bytes_in_cubes: int
    num_other_files: int
    bytes_of_others: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What one round does."""

    files: FilesToPlan
    bins: tuple[PlannedBin, ...]
    cubes: FilesInCubes | None = None
    """Of a plan that clusters."""


def compaction_plan(files: FilesToPlan, settings: OptimizeSettings) -> Plan:
    """Small files, and those that hide many of their rows, put together up to the size wanted."""
    small = files.sizes < settings.min_file_bytes
    thinned = files.hidden > settings.hidden_ratio_max * np.maximum(files.rows, 0)
    chosen = files.considered & (small | (thinned & (files.hidden > 0)) | files.hide_rows_uncounted)
    return _packed(files, chosen, bin_bytes_max=settings.max_file_bytes, keep_single=False)


def purge_plan(files: FilesToPlan, settings: OptimizeSettings, *, outdated: FileMask, apart: bool = False) -> Plan:
    """Files that hide rows, and the `outdated` ones, which hold what is no part of the table any more.

    `apart`: each by itself, so that rows that clustering put together stay so.
    """
    chosen = files.considered & ((files.hidden > 0) | outdated)
    return _packed(files, chosen, bin_bytes_max=0 if apart else settings.max_file_bytes, keep_single=True)


def zorder_plan(files: FilesToPlan) -> Plan:
    """All files, the rows of each partition ordered as one."""
    return _packed(files, files.considered, bin_bytes_max=None, keep_single=True)


def _packed(files: FilesToPlan, chosen: FileMask, *, bin_bytes_max: int | None, keep_single: bool) -> Plan:
    bins = pack(
        np.flatnonzero(chosen),
        sizes=files.sizes,
        partitions=files.partitions,
        bin_bytes_max=bin_bytes_max,
        keep_single=keep_single,
    )
    return Plan(files=files, bins=tuple(bins))
