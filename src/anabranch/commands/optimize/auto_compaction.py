"""Automatic compaction: right after the commit of a statement, many small files are rewritten as few large ones.

The rules are Delta's: `spark.databricks.delta.autoCompact.enabled` of the session overrides `delta.autoOptimize` and
`delta.autoOptimize.autoCompact` of the table. A partition is compacted where the commit has added files to it and it
has `autoCompact.minNumFiles` small files. It is an OPTIMIZE, which never conflicts with another writer.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.definition.clustering import quoted_clustering_columns
from anabranch.commands.optimize.cluster_cubes import NO_CUBE, Cubes
from anabranch.commands.optimize.optimize_command import optimize_job
from anabranch.commands.optimize.optimize_plan import FilesToPlan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings, whole_number
from anabranch.commands.optimize.partition_selection import partitions_of
from anabranch.commands.optimize.rewrite_job import run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.session_settings import AUTO_COMPACT
from anabranch.transactions.commit.commit_context import CommittedVersion


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The conditions under which a partition is compacted."""

    small_file_bytes: int
    """Files below this size are small."""
    num_files_min: int
    """How many small files a partition must have."""
    touched_only: bool
    """Whether only partitions are compacted to which the commit has added files."""
    num_partitions_max: int
    """How many partitions are compacted at once, those with the most small files first."""


def compact_small_files(table: TableRef, committed: CommittedVersion) -> None:
    """Run an OPTIMIZE of the partitions that exceed the threshold."""
    added = [action.path for action in committed.actions if isinstance(action, AddFile) and action.data_change]
    if not added:
        return
    session = table.session
    settings = OptimizeSettings.for_auto_compaction(session, committed.snapshot.properties)
    threshold = Threshold(
        small_file_bytes=settings.min_file_bytes,
        num_files_min=whole_number(session, f"{AUTO_COMPACT}minNumFiles", 50),
        touched_only=session.flag(f"{AUTO_COMPACT}modifiedPartitionsOnly.enabled", default=True),
        num_partitions_max=max(1, whole_number(session, f"{AUTO_COMPACT}maxNumModifiedPartitions", 128)),
    )

    def choose(newest: Snapshot) -> FilesToPlan:
        return _files_to_compact(table, newest, added, threshold)

    if not choose(committed.snapshot).considered.any():
        return
    # A compaction of the table that already runs in this process rewrites these files, too, or leaves them to the next.
    compacting = table.delta_log.compacting
    if compacting.acquire(blocking=False):
        try:
            run_rewrite_job(table, optimize_job(table, auto=True, settings=settings, choose=choose))
        finally:
            compacting.release()


def _files_to_compact(table: TableRef, snapshot: Snapshot, added: list[str], threshold: Threshold) -> FilesToPlan:
    """The files of the snapshot, of which those of the partitions to compact are considered."""
    count = snapshot.files.count
    nothing = np.zeros(count, dtype=np.bool_)
    files = snapshot.files.table
    small = np.asarray(pc.less(pc.fill_null(files["size"], 0), threshold.small_file_bytes).to_numpy(), dtype=np.bool_)
    if columns := quoted_clustering_columns(snapshot):
        # A file of a cube is clustered already, however small.
        small &= Cubes.of(files, columns).numbers == NO_CUBE
    if small.sum() < threshold.num_files_min:
        return FilesToPlan.of(snapshot, considered=nothing, partitions=np.zeros(count, dtype=np.int64))
    partitions = partitions_of(table, snapshot)
    chosen = _partitions_to_compact(snapshot, partitions, small, added, threshold)
    return FilesToPlan.of(snapshot, considered=np.isin(partitions, chosen), partitions=partitions)


def _partitions_to_compact(
    snapshot: Snapshot,
    partitions: npt.NDArray[np.int64],
    small: npt.NDArray[np.bool_],
    added: list[str],
    threshold: Threshold,
) -> npt.NDArray[np.intp]:
    """The numbers of the partitions with enough small files, those with the most of them first."""
    counts = np.bincount(partitions[small], minlength=int(partitions.max(initial=0)) + 1)
    enough = counts >= max(1, threshold.num_files_min)
    if threshold.touched_only:
        ours = pc.is_in(snapshot.files.table["path"], pa.array(added, pa.string()))
        touched = np.zeros(len(counts), dtype=np.bool_)
        touched[partitions[np.asarray(ours.to_numpy(), dtype=np.bool_)]] = True
        enough &= touched
    candidates = np.flatnonzero(enough)
    return candidates[np.argsort(-counts[candidates], kind="stable")][: threshold.num_partitions_max]
