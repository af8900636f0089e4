"""Writing rows into other files without changing one: planned, written and committed, beside whoever else writes.

Rows are never a conflict here. A bin that other writers made impossible is planned anew on what the table is then, a
few times at most; what is still left after that stays as it is, which harms nobody. After any of its commits the table
shows the same rows, some of them in other files, and nothing needs the next commit.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from anabranch.commands.data_files import rows_kept_tags
from anabranch.commands.optimize.optimize_metrics import commit_metrics
from anabranch.commands.optimize.optimize_plan import FilesInCubes, Plan, PlannedBin, batches
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import RewriteBin, RewrittenBin, rewrite_bins
from anabranch.commands.table_access import TableRef
from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.schema.logical_types import check_no_intervals
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.session_settings import default_parallelism
from anabranch.transaction.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.optimize")
ROUNDS_MAX = 5
FILES_PER_COMMIT_MAX = 50_000
"""So that no commit grows beyond what readers of the log like to read at once."""

PartitionKey = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewriteJob:
    """One kind of it."""

    operation: Operation
    plan: Callable[[Snapshot], Plan]
    """Raises a typed error where the user asked for what cannot be."""
    rewrite: RewriteBin
    settings: OptimizeSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteResult:
    """Totals over all rounds."""

    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    versions: tuple[int, ...] = ()
    """Of the commits, oldest first."""
    num_bins: int = 0
    num_partitions: int = 0
    num_considered_files: int = 0
    cubes: FilesInCubes | None = None
    """What it found, if it clustered."""
    num_bins_left: int = 0
    """Given up, because other writers came first each time."""
    parallelism: int = 0
    start_ms: int = 0
    end_ms: int = 0


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Progress:
    """What has landed so far; it lives no longer than `run_rewrite_job` runs."""

    adds: list[AddFile] = dataclasses.field(default_factory=list)
    removes: list[RemoveFile] = dataclasses.field(default_factory=list)
    versions: list[int] = dataclasses.field(default_factory=list)
    partitions: set[PartitionKey] = dataclasses.field(default_factory=set)
    num_bins: int = 0


def run_rewrite_job(table: TableRef, work: RewriteJob) -> RewriteResult:
    """Do it, round after round, until nothing is left that other writers took away."""
    clock = table.session.clock
    start_ms, progress = clock.now_ms(), _Progress()
    parallelism = default_parallelism(table.session.spark)
    considered, left = 0, 0
    cubes: FilesInCubes | None = None
    wanted: set[PartitionKey] | None = None
    table_id = table.latest().metadata.id
    for number in range(ROUNDS_MAX):
        snapshot = table.latest()
        plan = _plan(table, work, snapshot, again=number > 0)
        if plan is None or snapshot.metadata.id != table_id:
            break
        bins = [each for each in plan.bins if wanted is None or _partition(snapshot, each) in wanted]
        if not number:
            considered, cubes = int(plan.files.considered.sum()), plan.cubes
        LOGGER.info("%s: %s: %d bins in round %d", table.label, work.operation.name, len(bins), number + 1)
        dropped = _round(table, work, snapshot, plan, bins, progress, parallelism=parallelism)
        left = len(dropped)
        if not dropped:
            break
        known = {_partition(snapshot, each) for each in dropped}
        wanted = known if wanted is None else wanted & known
    if left:
        LOGGER.warning("%s: %s left %d bins to a later run", table.label, work.operation.name, left)
    return RewriteResult(
        adds=tuple(progress.adds),
        removes=tuple(progress.removes),
        versions=tuple(progress.versions),
        num_bins=progress.num_bins,
        num_partitions=len(progress.partitions),
        num_considered_files=considered,
        cubes=cubes,
        num_bins_left=left,
        parallelism=parallelism,
        start_ms=start_ms,
        end_ms=clock.now_ms(),
    )


def _plan(table: TableRef, work: RewriteJob, snapshot: Snapshot, *, again: bool) -> Plan | None:
    """None where somebody has changed the table meanwhile so that it cannot be done any more."""
    check_writable(snapshot.protocol, table=table.label)
    check_no_intervals(snapshot.schema, table=table.label)
    try:
        return work.plan(snapshot)
    except DeltaAnalysisError:
        if not again:
            raise
        LOGGER.warning("%s: %s ends early", table.label, work.operation.name, exc_info=True)
        return None


def _round(
    table: TableRef,
    work: RewriteJob,
    snapshot: Snapshot,
    plan: Plan,
    bins: Sequence[PlannedBin],
    progress: _Progress,
    *,
    parallelism: int,
) -> list[PlannedBin]:
    """Write and commit the bins. Gives back those that are to be done again."""
    table.session.describe_jobs(f"{work.operation.name} {table.label}")
    dropped: list[PlannedBin] = []
    for batch in batches(bins, bytes_max=work.settings.batch_bytes_max, files_max=FILES_PER_COMMIT_MAX):
        written, lost = rewrite_bins(
            table,
            snapshot,
            plan,
            batch,
            work.rewrite,
            threads_max=min(parallelism, work.settings.threads_max),
            what=work.operation.name,
        )
        landed = _committed(table, work, snapshot, written, progress)
        dropped += [*lost, *(each.planned for each in written if id(each) not in landed)]
        progress.num_bins += len(landed)
        progress.partitions |= {_partition(snapshot, each.planned) for each in written if id(each) in landed}
    return dropped


def _committed(
    table: TableRef, work: RewriteJob, snapshot: Snapshot, written: Sequence[RewrittenBin], progress: _Progress
) -> set[int]:
    """Ids of the bins that landed."""
    actions = [action for each in written for action in (*each.removes, *each.adds)]
    if not actions:
        return set()
    transaction = table.begin_at(work.operation, snapshot=snapshot)
    metrics: Mapping[str, int | str] = commit_metrics(written)
    try:
        committed = transaction.commit_bins(
            actions, [each.part for each in written], metrics=metrics, tags=rows_kept_tags(table, snapshot)
        )
    except DeltaConcurrentModificationException as lost:
        # The table itself was changed. What was written is of no use, and what is to be done must be looked at anew.
        LOGGER.info("%s: %s begins again: %s", table.label, work.operation.name, lost)
        return set()
    if committed is None:
        return set()
    dropped = {id(part) for part in committed.dropped_bins}
    progress.versions.append(committed.version)
    progress.adds += [action for action in committed.actions if isinstance(action, AddFile)]
    progress.removes += [action for action in committed.actions if isinstance(action, RemoveFile)]
    return {id(each) for each in written if id(each.part) not in dropped}


def _partition(snapshot: Snapshot, planned: PlannedBin) -> PartitionKey:
    """What tells the bin's partition in other versions, too; as the first of its files spells it."""
    values = dict(snapshot.files.table["partition_values"][planned.files[0]].as_py() or ())
    return tuple(values.get(name) or None for name in snapshot.physical_partition_columns)
