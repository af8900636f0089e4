"""RESTORE: the table becomes what it was at an older version, as a new version.

What that takes is worked out from the file tables of both versions, without a Spark job. See
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
from anabranch.commands.dml.statement import check_may_change_rows, executed_again
from anabranch.commands.path_suffixes import TimeTravel
from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.restore.restore_definition import restored_definition
from anabranch.commands.table_access import TableRef
from anabranch.deletion_vectors.vector_locations import vector_path
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
from anabranch.protocol import value_text
from anabranch.protocol.actions import Action, AddFile, DeletionVectorDescriptor, Metadata, RemoveFile
from anabranch.protocol.data_paths import decode_path_column
from anabranch.protocol.features import check_writable
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.rows.deletion_vector_actions import removal
from anabranch.transaction.statement_retry import Attempt
from anabranch.transaction.transaction import Transaction

# Which files lead from one version to another, and whether they are still there. No Spark, and no object a file.


LISTED_FROM = 256
"""So many files and more are looked up in a listing of the table, fewer one by one."""
_AT_ONCE = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """What has to leave and to come so that the files of one version become those of another.

    A logical file is a path and a vector: a file whose vector differs leaves and comes.
    """

    leaving: pa.Array
    """By row of the files there are: True for those that the other version has not."""
    coming: pa.Array
    """By row of the other version's files: True for those that are not there."""

    @property
    def num_leaving(self) -> int:
        return int(self.leaving.true_count)


def file_difference(now: LiveFiles, then: LiveFiles) -> FileDifference:
    """From `now` to `then`."""
    ours, theirs = (logical_keys(files.columns("path", "deletion_vector")) for files in (now, then))
    return FileDifference(leaving=_not_in(ours, theirs), coming=_not_in(theirs, ours))


def missing_files(store: LogStore, files: pa.Table) -> list[str]:
    """Data files and vector files of these live files that the store has not, in plain text, sorted.

    Raises `UnsafePathError` for a file outside of where the table may reach, `StorageError`.
    """
    places = allowed_prefixes_of(store)
    wanted = decode_path_column(files["path"], table_root=store.root, allowed_prefixes=places)
    vectors = files["deletion_vector"].drop_null().to_pylist()
    named = {
        vector_path(DeletionVectorDescriptor(**vector), table_root=store.root, allowed_prefixes=places)
        for vector in vectors
        if vector["storage_type"] != "i"
    }
    wanted = pc.unique(pa.concat_arrays([wanted, pa.array(sorted(named), pa.string())]))
    if len(wanted) >= LISTED_FROM:
        listed = pa.array([file.path for file in store.list_tree()], pa.string())
        wanted = wanted.filter(_not_in(wanted, listed))
    if not len(wanted):
        return []
    # What a listing lacks is asked for by name: files outside the table are in none.
    paths: list[str] = sorted(wanted.to_pylist())
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(paths)), thread_name_prefix="restore") as pool:
        there = list(pool.map(lambda path: store.head(path) is not None, paths))
    return [path for path, found in zip(paths, there, strict=True) if not found]


def _not_in(keys: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    mask = pc.invert(pc.is_in(keys, value_set=others))
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


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
            conflicts_with=self._conflict_with,
        )
        return Restored(committed=committed, metrics=self.metrics)

    def _rows_leaving(self) -> dict[FileKey, None]:
        """Files that go with all their rows, wherever an OPTIMIZE may have moved these; not those that come back."""
        coming = {action.path for action in self.files if isinstance(action, AddFile)}
        removes = (action for action in self.files if isinstance(action, RemoveFile))
        return {remove.key: None for remove in removes if remove.path not in coming}

    def _conflict_with(self, commit: Commit) -> str | None:
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


def restore(table: TableRef, travel: TimeTravel) -> Restored | None:
    """Make the table what it was; None where it is at that version.

    Raises the errors of time travel for versions that are not there, `RestoreFilesMissingError`,
    `RestoreBeyondRetentionError`, `AppendOnlyTableError`, and the errors of `errors.commits`.
    """

    def run(attempt: Attempt) -> Restored | None:
        prepared = prepare_restore(table, travel)
        return None if prepared is None else prepared.commit(attempt)

    restored = executed_again(table, run, None)
    if restored is not None:
        register_if_changed(table, restored.committed)
    return restored


def restore_frame(table: TableRef, travel: TimeTravel) -> DataFrame:
    """As `restore`. The result is Delta's: one row of sizes and numbers of files, none where nothing had to be done."""
    restored = restore(table, travel)
    rows = [] if restored is None else [tuple(restored.metrics.values())]
    return table.session.spark.createDataFrame(rows, RESULT)


def prepare_restore(table: TableRef, travel: TimeTravel) -> PreparedRestore | None:
    """All of `restore` but the commit; None where the table is at that version."""
    now = table.latest()
    with _told_as_restore():
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
    """What makes the version that the transaction reads into `then`."""
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
def _told_as_restore() -> Iterator[None]:
    """Delta tells of the same refusals by other conditions here than where rows are read."""
    try:
        yield
    except VersionNotFoundError as error:
        raise _same(RestoreVersionNotFoundError, error) from None
    except TimestampEarlierThanFirstCommitError as error:
        raise _same(RestoreTimestampEarlierError, error) from None
    except TimestampAfterLatestCommitError as error:
        raise _same(RestoreTimestampAfterLatestError, error) from None


def _same(kind: type[DeltaAnalysisError], error: DeltaAnalysisError) -> DeltaAnalysisError:
    return kind(**{field.name: getattr(error, field.name) for field in dataclasses.fields(error)})


def _version(table: TableRef, travel: TimeTravel) -> tuple[int, str | None]:
    """The version meant, and how the history tells of the time that was given."""
    assert not travel.is_newest, "RESTORE says where to"
    if travel.version is not None:
        return travel.version, None
    assert travel.timestamp is not None
    timestamp_ms = to_milliseconds(table.session, travel.timestamp)
    local = table.session.time_zone.to_local(timestamp_ms * 1000)
    at = value_text.micros_to_datetime(local, utc=False)
    fraction = f"{timestamp_ms % 1000:03}".rstrip("0") or "0"
    return table.delta_log.snapshots.version_at_timestamp(timestamp_ms), f"{at:%Y-%m-%d %H:%M:%S}.{fraction}"


def _check_retention(table: TableRef, now: Snapshot, then: Snapshot) -> None:
    """A VACUUM that runs now looks at the version there is, by which it may take files so old that come back here."""
    if not table.session.flag(RETENTION_SETTING, default=True):
        return
    retention_ms = now.properties.deleted_file_retention_ms
    if then.timestamp_ms < table.session.clock.now_ms() - retention_ms:
        raise RestoreBeyondRetentionError(
            table=table.label, version=then.version, retention_ms=retention_ms, setting=RETENTION_SETTING
        )


def _check_files(table: TableRef, coming: pa.Table, version: int) -> None:
    missing = missing_files(table.delta_log.store, coming)
    if missing:
        raise RestoreFilesMissingError(
            table=table.label, version=version, num_missing=len(missing), examples=tuple(missing[:EXAMPLES_MAX])
        )
