"""RESTORE: a new version has the contents of an older one.

The files to add and to remove follow from the file tables of both versions, without a Spark job. See
docs/design/restore-and-clone.md for the races.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.dml.statement import check_may_change_rows, run_with_conflict_retries
from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.restore.restore_definition import restored_definition
from anabranch.commands.table_access import TableRef, TimeTravel, reports_progress
from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.log import (
    RestoreTimestampAfterLatestError,
    RestoreTimestampEarlierError,
    RestoreVersionNotFoundError,
    TimestampAfterLatestCommitError,
    TimestampEarlierThanFirstCommitError,
    VersionNotFoundError,
)
from anabranch.errors.tables import RestoreBeyondRetentionError, RestoreFilesMissingError
from anabranch.log.commit_files import Commit
from anabranch.log.file_columns import logical_keys
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol import value_text
from anabranch.protocol.actions import Action, AddFile, DeletionVectorDescriptor, Metadata, RemoveFile
from anabranch.protocol.data_paths import decode_path_column
from anabranch.protocol.features import check_writable
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.rows.deletion_vector_actions import removal
from anabranch.transactions.statement_retry import FIRST, Attempt
from anabranch.transactions.transaction import Transaction

# The files that differ between two versions, and whether they exist. No Spark, and no Python object for each file.


LISTED_FROM = 256
"""From this number of files on they are looked up in a listing of the table, otherwise one by one."""
_AT_ONCE = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files to remove and to add so that a table has those of another version.

    A logical file is a path and a vector: a file whose vector differs is removed and added.
    """

    leaving: pa.Array
    """For every current file, whether the other version lacks it."""
    coming: pa.Array
    """For every file of the other version, whether the table lacks it."""

    @property
    def num_leaving(self) -> int:
        return int(self.leaving.true_count)


def file_difference(now: LiveFiles, then: LiveFiles) -> FileDifference:
    """The difference from `now` to `then`."""
    ours, theirs = (logical_keys(files.columns("path", "deletion_vector")) for files in (now, then))
    return FileDifference(leaving=_not_in(ours, theirs), coming=_not_in(theirs, ours))


def missing_files(store: LogStore, files: pa.Table) -> list[str]:
    """The plain paths, sorted, of data files and vector files that do not exist.

    Raises `UnsafePathError` for a file outside of the folders that are allowed, `StorageError`.
    """
    folders = allowed_prefixes_of(store)
    wanted = decode_path_column(files["path"], table_root=store.root, allowed_prefixes=folders)
    vectors = files["deletion_vector"].drop_null().to_pylist()
    named = {
        vector_path(DeletionVectorDescriptor(**vector), table_root=store.root, allowed_prefixes=folders)
        for vector in vectors
        if vector["storage_type"] != "i"
    }
    wanted = pc.unique(pa.concat_arrays([wanted, pa.array(sorted(named), pa.string())]))
    if len(wanted) >= LISTED_FROM:
        listed = pa.array([file.path for file in store.list_tree()], pa.string())
        wanted = wanted.filter(_not_in(wanted, listed))
    if not len(wanted):
        return []
    # Files that the listing lacks are looked up by path, since it has none outside the table.
    paths: list[str] = sorted(wanted.to_pylist())
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(paths)), thread_name_prefix="restore") as pool:
        existence = list(pool.map(lambda path: store.head(path) is not None, paths))
    return [path for path, exists in zip(paths, existence, strict=True) if not exists]


def _not_in(keys: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    mask = pc.invert(pc.is_in(keys, value_set=others))
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


IGNORE_MISSING_SETTING = "spark.sql.files.ignoreMissingFiles"
DOWNGRADE_SETTING = "spark.databricks.delta.restore.protocolDowngradeAllowed"
RETENTION_SETTING = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
EXAMPLES_MAX = 5
"""How many missing files a message names."""
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
    """The commit of a RESTORE and its metrics."""

    committed: CommittedVersion
    metrics: Mapping[str, int]
    """By Delta's names, in the order of the result's columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedRestore:
    """A RESTORE that is ready to be committed."""

    transaction: Transaction
    now: Snapshot
    description: tuple[Action, ...]
    """Protocol, metadata and domains, as far as they change."""
    files: tuple[Action, ...]
    metrics: Mapping[str, int]

    def commit(self, attempt: Attempt = FIRST) -> Restored:
        """Commit it. Raises `DeltaConcurrentModificationException` where another commit changed the table first."""
        committed = self.transaction.commit(
            [*self.description, *self.files],
            deleted_rows=self._rows_leaving(),
            metrics={**self.metrics, **attempt.metrics()},
            tags=attempt.tags(),
            conflicts_with=self._conflict_with,
        )
        return Restored(committed=committed, metrics=self.metrics)

    def _rows_leaving(self) -> dict[FileKey, None]:
        """Files whose rows are all removed, also if an OPTIMIZE has moved them; without files that are added again."""
        coming = {action.path for action in self.files if isinstance(action, AddFile)}
        removes = (action for action in self.files if isinstance(action, RemoveFile))
        return {remove.key: None for remove in removes if remove.path not in coming}

    def _conflict_with(self, commit: Commit) -> str | None:
        """Why a winner is a conflict, in words, where the rules for rows would not find it."""
        winner = Winner(commit=commit)
        if winner.describes_table:
            return "it changed the table's metadata, and so does RESTORE"
        if not winner.files or self._is_judged_by_rows(winner):
            return None
        return "it changed files of the table that RESTORE replaces"

    def _is_judged_by_rows(self, winner: Winner) -> bool:
        """Whether the rules for rows are right for this winner: for them RESTORE reads the whole table."""
        if not self.description:
            return True
        # A winner that only rearranged rows changed none, but its files have the schema that RESTORE replaces.
        return winner.changes_data and any(isinstance(action, Metadata) for action in self.description)


@reports_progress("RESTORE")
def restore(table: TableRef, travel: TimeTravel) -> Restored | None:
    """Restore the table to an older version; None where it is at that version.

    Raises the errors of time travel for versions that do not exist, `RestoreFilesMissingError`,
    `RestoreBeyondRetentionError`, `AppendOnlyTableError`, and the errors of `errors.commits`.
    """

    def run(attempt: Attempt) -> Restored | None:
        prepared = prepare_restore(table, travel)
        return None if prepared is None else prepared.commit(attempt)

    restored = run_with_conflict_retries(table, run, None)
    if restored is not None and table.entry is not None:
        register_if_changed(table, table.entry, restored.committed)
    return restored


def restore_frame(table: TableRef, travel: TimeTravel) -> DataFrame:
    """Do the same as `restore`. The result is Delta's: one row of numbers, or no row where nothing was restored."""
    restored = restore(table, travel)
    rows = [] if restored is None else [tuple(restored.metrics.values())]
    return table.session.spark.createDataFrame(rows, RESULT)


def prepare_restore(table: TableRef, travel: TimeTravel) -> PreparedRestore | None:
    """Prepare a RESTORE for its commit; None where the table is at that version."""
    begin_phase("compare versions")
    now = table.latest()
    with _errors_of_restore():
        version, timestamp = _version(table, travel)
        if version == now.version:
            return None
        then = table.delta_log.snapshots.at_version(version)
    check_writable(now.protocol, table=table.label)
    _check_retention(table, now, then)
    difference = file_difference(now.files, then.files)
    if difference.num_leaving:
        check_may_change_rows(table, now, "RESTORE")
    if not table.session.flag(IGNORE_MISSING_SETTING, default=False):
        _check_files(table, then.files.table.filter(difference.coming), version)
    operation = Operation(name="RESTORE", parameters={"version": travel.version, "timestamp": timestamp})
    return planned_restore(
        table.begin_at(operation, snapshot=now),
        then,
        difference,
        may_downgrade=table.session.flag(DOWNGRADE_SETTING, default=False),
        now_ms=table.session.clock.now_ms(),
    )


def planned_restore(
    transaction: Transaction, then: Snapshot, difference: FileDifference, *, may_downgrade: bool, now_ms: int
) -> PreparedRestore:
    """The RESTORE from the version that the transaction reads to `then`."""
    now = transaction.snapshot
    assert now is not None, "there is a table"
    transaction.record_whole_table()
    definition = restored_definition(now, then, may_downgrade=may_downgrade)
    adds = then.files.to_actions(difference.coming, data_change=True)
    if not definition.keeps_ids:
        adds = [msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None) for add in adds]
    leaving = now.files.to_actions(difference.leaving)
    removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in leaving]
    return PreparedRestore(
        transaction=transaction,
        now=now,
        description=tuple(definition.changes(now)),
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


@contextlib.contextmanager
def _errors_of_restore() -> Iterator[None]:
    """Replaces errors of time travel by those of RESTORE: Delta has other conditions here than for reads."""
    try:
        yield
    except VersionNotFoundError as error:
        raise _as_kind(RestoreVersionNotFoundError, error) from None
    except TimestampEarlierThanFirstCommitError as error:
        raise _as_kind(RestoreTimestampEarlierError, error) from None
    except TimestampAfterLatestCommitError as error:
        raise _as_kind(RestoreTimestampAfterLatestError, error) from None


def _as_kind(kind: type[DeltaAnalysisError], error: DeltaAnalysisError) -> DeltaAnalysisError:
    return kind(**{field.name: getattr(error, field.name) for field in dataclasses.fields(error)})


def _version(table: TableRef, travel: TimeTravel) -> tuple[int, str | None]:
    """The version to restore, and the timestamp of the statement in the form of the history."""
    assert not travel.is_newest, "RESTORE names a version or a timestamp"
    if travel.version is not None:
        return travel.version, None
    assert travel.timestamp is not None
    timestamp_ms = to_milliseconds(table.session, travel.timestamp)
    local = table.session.time_zone.to_local(timestamp_ms * 1000)
    at = value_text.micros_to_datetime(local, utc=False)
    fraction = f"{timestamp_ms % 1000:03}".rstrip("0") or "0"
    return table.delta_log.snapshots.version_at_timestamp(timestamp_ms), f"{at:%Y-%m-%d %H:%M:%S}.{fraction}"


def _check_retention(table: TableRef, now: Snapshot, then: Snapshot) -> None:
    """Raises `RestoreBeyondRetentionError`: a VACUUM that runs now may delete files of so old a version."""
    if not table.session.flag(RETENTION_SETTING, default=True):
        return
    retention_ms = now.properties.deleted_file_retention_ms
    if then.timestamp_ms < table.session.clock.now_ms() - retention_ms:
        raise RestoreBeyondRetentionError(
            table=table.label, version=then.version, retention_ms=retention_ms, setting=RETENTION_SETTING
        )


def _check_files(table: TableRef, coming: pa.Table, version: int) -> None:
    begin_phase("check files", files=len(coming))
    missing = missing_files(table.delta_log.store, coming)
    if missing:
        raise RestoreFilesMissingError(
            table=table.label, version=version, num_missing=len(missing), examples=tuple(missing[:EXAMPLES_MAX])
        )
