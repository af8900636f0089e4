"""OPTIMIZE: rewrites small files as large ones. It changes no row, and never conflicts with other writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.definition.clustering import quoted_clustering_columns
from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.cluster_cubes import Cubes, cluster_plan
from anabranch.commands.optimize.optimize_metrics import (
    clustering_metrics,
    result_frame,
    size_metrics,
    vector_metrics,
    zorder_metrics,
)
from anabranch.commands.optimize.optimize_plan import FilesToPlan, Plan, compaction_plan, zorder_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.partition_selection import files_of_partitions, partitions_of
from anabranch.commands.optimize.rewrite_bins import RewrittenBin, compact_bin
from anabranch.commands.optimize.rewrite_job import RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.optimize.sorted_rewrite import check_zorder_columns, cluster_bin, order_columns, zorder_bin
from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import ClusteredTableError, ClusteredTableZOrderError, FullNeedsClusteringError
from anabranch.protocol.features import supported
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation


def optimize(
    table: TableRef,
    *,
    predicate: str | None = None,
    zorder_by: Sequence[str] = (),
    full: bool = False,
) -> RewriteResult:
    """Rewrite small files, and those that hide many rows, as large ones; with `zorder_by`, order all rows by these.

    In a table with clustering columns, rewrite files that are not clustered yet, and small cubes; with `full`, also
    files that are clustered by other columns. `predicate` chooses partitions. Other writers never make it fail; files
    that they remove meanwhile are skipped. Raises the errors of OPTIMIZE (`errors.maintenance`), `InvalidOptionError`,
    `UnorderedClusteringColumnError`, `NotADeltaTableError`.
    """
    return run_rewrite_job(table, optimize_job(table, predicate=predicate, zorder_by=zorder_by, full=full))


def optimize_job(
    table: TableRef,
    *,
    predicate: str | None = None,
    zorder_by: Sequence[str] = (),
    full: bool = False,
    auto: bool = False,
    settings: OptimizeSettings | None = None,
    choose: Callable[[Snapshot], FilesToPlan] | None = None,
) -> RewriteJob:
    """The job that `optimize` runs.

    `auto` is recorded in the log for a run that no user started. `settings` override the session's, and `choose`
    replaces `predicate`: it returns the files to consider.
    """
    snapshot = table.latest()
    _check_clauses(table, snapshot, predicate=predicate, zorder_by=zorder_by, full=full)
    limits = settings or OptimizeSettings.of(table.session, snapshot.properties)
    cluster_by = quoted_clustering_columns(snapshot)
    parameters = _parameters(predicate=predicate, zorder_by=zorder_by, cluster_by=cluster_by, full=full, auto=auto)

    def plan(newest: Snapshot) -> Plan:
        files = choose(newest) if choose is not None else files_to_plan(table, newest, predicate)
        if quoted_clustering_columns(newest) != cluster_by:
            # The parameters of the commit would be wrong. The next run uses the new clustering columns.
            return Plan(files=files, bins=())
        if cluster_by:
            order_columns(table, newest)
            return cluster_plan(files, Cubes.of(newest.files.table, cluster_by), limits, full=full)
        if not zorder_by:
            return compaction_plan(files, limits)
        check_zorder_columns(table, newest, zorder_by, limits)
        return zorder_plan(files)

    def rewrite(newest: Snapshot, plan: Plan, planned: PlannedBin) -> RewrittenBin:
        if cluster_by:
            return cluster_bin(table, newest, plan, planned, limits)
        if zorder_by:
            return zorder_bin(table, newest, plan, planned, zorder_by, limits)
        return compact_bin(table, newest, plan, planned, target=limits.max_file_bytes)

    return RewriteJob(
        operation=Operation(name="OPTIMIZE", parameters=parameters), plan=plan, rewrite=rewrite, settings=limits
    )


def optimize_frame(
    table: TableRef, *, predicate: str | None = None, zorder_by: Sequence[str] = (), full: bool = False
) -> DataFrame:
    """Run `optimize` and return Delta's result: one row with `path` and `metrics`."""
    before = table.latest()
    result = optimize(table, predicate=predicate, zorder_by=zorder_by, full=full)
    return result_frame(table, metrics_of(before, result, zorder=bool(zorder_by)))


def metrics_of(snapshot: Snapshot, result: RewriteResult, *, zorder: bool = False) -> dict[str, Any]:
    """The `metrics` of the result of OPTIMIZE or REORG."""
    columns = len(snapshot.schema.fields)
    indexed = snapshot.properties.num_indexed_columns
    return {
        "numFilesAdded": len(result.adds),
        "numFilesRemoved": len(result.removes),
        "filesAdded": size_metrics(result.adds),
        "filesRemoved": size_metrics(result.removes),
        "partitionsOptimized": result.num_partitions,
        "zOrderStats": zorder_metrics(result.removes, num_partitions=result.num_partitions) if zorder else None,
        "clusteringStats": None
        if result.cubes is None
        else clustering_metrics(result.cubes, result.removes, num_bins=result.num_bins),
        "numBins": result.num_bins,
        "numBatches": len(result.versions) or 1,
        "totalConsideredFiles": result.num_considered_files,
        "totalFilesSkipped": max(0, result.num_considered_files - len(result.removes)),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": result.start_ms,
        "endTimeMs": result.end_ms,
        "totalClusterParallelism": result.parallelism,
        "totalScheduledTasks": 0,
        "deletionVectorStats": vector_metrics(result.removes),
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(indexed, columns),
    }


def files_to_plan(table: TableRef, snapshot: Snapshot, predicate: str | None) -> FilesToPlan:
    """All files of the snapshot, of which those in partitions that satisfy `predicate` are considered."""
    considered = files_of_partitions(table, snapshot, predicate)
    return FilesToPlan.of(snapshot, considered=considered, partitions=partitions_of(table, snapshot))


def _parameters(
    *, predicate: str | None, zorder_by: Sequence[str], cluster_by: Sequence[str], full: bool, auto: bool
) -> dict[str, object]:
    """The `operationParameters` of the commits."""
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
    """Raises a typed error for clauses that do not go together, or not with this table."""
    if supported(snapshot.protocol, "clustering"):
        if predicate is not None:
            raise ClusteredTableError(table=table.label, clause="WHERE", given=predicate)
        if zorder_by:
            raise ClusteredTableZOrderError(table=table.label, given=", ".join(zorder_by))
    if full and not quoted_clustering_columns(snapshot):
        raise FullNeedsClusteringError(table=table.label)
