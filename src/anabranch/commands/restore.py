"""RESTORE: the table becomes what it was at an older version, as a new version.

What that takes is worked out from the file tables of both versions, without a Spark job. See
docs/design/restore-and-clone.md for the races.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.read import TimeTravel
from anabranch.commands.restore_definition import restored_definition
from anabranch.commands.restore_files import FileDifference, file_difference, missing_files
from anabranch.commands.statement import check_may_change_rows, executed_again
from anabranch.commands.table_access import TableHandle
from anabranch.commands.timestamps import to_milliseconds
from anabranch.commands.write import register_if_changed
from anabranch.errors.restore import RestoreBeyondRetentionError, RestoreFilesMissingError
from anabranch.log.commits import Commit
from anabranch.protocol.actions import Action, AddFile, Metadata, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.hiding_rows import removal
from anabranch.transaction.operation import Operation
from anabranch.transaction.re_execution import Attempt
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.transaction import Transaction
from anabranch.transaction.winners import Winner

IGNORE_MISSING_SETTING = "spark.sql.files.ignoreMissingFiles"
DOWNGRADE_SETTING = "spark.databricks.delta.restore.protocolDowngradeAllowed"
RETENTION_SETTING = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
EXAMPLES_MAX = 5
"""Missing files that a message names."""
RESULT = StructType(
    [
        StructField(name, LongType())
        for name in (
            "table_size_after_restore",
            "num_of_files_after_restore",
            "num_removed_files",
            "num_restored_files",
            "removed_files_size",
            "restored_files_size",
        )
    ]
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a RESTORE did."""

    committed: CommittedVersion
    metrics: Mapping[str, int]
    """By Delta's names, in the order of the result's columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedRestore:
    """All of a RESTORE but its commit."""

    transaction: Transaction
    now: Snapshot
    description: tuple[Action, ...]
    """Protocol, metadata and domains, as far as they change."""
    files: tuple[Action, ...]
    metrics: Mapping[str, int]

    def commit(self, attempt: Attempt = Attempt()) -> Restored:  # noqa: B008 - a frozen value
        """Land it. Raises `DeltaConcurrentModificationException` behind whoever changed the table meanwhile."""
        committed = self.transaction.commit(
            [*self.description, *self.files],
            deleted_rows=self._rows_leaving(),
            metrics={**self.metrics, **attempt.metrics()},
            tags=attempt.tags(),
            rules_out=self._in_the_way,
        )
        return Restored(committed=committed, metrics=self.metrics)

    def _rows_leaving(self) -> dict[FileKey, None]:
        """Files that go with all their rows, wherever an OPTIMIZE may have moved these; not those that come back."""
        coming = {action.path for action in self.files if isinstance(action, AddFile)}
        removes = (action for action in self.files if isinstance(action, RemoveFile))
        return {remove.key: None for remove in removes if remove.path not in coming}

    def _in_the_way(self, commit: Commit) -> str | None:
        """What a commit that landed first did, if the rules for rows would not tell that it stands in the way."""
        winner = Winner(commit=commit)
        if winner.describes_table:
            return "it changed how the table is described, and so does RESTORE"
        if not winner.files or self._is_judged_by_rows(winner):
            return None
        return "it changed files of the table that RESTORE goes back on"

    def _is_judged_by_rows(self, winner: Winner) -> bool:
        """Whether the rules for rows decide rightly: for these RESTORE is a statement that reads all of the table."""
        if not self.description:
            return True
        # Rows that a winner only rearranged are as they were, but the new files were written by the schema that goes.
        return winner.changes_data and any(isinstance(action, Metadata) for action in self.description)


def restore(handle: TableHandle, travel: TimeTravel) -> Restored | None:
    """Make the table what it was; None where it is at that version.

    Raises the errors of time travel for versions that are not there, `RestoreFilesMissingError`,
    `RestoreBeyondRetentionError`, `AppendOnlyTableError`, and the errors of `errors.conflicts` and `errors.commits`.
    """

    def run(attempt: Attempt) -> Restored | None:
        prepared = prepare_restore(handle, travel)
        return None if prepared is None else prepared.commit(attempt)

    restored = executed_again(handle, run, None)
    if restored is not None:
        register_if_changed(handle, restored.committed)
    return restored


def restore_frame(handle: TableHandle, travel: TimeTravel) -> DataFrame:
    """As `restore`. The result is Delta's: one row of sizes and numbers of files, none where nothing had to be done."""
    restored = restore(handle, travel)
    rows = [] if restored is None else [tuple(restored.metrics.values())]
    return handle.session.spark.createDataFrame(rows, RESULT)


def prepare_restore(handle: TableHandle, travel: TimeTravel) -> PreparedRestore | None:
    """All of `restore` but the commit; None where the table is at that version."""
    now = handle.latest()
    version, timestamp = _version(handle, travel)
    if version == now.version:
        return None
    then = handle.table.snapshots.at_version(version)
    check_writable(now.protocol, table=handle.label)
    _check_retention(handle, now, then)
    difference = file_difference(now.files, then.files)
    if difference.num_leaving:
        check_may_change_rows(handle, now, "RESTORE")
    if not handle.session.flag(IGNORE_MISSING_SETTING, default=False):
        _check_files(handle, then.files.table.filter(difference.coming), version)
    operation = Operation(name="RESTORE", parameters={"version": travel.version, "timestamp": timestamp})
    return planned_restore(
        handle.begin_at(operation, snapshot=now),
        then,
        difference,
        may_downgrade=handle.session.flag(DOWNGRADE_SETTING, default=False),
        now_ms=handle.session.clock.now_ms(),
    )


def planned_restore(
    transaction: Transaction, then: Snapshot, difference: FileDifference, *, may_downgrade: bool, now_ms: int
) -> PreparedRestore:
    """What makes the version that the transaction reads into `then`."""
    now = transaction.snapshot
    assert now is not None, "there is a table"
    transaction.record_whole_table()
    adds = then.files.to_actions(difference.coming, data_change=True)
    leaving = now.files.to_actions(difference.leaving)
    removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in leaving]
    return PreparedRestore(
        transaction=transaction,
        now=now,
        description=tuple(restored_definition(now, then, may_downgrade=may_downgrade).changes(now)),
        files=(*adds, *removes),
        metrics={
            "tableSizeAfterRestore": then.files.size_bytes,
            "numOfFilesAfterRestore": then.files.count,
            "numRemovedFiles": len(removes),
            "numRestoredFiles": len(adds),
            "removedFilesSize": sum(remove.size or 0 for remove in removes),
            "restoredFilesSize": sum(add.size for add in adds),
        },
    )


def _version(handle: TableHandle, travel: TimeTravel) -> tuple[int, str | None]:
    """The version meant, and how the history tells of the time that was given."""
    assert not travel.is_newest, "RESTORE says where to"
    if travel.version is not None:
        return travel.version, None
    assert travel.timestamp is not None
    timestamp_ms = to_milliseconds(handle.session, travel.timestamp)
    zone = ZoneInfo(handle.session.setting("spark.sql.session.timeZone", "UTC") or "UTC")
    at = datetime.datetime.fromtimestamp(timestamp_ms // 1000, zone)
    fraction = f"{timestamp_ms % 1000:03}".rstrip("0") or "0"
    return handle.table.snapshots.version_at_timestamp(timestamp_ms), f"{at:%Y-%m-%d %H:%M:%S}.{fraction}"


def _check_retention(handle: TableHandle, now: Snapshot, then: Snapshot) -> None:
    """A VACUUM that runs now looks at the version there is, by which it may take files so old that come back here."""
    if not handle.session.flag(RETENTION_SETTING, default=True):
        return
    retention_ms = now.properties.deleted_file_retention_ms
    if then.timestamp_ms < handle.session.clock.now_ms() - retention_ms:
        raise RestoreBeyondRetentionError(
            table=handle.label, version=then.version, retention_ms=retention_ms, setting=RETENTION_SETTING
        )


def _check_files(handle: TableHandle, coming: pa.Table, version: int) -> None:
    missing = missing_files(handle.table.store, coming)
    if missing:
        raise RestoreFilesMissingError(
            table=handle.label, version=version, num_missing=len(missing), examples=tuple(missing[:EXAMPLES_MAX])
        )
