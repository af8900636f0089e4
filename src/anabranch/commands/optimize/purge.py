"""REORG TABLE … APPLY (PURGE): rewrites data files without hidden rows and dropped columns."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.optimize.dropped_columns import files_with_dropped_columns
from anabranch.commands.optimize.optimize_command import files_to_plan, metrics_of
from anabranch.commands.optimize.optimize_metrics import result_frame
from anabranch.commands.optimize.optimize_plan import Plan, purge_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import compact_bin
from anabranch.commands.optimize.rewrite_job import RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation


def purge(table: TableRef, *, predicate: str | None = None) -> RewriteResult:
    """Rewrite files that hide rows, or that have dropped columns, without these.

    `predicate` chooses partitions. The old files exist until VACUUM. Other writers never make it fail. Raises the
    errors of OPTIMIZE (`errors.maintenance`), `InvalidOptionError`, `NotADeltaTableError`.
    """
    return run_rewrite_job(table, purge_job(table, predicate=predicate))


def purge_job(table: TableRef, *, predicate: str | None = None) -> RewriteJob:
    """The job that `purge` runs."""
    settings = OptimizeSettings.of(table.session, table.latest().properties)
    parameters = {"predicate": [] if predicate is None else [predicate], "applyPurge": True}

    def plan(newest: Snapshot) -> Plan:
        files = files_to_plan(table, newest, predicate)
        outdated = files_with_dropped_columns(table, newest, files.considered)
        return purge_plan(files, settings, outdated=outdated, apart=bool(clustering_columns(newest)))

    return RewriteJob(
        operation=Operation(name="REORG", parameters=parameters),
        plan=plan,
        rewrite=lambda newest, plan, planned: compact_bin(table, newest, plan, planned, target=settings.max_file_bytes),
        settings=settings,
    )


def purge_frame(table: TableRef, *, predicate: str | None = None) -> DataFrame:
    """Run `purge` and return Delta's result: one row with `path` and `metrics`."""
    before = table.latest()
    result = purge(table, predicate=predicate)
    return result_frame(table, metrics_of(before, result))
