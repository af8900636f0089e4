"""REORG TABLE … APPLY (PURGE): hidden rows and dropped columns leave the data files."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.dropped_columns import files_with_dropped_columns
from anabranch.commands.optimize import files_to_plan, metrics_of
from anabranch.commands.optimize_metrics import result_frame
from anabranch.commands.optimize_plan import Plan, purge_plan
from anabranch.commands.optimize_settings import OptimizeSettings
from anabranch.commands.rearranging import Rearranged, Rearrangement, rearrange
from anabranch.commands.rewritten_bins import compacted
from anabranch.commands.table_access import TableHandle
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.operation import Operation


def purge(handle: TableHandle, *, predicate: str | None = None) -> Rearranged:
    """Write files again that hide rows, or that hold columns which were dropped; without these, that is.

    `predicate` chooses partitions. Until VACUUM the old files are still there. Other writers never make it fail. Raises
    the errors of `errors.optimize`, `PredicateSyntaxError`, `InvalidOptionError`, `NotADeltaTableError`.
    """
    return rearrange(handle, purge_work(handle, predicate=predicate))


def purge_work(handle: TableHandle, *, predicate: str | None = None) -> Rearrangement:
    """What `purge` does, not done yet."""
    settings = OptimizeSettings.of(handle.session, handle.latest().properties)
    parameters = {"predicate": [] if predicate is None else [predicate], "applyPurge": True}

    def plan(newest: Snapshot) -> Plan:
        files = files_to_plan(handle, newest, predicate)
        outdated = files_with_dropped_columns(handle, newest, files.considered)
        return purge_plan(files, settings, outdated=outdated, apart=bool(clustering_columns(newest)))

    return Rearrangement(
        operation=Operation(name="REORG", parameters=parameters),
        plan=plan,
        rewrite=lambda newest, planned, each: compacted(handle, newest, planned, each, target=settings.max_file_bytes),
        settings=settings,
    )


def purge_frame(handle: TableHandle, *, predicate: str | None = None) -> DataFrame:
    """As `purge`. The result is Delta's: one row with `path` and `metrics`."""
    done = purge(handle, predicate=predicate)
    return result_frame(handle, metrics_of(handle.latest(), done))
