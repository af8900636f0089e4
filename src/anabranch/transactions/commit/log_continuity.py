"""Whether the log that a commit follows still exists, checked before and after the put.

While a writer works or its machine sleeps, clean-up may remove versions that it never saw, or the table may be dropped
and created again. Then the writer's next version is unused, and a put of it succeeds although no reader reads it.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.clock import Clock
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import (
    ConflictReason,
    LogMovedOnError,
    MetadataChangedException,
)
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError
from anabranch.errors.protocol import InvalidPropertyError
from anabranch.log.checkpoint_reading import read_checkpoint
from anabranch.log.commit_files import read_commit_info
from anabranch.log.file_columns import vector_ids
from anabranch.log.log_segment import CheckpointFiles, CommitFile, LogListing, list_log
from anabranch.protocol.actions import AddFile
from anabranch.protocol.log_paths import LOG_DIRECTORY, commit_path
from anabranch.storage.log_store import LogStore, StoredFile
from anabranch.transactions.commit.commit_attempt import CommitDraft, unknown_outcome_error
from anabranch.transactions.commit.commit_context import CommitContext
from anabranch.transactions.conflicts.latest_state import LatestState

LOGGER = logging.getLogger("anabranch.commit")
PROMPT_MS = 10_000
"""If the put returns within this time after the check before it, the log was not cleaned up in between."""
RETENTION_MS_MIN = 60_000
"""If the log is kept for less, the time since the check is no evidence."""
CLOCKS_APART_MS_MAX = 2_000
"""If the times of two files in one storage differ by less, it is not certain which was written first."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PutTimer:
    """The time since the check before a put, by two clocks: each of them may miss that the machine slept."""

    clock: Clock
    started_ms: int
    started_elapsed_ms: int

    @classmethod
    def start(cls, clock: Clock) -> PutTimer:
        return cls(clock=clock, started_ms=clock.now_ms(), started_elapsed_ms=clock.elapsed_ms())

    def is_prompt(self) -> bool:
        """Whether less than `PROMPT_MS` have passed by both clocks."""
        wall_ms = self.clock.now_ms() - self.started_ms
        return 0 <= wall_ms < PROMPT_MS and self.clock.elapsed_ms() - self.started_elapsed_ms < PROMPT_MS


def check_latest_exists(read: LatestState, latest: LatestState, store: LogStore) -> None:
    """Refuse to write after a gap: the file of the version that ours follows must be in the log, unchanged.

    So must that of the version that was read: the commit that we lost to may itself be one after a gap, of a writer
    that has not checked it yet and will remove it. A file may also be missing if clean-up has removed it and no later
    commit: then the next version exists, and the put loses to it. Raises `LogMovedOnError`, `MetadataChangedException`.
    """
    for state in (read, latest) if latest.winners else (latest,):
        version_file = _version_file(state)
        if version_file is None or _is_unchanged(version_file, store):
            continue
        listing = list_log(store, first=0, upto=None)
        if listing.latest_version is None or listing.latest_version <= state.version:
            raise _table_replaced_error(version_file, read, latest)
        if not _has_all_winners(listing, version_file, state, store):
            raise _log_moved_on_error(read, listing)


def _has_all_winners(listing: LogListing, version_file: StoredFile, latest: LatestState, store: LogStore) -> bool:
    """Whether only the file of `latest` is missing, and every commit since is in the log of the same table.

    A checkpoint of that version or a later one shows that clean-up removed the file. False where that is not certain.
    """
    versions = [commit.version for commit in listing.commits if commit.version > latest.version]
    newest = listing.newest_checkpoint()
    if versions != list(range(latest.version + 1, (listing.latest_version or 0) + 1)):
        return False
    if newest is None or newest.version < latest.version or store.head(version_file.path) is not None:
        return False
    try:
        metadata = read_checkpoint(store, newest).metadata
    except (CorruptCheckpointError, FileMissingError):
        return False
    return metadata is not None and latest.metadata is not None and metadata.id == latest.metadata.id


def check_commit_is_visible(
    draft: CommitDraft, timer: PutTimer, *, read: LatestState, latest: LatestState, context: CommitContext
) -> KeyboardInterrupt | None:
    """Check that readers read our commit, which has just been put; remove its file if they do not.

    Returns an interrupt by the user during the check. Raises `LogMovedOnError` where the log was cleaned up beyond our
    version before the put, `MetadataChangedException` where the table was dropped before it, and
    `CommitFateUnknownError` where that is not certain; nothing else, since the commit may be in the table.
    """
    version_file = _version_file(latest)
    if timer.is_prompt() and _keeps_log(latest):
        try:
            if version_file is None or _is_unchanged(version_file, context.store):
                return None
        except KeyboardInterrupt as user_interrupt:
            return user_interrupt
        except Exception as failure:
            # If the table is dropped at this moment, ours was a commit right before that.
            LOGGER.warning("version %d is committed; the check after it failed: %s", draft.version, failure)
            return None
    visibility, interrupt = _retry_until_resolved(
        draft, context, lambda: _visibility(draft, version_file, context.store)
    )
    if visibility is Visibility.VISIBLE:
        return interrupt
    if visibility is Visibility.UNKNOWN:
        cause = "after the put, the log was not the one that this commit follows"
        raise _error_or_interrupt(interrupt, unknown_outcome_error(draft, context, attempts=1, cause=cause))
    raise _error_or_interrupt(
        interrupt, _remove_own_commit(draft, visibility, version_file, read=read, latest=latest, store=context.store)
    )


def check_is_stored(draft: CommitDraft, latest: LatestState, context: CommitContext) -> None:
    """Raise `CommitFateUnknownError` where the storage acknowledged our commit, and its version is not ours.

    A storage that does not answer now has not lost the commit. And where the version before ours is gone or another
    file, too, the log was cleaned up or the table dropped after our commit.
    """
    before, path = _version_file(latest), commit_path(draft.version)
    if before is None:
        return
    try:
        file = context.store.head(path)
        info = None if file is None else read_commit_info(context.store, CommitFile(version=draft.version, file=file))
        if (info is not None and info.txn_id == draft.txn_id) or not _is_unchanged(before, context.store):
            return
    except (StorageError, CorruptCommitError):
        return
    where = "is not there" if file is None else "is another writer's"
    cause = f"it acknowledged the file of the commit, which {where}"
    raise unknown_outcome_error(draft, context, attempts=1, cause=cause)


def _keeps_log(latest: LatestState) -> bool:
    """Whether the table keeps its log so long that no clean-up can remove versions during a prompt put."""
    try:
        properties = latest.properties
        return min(properties.log_retention_ms, properties.drop_feature_retention_ms) >= RETENTION_MS_MIN
    except InvalidPropertyError:
        return False


class Visibility(enum.Enum):
    """Whether readers read a commit that was put."""

    VISIBLE = "readers read it"
    BEFORE_CHECKPOINT = "readers begin at a checkpoint that is older than it and does not contain it"
    BEHIND_GAP = "the versions before it are gone"
    UNKNOWN = "it is in a log that is not the one it follows"


def _visibility(draft: CommitDraft, version_file: StoredFile | None, store: LogStore) -> Visibility:
    listing = list_log(store, first=0, upto=None)
    ours = next((commit.file for commit in listing.commits if commit.version == draft.version), None)
    if ours is None:
        return Visibility.UNKNOWN
    newest = listing.checkpoints[-1] if listing.checkpoints else None
    if newest is not None and newest.version >= draft.version:
        return _visibility_by_checkpoint(newest, draft, ours, store)
    if any(commit.version > draft.version for commit in listing.commits):
        # A writer puts a version only after the one before it, and no checkpoint shows that it was another commit.
        return Visibility.VISIBLE
    if version_file is None:
        return Visibility.VISIBLE
    before = next((commit.file for commit in listing.commits if commit.version == draft.version - 1), None)
    if newest is not None and newest.version == draft.version - 1 and version_file in newest.files:
        return Visibility.VISIBLE
    if before is None:
        return Visibility.BEHIND_GAP
    return Visibility.VISIBLE if before == version_file else Visibility.UNKNOWN


def _visibility_by_checkpoint(
    checkpoint: CheckpointFiles, draft: CommitDraft, ours: StoredFile, store: LogStore
) -> Visibility:
    """The visibility by a checkpoint of our version or a later one: by its contents, else by its time and ours."""
    keys = {action.key for action in draft.actions if isinstance(action, AddFile)}
    if keys:
        contents = read_checkpoint(store, checkpoint)
        files = (contents.adds, contents.load_tombstones())
        paths = {path for path, _ in keys}
        contained = any(not keys.isdisjoint(_keys_of_paths(table, paths)) for table in files)
        return Visibility.VISIBLE if contained else Visibility.BEFORE_CHECKPOINT
    after_ms = max(file.modified_ms for file in checkpoint.files) - ours.modified_ms
    if abs(after_ms) <= CLOCKS_APART_MS_MAX:
        return Visibility.UNKNOWN
    return Visibility.VISIBLE if after_ms > 0 else Visibility.BEFORE_CHECKPOINT


def _keys_of_paths(files: pa.Table, paths: set[str]) -> set[tuple[str, str | None]]:
    chosen = files.filter(pc.is_in(files["path"], value_set=pa.array(sorted(paths), pa.string())))
    return set(zip(chosen["path"].to_pylist(), vector_ids(chosen["deletion_vector"]).to_pylist(), strict=True))


def _remove_own_commit(
    draft: CommitDraft,
    visibility: Visibility,
    version_file: StoredFile | None,
    *,
    read: LatestState,
    latest: LatestState,
    store: LogStore,
) -> DeltaError:
    """Remove our file from the log, and return the error to raise. No reader has read it, and no commit follows it."""
    if visibility is Visibility.BEFORE_CHECKPOINT:
        error: DeltaError = _log_moved_on_error(read, list_log(store, first=0, upto=None))
    else:
        assert version_file is not None
        error = _table_replaced_error(version_file, read, latest)
    try:
        store.delete(commit_path(draft.version))
        if visibility is Visibility.BEHIND_GAP:
            store.remove_directory(LOG_DIRECTORY)
    except StorageError as failure:
        error.add_note(f"anabranch: {commit_path(draft.version)} is left behind and should be deleted: {failure}")
    return error


def _retry_until_resolved(
    draft: CommitDraft, context: CommitContext, check: Callable[[], T]
) -> tuple[T, KeyboardInterrupt | None]:
    """The result of `check`, repeated while the storage fails. A first interrupt by the user is held back.

    Raises `CommitFateUnknownError`, and the second interrupt.
    """
    first_interrupt: KeyboardInterrupt | None = None
    failure: Exception | None = None
    for attempt in range(1, context.bounds.unresolved_attempts_max + 1):
        try:
            return check(), first_interrupt
        except KeyboardInterrupt as interrupt:
            if first_interrupt is not None:
                twice = unknown_outcome_error(draft, context, attempts=attempt, cause="interrupted twice")
                interrupt.add_note(str(twice))
                raise
            first_interrupt = interrupt
        except Exception as error:
            failure = error
            context.wait_while_unresolved(attempt)
    unknown = unknown_outcome_error(draft, context, attempts=context.bounds.unresolved_attempts_max, cause=str(failure))
    raise _error_or_interrupt(first_interrupt, unknown) from failure


def _error_or_interrupt(interrupt: KeyboardInterrupt | None, error: DeltaError) -> BaseException:
    """The exception to raise: an interrupt comes first, with the error as a note."""
    if interrupt is None:
        return error
    interrupt.add_note(str(error))
    return interrupt


def _version_file(state: LatestState) -> StoredFile | None:
    """The commit or checkpoint file of the newest version of `state`; None where the table does not exist yet."""
    if state.winners:
        return state.winners[-1].commit.file
    if state.base is None:
        return None
    segment = state.base.segment
    if segment.version_file is None and segment.checkpoint is not None:
        return segment.checkpoint.files[0]
    return segment.version_file


def _is_unchanged(file: StoredFile, store: LogStore) -> bool:
    if store.head(file.path) == file:
        return True
    # Some storages round times differently in a listing, which is where `file` comes from.
    directory, _, name = file.path.rpartition("/")
    return file in store.list_from(directory, start_after=name[:-1])


def _log_moved_on_error(read: LatestState, listing: LogListing) -> LogMovedOnError:
    earliest = listing.earliest_recreatable_version()
    return LogMovedOnError(table=read.table, read_version=read.version, earliest=earliest)


def _table_replaced_error(version_file: StoredFile, read: LatestState, latest: LatestState) -> MetadataChangedException:
    return MetadataChangedException(
        table=latest.table,
        version=None,
        operation="another program",
        read_version=read.version,
        reason=ConflictReason.TABLE_REPLACED,
        where=f"{version_file.path} is missing, or is another file",
        advice="The table was dropped or created again. Check which table is there now.",
    )
