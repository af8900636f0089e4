"""OPTIMIZE: small files become large ones. No row changes, and it never conflicts with other writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.describe.describe_table import quoted_clustering_columns
from anabranch.commands.optimize.optimize_metrics import (
    clustering_metrics,
    result_frame,
    size_metrics,
    vector_metrics,
    zorder_metrics,
)
from anabranch.commands.optimize.optimize_plan import (
    FilesToPlan,
    Plan,
    PlannedBin,
    compaction_plan,
    files_of_partitions,
    partitions_of,
    zorder_plan,
)
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import Cubes, RewrittenBin, cluster_plan, compacted
from anabranch.commands.optimize.rewrite_job import RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.optimize.sorted_rewrite import check_zorder_columns, clustered, order_columns, zordered
from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import ClusteredTableError, ClusteredTableZOrderError, FullNeedsClusteringError
from anabranch.protocol.features import supported
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.proposed_commit import Operation


def optimize(
    table: TableRef,
    *,
    predicate: str | None = None,
    zorder_by: Sequence[str] = (),
    full: bool = False,
) -> RewriteResult:
    """Put small files, and those that hide many rows, together; with `zorder_by`, order all rows by these columns.

    A table with clustering columns is clustered: files that are not yet, and small cubes; with `full`, also what was
    clustered by other columns. `predicate` chooses partitions. Other writers never make it fail; what they take away is
    left as it is. Raises the errors of `errors.maintenance`, `PredicateSyntaxError`, `InvalidOptionError`,
    `InvalidClusteringError`, `NotADeltaTableError`.
    """
    return run_rewrite_job(table, optimize_work(table, predicate=predicate, zorder_by=zorder_by, full=full))


def optimize_work(
    table: TableRef,
    *,
    predicate: str | None = None,
    zorder_by: Sequence[str] = (),
    full: bool = False,
    auto: bool = False,
    settings: OptimizeSettings | None = None,
    choose: Callable[[Snapshot], FilesToPlan] | None = None,
) -> RewriteJob:
    """What `optimize` does, not done yet.

    `auto` is what the log tells: nobody asked for it. `settings` go before the session's, and `choose` says in the
    place of `predicate` which files are considered.
    """
    snapshot = table.latest()
    _check_clauses(table, snapshot, predicate=predicate, zorder_by=zorder_by, full=full)
    limits = settings or OptimizeSettings.of(table.session, snapshot.properties)
    cluster_by = quoted_clustering_columns(snapshot)
    parameters = _parameters(predicate=predicate, zorder_by=zorder_by, cluster_by=cluster_by, full=full, auto=auto)

    def plan(newest: Snapshot) -> Plan:
        files = choose(newest) if choose is not None else files_to_plan(table, newest, predicate)
        if quoted_clustering_columns(newest) != cluster_by:
            # The commit would say what is not so. The next run orders rows by what the table asks for then.
            return Plan(files=files, bins=())
        if cluster_by:
            order_columns(table, newest)
            return cluster_plan(files, Cubes.of(newest.files.table, cluster_by), limits, full=full)
        if not zorder_by:
            return compaction_plan(files, limits)
        check_zorder_columns(table, newest, zorder_by, limits)
        return zorder_plan(files)

    def rewrite(newest: Snapshot, planned: Plan, each: PlannedBin) -> RewrittenBin:
        if cluster_by:
            return clustered(table, newest, planned, each, limits)
        if zorder_by:
            return zordered(table, newest, planned, each, zorder_by, limits)
        return compacted(table, newest, planned, each, target=limits.max_file_bytes)

    return RewriteJob(
        operation=Operation(name="OPTIMIZE", parameters=parameters), plan=plan, rewrite=rewrite, settings=limits
    )


def optimize_frame(
    table: TableRef, *, predicate: str | None = None, zorder_by: Sequence[str] = (), full: bool = False
) -> DataFrame:
    """As `optimize`. The result is Delta's: one row with `path` and `metrics`."""
    before = table.latest()
    done = optimize(table, predicate=predicate, zorder_by=zorder_by, full=full)
    return result_frame(table, metrics_of(before, done, zorder=bool(zorder_by)))


def metrics_of(snapshot: Snapshot, done: RewriteResult, *, zorder: bool = False) -> dict[str, Any]:
    """The `metrics` of the result."""
    columns = len(snapshot.schema.fields)
    indexed = snapshot.properties.num_indexed_columns
    return {
        "numFilesAdded": len(done.adds),
        "numFilesRemoved": len(done.removes),
        "filesAdded": size_metrics(done.adds),
        "filesRemoved": size_metrics(done.removes),
        "partitionsOptimized": done.num_partitions,
        "zOrderStats": zorder_metrics(done.removes, num_partitions=done.num_partitions) if zorder else None,
        "clusteringStats": None
        if done.cubes is None
        else clustering_metrics(done.cubes, done.removes, num_bins=done.num_bins),
        "numBins": done.num_bins,
        "numBatches": len(done.versions) or 1,
        "totalConsideredFiles": done.num_considered_files,
        "totalFilesSkipped": max(0, done.num_considered_files - len(done.removes)),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": done.start_ms,
        "endTimeMs": done.end_ms,
        "totalClusterParallelism": done.parallelism,
        "totalScheduledTasks": 0,
        "deletionVectorStats": vector_metrics(done.removes),
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(indexed, columns),
    }


def files_to_plan(table: TableRef, snapshot: Snapshot, predicate: str | None) -> FilesToPlan:
    """The files of the partitions that `predicate` chooses, and what is known of all."""
    considered = files_of_partitions(table, snapshot, predicate)
    return FilesToPlan.of(snapshot, considered=considered, partitions=partitions_of(table, snapshot))


def _parameters(
    *, predicate: str | None, zorder_by: Sequence[str], cluster_by: Sequence[str], full: bool, auto: bool
) -> dict[str, object]:
    """As the log tells of the operation."""
    return {
        "predicate": [] if predicate is None else [predicate],
        "zOrderBy": list(zorder_by),
        "clusterBy": list(cluster_by),
        "auto": auto,
        **({"isFull": full} if cluster_by else {}),
    }


def _check_clauses(
    table: TableRef, snapshot: Snapshot, *, predicate: str | None, zorder_by: Sequence[str], full: bool
) -> None:
    if supported(snapshot.protocol, "clustering"):
        if predicate is not None:
            raise ClusteredTableError(table=table.label, clause="WHERE", given=predicate)
        if zorder_by:
            raise ClusteredTableZOrderError(table=table.label, given=", ".join(zorder_by))
    if full and not quoted_clustering_columns(snapshot):
        raise FullNeedsClusteringError(table=table.label)
