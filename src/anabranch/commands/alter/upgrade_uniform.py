"""REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = n)): an existing table can be read by Iceberg, too.

First the properties are set, so that new files are compatible; then incompatible files are rewritten; then Iceberg
metadata is turned on. Each is a commit of its own, and the next run continues one that was stopped.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.definition.table_definition import ResolvedDefinition, current_properties
from anabranch.commands.optimize.optimize_command import files_to_plan, metrics_of
from anabranch.commands.optimize.optimize_metrics import result_frame
from anabranch.commands.optimize.optimize_plan import Plan, purge_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import compact_bin
from anabranch.commands.optimize.rewrite_job import RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.other_formats.files_for_iceberg import IncompatibleFiles, files_wanted, incompatible_files
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.errors.other_formats import IcebergCompatRewriteError, IcebergCompatVersionError
from anabranch.protocol.properties import (
    COMPAT_VERSIONS,
    FORMATS,
    ICEBERG,
    MAPPING_MODE,
    VECTORS,
    TableProperties,
    compat_property,
    compat_versions,
    universal_formats,
)
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation
from anabranch.uniform.iceberg_library import check_installed

OPERATION = "REORG TABLE UPGRADE UNIFORM"


@reports_progress("REORG")
def upgrade_uniform(table: TableRef, *, version: int) -> RewriteResult | None:
    """Turn Iceberg compatibility and Iceberg metadata on. None where no file had to be rewritten.

    Raises the errors of `errors.other_formats` and `errors.maintenance`, `NotADeltaTableError`.
    """
    if version not in COMPAT_VERSIONS:
        raise IcebergCompatVersionError(table=table.label, compat_version=version)
    _enable(table, version)
    done = None
    if _outdated(table, table.latest(), version).count:
        done = run_rewrite_job(table, _rewriting(table, version))
        left = _outdated(table, table.latest(), version).count
        if left:
            raise IcebergCompatRewriteError(table=table.label, compat_version=version, num_files=left)
    if ICEBERG not in universal_formats(table.latest().properties):
        alter_set_properties(table, {FORMATS: ICEBERG})
    return done


def upgrade_uniform_frame(table: TableRef, *, version: int) -> DataFrame:
    """Do the same as `upgrade_uniform`. The result is that of OPTIMIZE, without a row where no file was rewritten."""
    done = upgrade_uniform(table, version=version)
    frame = result_frame(table, metrics_of(table.latest(), done or RewriteResult()))
    return frame.limit(0) if done is None else frame


def _enable(table: TableRef, version: int) -> None:
    """Set the properties that the version needs, and turn off other versions."""
    alteration = Alteration(table)
    snapshot = alteration.snapshot
    current = current_properties(snapshot.metadata)
    wanted = {
        **{compat_property(other): "false" for other in compat_versions(snapshot.properties)},
        compat_property(version): "true",
        VECTORS: "false",
        **({} if snapshot.column_mapping_mode.maps else {MAPPING_MODE: "name"}),
    }
    defined = alteration.define(configuration={**current, **wanted})
    check_installed(TableProperties({**current, **wanted, FORMATS: ICEBERG}), table=table.label)
    if version not in compat_versions(snapshot.properties):
        alteration.commit(OPERATION, {"properties": wanted}, defined)


def _outdated(table: TableRef, snapshot: Snapshot, version: int) -> IncompatibleFiles:
    defined = ResolvedDefinition(metadata=snapshot.metadata, protocol=snapshot.protocol)
    return incompatible_files(table, snapshot, files_wanted(defined, version=version, label=table.label))


def _rewriting(table: TableRef, version: int) -> RewriteJob:
    settings = OptimizeSettings.of(table.session, table.latest().properties)

    def plan(newest: Snapshot) -> Plan:
        files = files_to_plan(table, newest, None)
        outdated = _outdated(table, newest, version).mask
        return purge_plan(files, settings, outdated=outdated, apart=bool(clustering_columns(newest)))

    return RewriteJob(
        operation=Operation(name="REORG", parameters={"predicate": [], "applyPurge": True}),
        plan=plan,
        rewrite=lambda newest, planned, group: compact_bin(
            table, newest, planned, group, target=settings.max_file_bytes
        ),
        settings=settings,
    )
