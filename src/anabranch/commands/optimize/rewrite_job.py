"""Rewrites data files without changing rows: planned, written and committed while others write to the table.

A rewrite never conflicts with changes of rows. A bin that other writers have made impossible is planned again on the
newest version, a few times at most; bins that are left after that are not rewritten, which does no harm. After each of
its commits the table has the same rows, some of them in other files, and no commit depends on a later one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from anabranch.commands.optimize.bin_packing import PlannedBin, batches
from anabranch.commands.optimize.optimize_metrics import commit_metrics
from anabranch.commands.optimize.optimize_plan import FilesInCubes, Plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import RewriteBin, RewrittenBin, rewrite_bins
from anabranch.commands.table_access import TableRef, one_statement
from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.schema.logical_types import check_no_intervals
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.session_settings import default_parallelism
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.optimize")
ROUNDS_MAX = 5
FILES_PER_COMMIT_MAX = 50_000
"""A limit for the size of a commit, which every reader of the log must read as a whole."""

PartitionKey = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewriteJob:
    """A kind of rewrite, such as OPTIMIZE: its plan, and how it writes a bin."""

    operation: Operation
    plan: Callable[[Snapshot], Plan]
    """Plans a version of the table; raises a typed error for a statement that is impossible on it."""
    rewrite: RewriteBin
    settings: OptimizeSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteResult:
    """The totals of all rounds."""

    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    versions: tuple[int, ...] = ()
    """The versions of the commits, oldest first."""
    num_bins: int = 0
    num_partitions: int = 0
    num_considered_files: int = 0
    cubes: FilesInCubes | None = None
    """The files in cubes before a rewrite that clusters."""
    num_bins_left: int = 0
    """How many bins were given up, because other writers committed first each time."""
    parallelism: int = 0
    start_ms: int = 0
    end_ms: int = 0


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Progress:
    """The totals of what is committed so far, while `run_rewrite_job` runs."""

    adds: list[AddFile] = dataclasses.field(default_factory=list)
    removes: list[RemoveFile] = dataclasses.field(default_factory=list)
    versions: list[int] = dataclasses.field(default_factory=list)
    partitions: set[PartitionKey] = dataclasses.field(default_factory=set)
    num_bins: int = 0


def run_rewrite_job(table: TableRef, job: RewriteJob) -> RewriteResult:
    """Run the job, in rounds, until no bin is left that other writers have made impossible."""
    with one_statement(table, job.operation.name):
        return _run_rewrite_job(table, job)


def _run_rewrite_job(table: TableRef, job: RewriteJob) -> RewriteResult:
    clock = table.session.clock
    start_ms, progress = clock.now_ms(), _Progress()
    parallelism = default_parallelism(table.session.spark)
    considered, left = 0, 0
    cubes: FilesInCubes | None = None
    remaining: set[PartitionKey] | None = None
    table_id = table.latest().metadata.id
    for number in range(ROUNDS_MAX):
        begin_phase("choose files")
        snapshot = table.latest()
        plan = _plan(table, job, snapshot, again=number > 0)
        if plan is None or snapshot.metadata.id != table_id:
            break
        bins = [planned for planned in plan.bins if remaining is None or _partition(snapshot, planned) in remaining]
        if not number:
            considered, cubes = int(plan.files.considered.sum()), plan.cubes
        LOGGER.info("%s: %s: %d bins in round %d", table.label, job.operation.name, len(bins), number + 1)
        dropped = _round(table, job, snapshot, plan, bins, progress, parallelism=parallelism)
        left = len(dropped)
        if not dropped:
            break
        partitions = {_partition(snapshot, planned) for planned in dropped}
        remaining = partitions if remaining is None else remaining & partitions
    if left:
        LOGGER.warning("%s: %s left %d bins to a later run", table.label, job.operation.name, left)
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


def _plan(table: TableRef, job: RewriteJob, snapshot: Snapshot, *, again: bool) -> Plan | None:
    """The plan of a round; None where another commit has made the statement impossible since the first round."""
    check_writable(snapshot.protocol, table=table.label)
    check_no_intervals(snapshot.schema, table=table.label)
    try:
        return job.plan(snapshot)
    except DeltaAnalysisError:
        if not again:
            raise
        LOGGER.warning("%s: %s ends early", table.label, job.operation.name, exc_info=True)
        return None


def _round(
    table: TableRef,
    job: RewriteJob,
    snapshot: Snapshot,
    plan: Plan,
    bins: Sequence[PlannedBin],
    progress: _Progress,
    *,
    parallelism: int,
) -> list[PlannedBin]:
    """Write and commit the bins. Returns those that must be planned again."""
    dropped: list[PlannedBin] = []
    for batch in batches(bins, bytes_max=job.settings.batch_bytes_max, files_max=FILES_PER_COMMIT_MAX):
        written, lost = rewrite_bins(
            table,
            snapshot,
            plan,
            batch,
            job.rewrite,
            threads_max=min(parallelism, job.settings.threads_max),
            what=job.operation.name,
        )
        committed = _commit(table, job, snapshot, written, progress)
        dropped += [*lost, *(rewritten.planned for rewritten in written if id(rewritten) not in committed)]
        progress.num_bins += len(committed)
        progress.partitions |= {
            _partition(snapshot, rewritten.planned) for rewritten in written if id(rewritten) in committed
        }
    return dropped


def _commit(
    table: TableRef, job: RewriteJob, snapshot: Snapshot, written: Sequence[RewrittenBin], progress: _Progress
) -> set[int]:
    """Commit the bins. Returns the `id` of those that are committed."""
    actions = [action for rewritten in written for action in (*rewritten.removes, *rewritten.adds)]
    if not actions:
        return set()
    transaction = table.begin_at(job.operation, snapshot=snapshot)
    metrics: Mapping[str, int | str] = commit_metrics(written)
    try:
        committed = transaction.commit_bins(
            actions, [rewritten.part for rewritten in written], metrics=metrics, tags=rows_kept_tags(snapshot)
        )
    except DeltaConcurrentModificationException as lost:
        # The table itself has changed, so that the written files are of no use and the bins must be planned again.
        LOGGER.info("%s: %s begins again: %s", table.label, job.operation.name, lost)
        return set()
    if committed is None:
        return set()
    dropped = {id(part) for part in committed.dropped_bins}
    progress.versions.append(committed.version)
    progress.adds += [action for action in committed.actions if isinstance(action, AddFile)]
    progress.removes += [action for action in committed.actions if isinstance(action, RemoveFile)]
    return {id(rewritten) for rewritten in written if id(rewritten.part) not in dropped}


def _partition(snapshot: Snapshot, planned: PlannedBin) -> PartitionKey:
    """The values of the bin's partition, by which it is recognized in other versions; spelled as in its first file."""
    values = dict(snapshot.files.table["partition_values"][planned.files[0]].as_py() or ())
    return tuple(values.get(name) or None for name in snapshot.physical_partition_columns)
