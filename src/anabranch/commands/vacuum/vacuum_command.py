"""VACUUM deletes files that no version within the retention needs. docs/design/vacuum.md explains why it is safe."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.clock import Clock, random_uuid
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.commands.vacuum.needed_files import NeededFiles
from anabranch.commands.vacuum.vacuum_listing import (
    Hiding,
    Inventory,
    files_of_folder,
    files_of_inventory,
    inventory_of,
    newest_by_path,
)
from anabranch.commands.vacuum.vacuum_lite import CommitWindow, files_of_log, removed_within, write_hint
from anabranch.commands.vacuum.vacuum_plan import Cleared, VacuumPlan, clear, plan_vacuum
from anabranch.commands.vacuum.vacuum_settings import VacuumSettings, retention_ms
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.errors.environment import StorageError
from anabranch.errors.maintenance import VacuumModeError
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.data_paths import file_root
from anabranch.protocol.features import check_writable
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import TEMPORARY_PREFIX
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction

LOGGER = logging.getLogger("anabranch.vacuum")
ATTEMPTS_MAX = 5
"""How often START or END is committed again after conflicts with commits that change the table's metadata."""


class VacuumTarget(Protocol):
    """The part of `TableRef` that VACUUM needs."""

    @property
    def label(self) -> str:
        """The name of the table in messages."""

    @property
    def delta_log(self) -> DeltaLog:
        """The log of the table."""

    def latest(self) -> Snapshot:
        """The newest version."""

    def begin_at(self, operation: Operation, *, snapshot: Snapshot | None) -> Transaction:
        """A transaction on a version."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumJob:
    """The table, the options of the statement, the settings and the clock."""

    target: VacuumTarget
    settings: VacuumSettings
    clock: Clock
    random: random.Random
    lite: bool | None = None
    """None: the settings decide."""
    retention_hours: float | None = None
    """None: the table decides, by `delta.deletedFileRetentionDuration`."""
    inventory: Callable[[], Inventory] | None = None
    """A listing of the folder from elsewhere; None: VACUUM lists it."""
    dry_run: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vacuumed:
    """The plan of a VACUUM and, except for a dry run, its result."""

    plan: VacuumPlan
    cleared: Cleared | None
    """None for a dry run."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """One VACUUM whose version and cut-off are decided."""

    job: VacuumJob
    snapshot: Snapshot
    requested_ms: int | None
    """The retention of the statement; None where it has none."""
    cutoff_ms: int

    @property
    def target(self) -> VacuumTarget:
        return self.job.target

    @property
    def is_lite(self) -> bool:
        return self.job.settings.lite if self.job.lite is None else self.job.lite


def run_vacuum(job: VacuumJob) -> Vacuumed:
    """Delete the files that neither the newest version nor a tombstone within the retention needs.

    Its two commits, START before the first deletion and END after the last, change nothing. Raises the errors of
    `errors.maintenance`; `UnsupportedFeatureError`, `UnsafePathError`, `StorageError`. After a failure between any of
    its steps the table is intact, and VACUUM can be run again.
    """
    work = _decide(job)
    begin_phase("list files")
    listed = _list_files(work)
    plan = plan_vacuum(listed, _needed(work, work.snapshot), cutoff_ms=work.cutoff_ms)
    _log_plan(work, plan)
    if job.dry_run:
        return Vacuumed(plan=plan, cleared=None)
    begun = _commit_start(work, plan)
    if begun is None or begun.version > work.snapshot.version + 1:
        # There are other commits before START, and a RESTORE among them may need files of the plan again.
        plan = plan_vacuum(listed, _needed(work, work.target.latest()), cutoff_ms=work.cutoff_ms)
    cleared = _delete(work, plan)
    if job.inventory is None:
        write_hint(work.target.delta_log.store, _reached_version(work))
    return Vacuumed(plan=plan, cleared=cleared)


def _decide(job: VacuumJob) -> _Work:
    label = job.target.label
    if job.lite and job.inventory is not None:
        raise VacuumModeError(table=label, clauses="LITE and USING INVENTORY")
    snapshot = job.target.latest()
    # An unknown writer feature may keep files of its own in the folder.
    check_writable(snapshot.protocol, table=label)
    least_ms = snapshot.properties.deleted_file_retention_ms
    requested_ms = retention_ms(
        job.retention_hours, table=label, least_ms=least_ms, checks=job.settings.checks_retention
    )
    now_ms = job.clock.now_ms()
    if not job.dry_run:
        now_ms = min(now_ms, _storage_time_ms(job, snapshot))
    cutoff_ms = now_ms - (least_ms if requested_ms is None else requested_ms)
    return _Work(job=job, snapshot=snapshot, requested_ms=requested_ms, cutoff_ms=cutoff_ms)


def _list_files(work: _Work) -> pa.Table:
    hiding, store = Hiding.of(work.snapshot), work.target.delta_log.store
    if work.job.inventory is not None:
        return files_of_inventory(work.job.inventory(), hiding)
    if work.is_lite:
        window = CommitWindow.of(store, work.snapshot, cutoff_ms=work.cutoff_ms)
        return newest_by_path(hiding.shown(files_of_log(store, window, table=work.target.label)))
    return files_of_folder(store, hiding)


def _needed(work: _Work, snapshot: Snapshot) -> NeededFiles:
    if work.requested_ms is None or work.requested_ms <= snapshot.properties.deleted_file_retention_ms:
        return NeededFiles.of(snapshot, removed_from_ms=work.cutoff_ms)
    store = work.target.delta_log.store
    window = CommitWindow.of(store, snapshot, cutoff_ms=work.cutoff_ms)
    return NeededFiles.of(snapshot, removed_from_ms=work.cutoff_ms, besides=removed_within(store, window))


def _reached_version(work: _Work) -> int | None:
    """The version after which a later LITE can start. A commit that cannot be read is logged and raises nothing."""
    try:
        return CommitWindow.of(work.target.delta_log.store, work.snapshot, cutoff_ms=work.cutoff_ms).expired_upto
    except DeltaError:
        LOGGER.warning("%s: the next VACUUM LITE starts with the oldest commit", work.target.label, exc_info=True)
        return None


def _delete(work: _Work, plan: VacuumPlan) -> Cleared:
    cleared = None
    try:
        cleared = clear(
            work.target.delta_log.store,
            plan,
            clock=work.job.clock,
            threads=work.job.settings.threads,
            table=work.target.label,
        )
    finally:
        _commit_end(work, plan, cleared)
    LOGGER.info(
        "%s: VACUUM deleted %d files and directories, and %d directories that became empty",
        work.target.label,
        cleared.num_files,
        cleared.num_emptied_directories,
    )
    return cleared


def _commit_start(work: _Work, plan: VacuumPlan) -> CommittedVersion | None:
    """The START commit, with the number of files to delete; None where VACUUM is not logged."""
    if not work.job.settings.logs:
        return None
    parameters: dict[str, Any] = {
        "retentionCheckEnabled": work.job.settings.checks_retention,
        "defaultRetentionMillis": work.snapshot.properties.deleted_file_retention_ms,
        "specifiedRetentionMillis": work.requested_ms,
    }
    metrics = {
        "numFilesToDelete": len(plan.files) + len(plan.empty_directories),
        "sizeOfDataToDelete": plan.size_bytes,
    }
    try:
        return _commit_empty(
            work, Operation(name="VACUUM START", parameters=parameters), metrics, snapshot=work.snapshot
        )
    except StorageError:
        if work.requested_ms is not None and work.requested_ms < work.snapshot.properties.deleted_file_retention_ms:
            raise
        # On a full disk only VACUUM can free space.
        LOGGER.warning("%s: VACUUM started, but the history could not record it", work.target.label, exc_info=True)
        return None


def _commit_end(work: _Work, plan: VacuumPlan, cleared: Cleared | None) -> None:
    """Commit END. A failure is only logged: the files are deleted."""
    if not work.job.settings.logs:
        return
    status, metrics = "FAILED", dict[str, int]()
    if cleared is not None:
        status = "COMPLETED"
        metrics = {"numDeletedFiles": cleared.num_files, "numVacuumedDirectories": plan.num_directories}
    try:
        _commit_empty(
            work, Operation(name="VACUUM END", parameters={"status": status}), metrics, snapshot=work.target.latest()
        )
    except DeltaError:
        LOGGER.warning(
            "%s: VACUUM ended (%s), but the history could not record it", work.target.label, status, exc_info=True
        )


def _commit_empty(
    work: _Work, operation: Operation, metrics: dict[str, int], *, snapshot: Snapshot
) -> CommittedVersion:
    """A commit that changes nothing. Raises as a commit does."""
    for _ in range(ATTEMPTS_MAX - 1):
        with suppress(DeltaConcurrentModificationException):
            return work.target.begin_at(operation, snapshot=snapshot).commit([], metrics=metrics)
        snapshot = work.target.latest()
    return work.target.begin_at(operation, snapshot=snapshot).commit([], metrics=metrics)


def _storage_time_ms(job: VacuumJob, snapshot: Snapshot) -> int:
    """The time by the clock of the storage, which stamps files. If ours is ahead of it, young files would look old.

    It is read from a new file; where none can be written, as on a full disk, it is the time of the newest version.
    """
    store = job.target.delta_log.store
    path = f"{LOG_DIRECTORY}/{TEMPORARY_PREFIX}{random_uuid(job.random)}.clock"
    try:
        store.put(path, b"")
    except StorageError:
        return snapshot.segment.modified_ms
    try:
        file = store.head(path)
    finally:
        # A file that stays is harmless: no listing shows it, and local stores delete it later.
        with suppress(StorageError):
            store.delete(path)
    return job.clock.now_ms() if file is None else file.modified_ms


def _log_plan(work: _Work, plan: VacuumPlan) -> None:
    LOGGER.info(
        "%s: VACUUM %s found %d files (%d bytes) and %d empty directories to delete%s",
        work.target.label,
        "LITE" if work.is_lite else "FULL",
        len(plan.files),
        plan.size_bytes,
        len(plan.empty_directories),
        ", and deletes none of them" if work.job.dry_run else "",
    )


RESULT = StructType([StructField("path", StringType())])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumRequest:
    """The options of a VACUUM statement."""

    lite: bool | None = None
    """None: the session decides."""
    retention_hours: float | None = None
    """None: the table decides, by `delta.deletedFileRetentionDuration`."""
    inventory: DataFrame | None = None
    """A listing of the folder from elsewhere; None: VACUUM lists it."""
    dry_run: bool = False


@reports_progress("VACUUM")
def vacuum(table: TableRef, request: VacuumRequest) -> Vacuumed:
    """Delete files that are not needed. Raises as `run_vacuum`, `InventorySchemaError` and `InvalidOptionError`."""
    inventory = request.inventory
    return run_vacuum(
        VacuumJob(
            target=table,
            settings=VacuumSettings.of(table.session),
            clock=table.session.clock,
            random=table.session.random,
            lite=request.lite,
            retention_hours=request.retention_hours,
            inventory=None if inventory is None else lambda: inventory_of(table, inventory),
            dry_run=request.dry_run,
        )
    )


def vacuum_frame(table: TableRef, request: VacuumRequest) -> DataFrame:
    """Do the same as `vacuum`. The result is Delta's: the paths of a dry run, otherwise the path of the table."""
    done, root = vacuum(table, request), file_root(table.path)
    paths = [f"{root.rstrip('/')}/{path}" for path in done.plan.paths] if request.dry_run else [root]
    return table.session.spark.createDataFrame(pa.table({"path": pa.array(paths, pa.string())}), RESULT)


def nothing(table: TableRef) -> DataFrame:
    """A frame without rows and columns, which `DeltaTable.vacuum` returns."""
    return table.session.spark.createDataFrame([], StructType([]))
