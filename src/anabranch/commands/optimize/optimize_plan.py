"""Which files OPTIMIZE and REORG rewrite, and which of them together."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from anabranch.commands.optimize.bin_packing import PlannedBin, pack
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.log.file_columns import FileMask
from anabranch.snapshot.snapshot import Snapshot


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesToPlan:
    """The files of a snapshot from which a plan is made, with an entry for each file in every array."""

    considered: FileMask
    """The files in partitions that the user's condition chooses."""
    partitions: npt.NDArray[np.int64]
    """The partition of each file, by number."""
    sizes: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    """The rows of each file, hidden ones included; -1 where its statistics do not count them."""
    hidden: npt.NDArray[np.int64]
    """How many rows of each file a deletion vector hides."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, considered: FileMask, partitions: npt.NDArray[np.int64]) -> FilesToPlan:
        """Read sizes and numbers of rows from the snapshot."""
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
        """The files with hidden rows whose statistics do not count their rows."""
        return (self.rows < 0) & (self.hidden > 0)

    def row_counts(self, files: tuple[int, ...]) -> list[int] | None:
        """The number of rows of each of these files; None if one is unknown."""
        counts = self.rows[list(files)]
        return None if (counts < 0).any() else [int(count) for count in counts]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilesInCubes:
    """The considered files of a table by whether they are clustered already."""

    num_cubes: int
    num_files_in_cubes: int
    bytes_in_cubes: int
    num_other_files: int
    bytes_of_others: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The bins that one round rewrites."""

    files: FilesToPlan
    bins: tuple[PlannedBin, ...]
    cubes: FilesInCubes | None = None
    """The files in cubes, for a plan that clusters."""


def compaction_plan(files: FilesToPlan, settings: OptimizeSettings) -> Plan:
    """Bins of small files, and of those that hide many of their rows, up to the file size of the settings."""
    small = files.sizes < settings.min_file_bytes
    thinned = files.hidden > settings.hidden_ratio_max * np.maximum(files.rows, 0)
    chosen = files.considered & (small | (thinned & (files.hidden > 0)) | files.hide_rows_uncounted)
    return _packed(files, chosen, bin_bytes_max=settings.max_file_bytes, keep_single=False)


def purge_plan(files: FilesToPlan, settings: OptimizeSettings, *, outdated: FileMask, apart: bool = False) -> Plan:
    """Bins of files that hide rows, and of `outdated` ones, which have columns that the table has no more.

    With `apart`, each file is a bin of its own, so that clustered rows stay clustered.
    """
    chosen = files.considered & ((files.hidden > 0) | outdated)
    return _packed(files, chosen, bin_bytes_max=0 if apart else settings.max_file_bytes, keep_single=True)


def zorder_plan(files: FilesToPlan) -> Plan:
    """One bin for each partition, with all of its files."""
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
