"""The files that VACUUM LITE deletes: those that the log removed, without listing the table's folder.

`_delta_log/_last_vacuum_info` records the version up to which an earlier VACUUM has worked; Delta reads and writes it,
too. It is a hint: without it all commits are read, and if some are missing, LITE raises an error.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from anabranch.deletion_vectors.vector_reading import path_in_table
from anabranch.errors.environment import FileMissingError, FileTooLargeError, StorageError
from anabranch.errors.log import TimestampEarlierThanFirstCommitError
from anabranch.errors.maintenance import VacuumLiteError
from anabranch.log.commit_files import read_actions
from anabranch.log.log_segment import CommitFile, after_last_gap, list_log
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import Action, AddCDCFile, RemoveFile
from anabranch.protocol.data_paths import relative_path
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.file_tree import TREE_SCHEMA, Entry, pages_of
from anabranch.storage.log_store import LogStore

LOGGER = logging.getLogger("anabranch.vacuum")
HINT_PATH: Final = f"{LOG_DIRECTORY}/_last_vacuum_info"
HINT_BYTES_MAX: Final = 64 * 1024
_REACHED: Final = "latestCommitVersionOutsideOfRetentionWindow"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitWindow:
    """The commits in the log, and which of them are older than the retention."""

    commits: tuple[CommitFile, ...]
    """Consecutive commits, the oldest first, up to the version of the VACUUM."""
    expired_upto: int | None
    """The version that was the newest at the start of the retention; None where all are younger."""

    @property
    def earliest(self) -> int:
        return self.commits[0].version

    @classmethod
    def of(cls, store: LogStore, snapshot: Snapshot, *, cutoff_ms: int) -> CommitWindow:
        """List the log. Raises `MissingInCommitTimestampError`, `StorageError`."""
        commits = after_last_gap(list_log(store, first=0, upto=snapshot.version).commits)
        if not commits:
            return cls(commits=(), expired_upto=None)
        search = TimestampSearch.among(
            store,
            commits,
            latest_version=snapshot.version,
            latest_timestamp_ms=snapshot.timestamp_ms,
            properties=snapshot.properties,
        )
        try:
            expired = search.version_at(cutoff_ms, can_return_last=True).version
        except TimestampEarlierThanFirstCommitError:
            expired = None
        return cls(commits=commits, expired_upto=expired)


def files_of_log(store: LogStore, window: CommitWindow, *, table: str) -> pa.Table:
    """Files, vectors and change data that commits before the retention removed, with the columns of `TREE_SCHEMA`.

    Times are those of the removal. A file may be in several rows, and may not exist any more.

    Raises `VacuumLiteError` where commits are missing that no VACUUM has read; `CorruptCommitError`,
    `StorageError`, `UnsafePathError`, `DeletionVectorDescriptorError`.
    """
    if window.expired_upto is None:
        return TREE_SCHEMA.empty_table()
    reached = read_hint(store)
    if reached is not None and reached > window.commits[-1].version:
        # The hint is from an earlier table in this folder.
        reached = None
    if window.earliest > 0 and (reached is None or reached + 1 < window.earliest):
        raise VacuumLiteError(table=table, earliest_version=window.earliest, vacuumed_upto=reached)
    first = window.earliest if reached is None else reached + 1
    commits = [commit for commit in window.commits if first <= commit.version <= window.expired_upto]
    entries = (
        entry
        for _, actions in read_actions(store, commits)
        for action in actions
        for entry in removed_entries(action, store)
    )
    return pa.concat_tables([TREE_SCHEMA.empty_table(), *pages_of(entries)])


def removed_within(store: LogStore, window: CommitWindow) -> pa.Array:
    """The plain paths of files that commits within the retention removed.

    Checkpoints drop tombstones after `delta.deletedFileRetentionDuration`; to keep files for longer than that, the
    commits are read. Raises as `files_of_log`, but for `VacuumLiteError`.
    """
    after = -1 if window.expired_upto is None else window.expired_upto
    commits = [commit for commit in window.commits if commit.version > after]
    paths = [
        entry[0]
        for _, actions in read_actions(store, commits)
        for action in actions
        for entry in removed_entries(action, store)
    ]
    return pa.array(paths, pa.string())


def read_hint(store: LogStore) -> int | None:
    """The version that an earlier VACUUM has reached; None without a hint that can be read."""
    try:
        fields = json.loads(store.read(HINT_PATH, size_max=HINT_BYTES_MAX))
    except (FileMissingError, FileTooLargeError, ValueError, RecursionError):
        return None
    reached = fields.get(_REACHED) if isinstance(fields, dict) else None
    is_version = isinstance(reached, int) and not isinstance(reached, bool) and reached >= 0
    return reached if is_version else None


def write_hint(store: LogStore, reached: int | None) -> None:
    """Record the version that VACUUM has reached. A failure is logged: VACUUM itself is done."""
    fields = {} if reached is None else {_REACHED: reached}
    try:
        store.put(HINT_PATH, json.dumps(fields, separators=(",", ":")).encode())
    except StorageError:
        LOGGER.warning("%s: VACUUM is done, but %s could not be written", store.root, HINT_PATH, exc_info=True)


def removed_entries(action: Action, store: LogStore) -> Iterator[Entry]:
    """The files that an action leaves to VACUUM: a removed file, its vector, a file of changes, whose time is 0."""
    if isinstance(action, AddCDCFile):
        path = relative_path(action.path, table_root=store.root)
        if path is not None:
            yield path, action.size, 0, False
    if not isinstance(action, RemoveFile):
        return
    removed_ms = action.deletion_timestamp or 0
    path = relative_path(action.path, table_root=store.root)
    if path is not None:
        yield path, action.size or 0, removed_ms, False
    vector = action.deletion_vector
    path = None if vector is None else path_in_table(vector, table_root=store.root)
    if vector is not None and path is not None:
        yield path, vector.size_in_bytes, removed_ms, False
