"""Whether the log that a commit follows is still there, before the put and behind it.

While a writer works or its machine sleeps, clean-up may remove versions that it never saw, or the table may be dropped
and made anew. Its next version is then unused, and a put of it succeeds although nobody would read it.
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
from anabranch.errors.log import CorruptCheckpointError
from anabranch.errors.protocol import InvalidPropertyError
from anabranch.log.checkpoint_reading import read_checkpoint
from anabranch.log.file_columns import vector_ids
from anabranch.log.listing import CheckpointFiles, LogListing, list_log
from anabranch.protocol.actions import AddFile
from anabranch.protocol.log_paths import LOG_DIRECTORY, commit_path
from anabranch.storage.log_store import LogStore, StoredFile
from anabranch.transaction.commit.commit_context import CommitContext
from anabranch.transaction.commit.commit_draft import CommitDraft
from anabranch.transaction.commit.commit_outcome import unknown_fate
from anabranch.transaction.conflicts.latest_state import LatestState

LOGGER = logging.getLogger("anabranch.commit")
PROMPT_MS = 10_000
"""A put that is answered so soon after the look before it cannot have met a log that was cleaned up in between."""
RETENTION_MS_MIN = 60_000
"""Where the log is kept for less, nothing is concluded from the time that has passed."""
CLOCKS_APART_MS_MAX = 2_000
"""The times of two files in one storage may be so far from the order in which they were written."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stopwatch:
    """The time since the look before a put, by two clocks: each of them may miss that the machine slept."""

    clock: Clock
    started_ms: int
    started_elapsed_ms: int

    @classmethod
    def start(cls, clock: Clock) -> Stopwatch:
        return cls(clock=clock, started_ms=clock.now_ms(), started_elapsed_ms=clock.elapsed_ms())

    def is_prompt(self) -> bool:
        wall_ms = self.clock.now_ms() - self.started_ms
        return 0 <= wall_ms < PROMPT_MS and self.clock.elapsed_ms() - self.started_elapsed_ms < PROMPT_MS


def check_latest_is_there(read: LatestState, latest: LatestState, store: LogStore) -> None:
    """Refuse to write behind a gap: the version that ours is to follow must be in the log, as we know it.

    Or clean-up has taken its file and none behind it; then the next version is taken, and the put is lost.
    Raises `LogMovedOnError`, `MetadataChangedException`.
    """
    witness = _witness(latest)
    if witness is None or _stands(witness, store):
        return
    listing = list_log(store, first=0, upto=None)
    if listing.latest_version is None or listing.latest_version <= latest.version:
        raise _replaced(witness, read, latest)
    if not _has_all_winners(listing, witness, latest, store):
        raise _moved_on(read, listing)


def _has_all_winners(listing: LogListing, witness: StoredFile, latest: LatestState, store: LogStore) -> bool:
    """Whether the log lacks the file of `latest`, and has each commit since, up to its newest version, of one table.

    That clean-up took the file, a checkpoint of that version or a later one shows. What cannot be told counts as no.
    """
    versions = [commit.version for commit in listing.commits if commit.version > latest.version]
    newest = listing.newest_checkpoint()
    if versions != list(range(latest.version + 1, (listing.latest_version or 0) + 1)):
        return False
    if newest is None or newest.version < latest.version or store.head(witness.path) is not None:
        return False
    try:
        there = read_checkpoint(store, newest).metadata
    except (CorruptCheckpointError, FileMissingError):
        return False
    return there is not None and latest.metadata is not None and there.id == latest.metadata.id


def check_landed(
    draft: CommitDraft, stopwatch: Stopwatch, *, read: LatestState, latest: LatestState, context: CommitContext
) -> KeyboardInterrupt | None:
    """See that our commit, which has just been put, is one that readers read; take it back where it is not.

    Returns the interrupt by which the user asked to stop meanwhile. Raises `LogMovedOnError` where the log was cleaned
    up beyond our version before the put, `MetadataChangedException` where the table was dropped before it, and
    `CommitFateUnknownError` where that cannot be told; nothing else, since the commit may be in the table.
    """
    witness = _witness(latest)
    if stopwatch.is_prompt() and _keeps_log(latest):
        try:
            if witness is None or _stands(witness, context.store):
                return None
        except KeyboardInterrupt as asked:
            return asked
        except Exception as failure:
            # Had the table been dropped in this moment, ours would have been a commit right before that.
            LOGGER.warning("version %d landed; the look behind it failed: %s", draft.version, failure)
            return None
    verdict, interrupt = _until_answered(draft, context, lambda: _verdict(draft, witness, context.store))
    if verdict is Verdict.READ:
        return interrupt
    if verdict is Verdict.UNKNOWN:
        cause = "after the put, the log was not the one that this commit follows"
        raise _with(interrupt, unknown_fate(draft, context, attempts=1, cause=cause))
    raise _with(interrupt, _taken_back(draft, verdict, witness, read=read, latest=latest, store=context.store))


def _keeps_log(latest: LatestState) -> bool:
    """Whether the table keeps its log for so long that a prompt put cannot have met a clean-up."""
    try:
        properties = latest.properties
        return min(properties.log_retention_ms, properties.drop_feature_retention_ms) >= RETENTION_MS_MIN
    except InvalidPropertyError:
        return False


class Verdict(enum.Enum):
    """What became of a commit that was put."""

    READ = "readers read it"
    BEFORE_CHECKPOINT = "readers begin at a checkpoint that was there before it and does not hold it"
    BEHIND_GAP = "the versions before it are gone"
    UNKNOWN = "it stands in a log that is not the one it follows"


def _verdict(draft: CommitDraft, witness: StoredFile | None, store: LogStore) -> Verdict:
    listing = list_log(store, first=0, upto=None)
    ours = next((commit.file for commit in listing.commits if commit.version == draft.version), None)
    if ours is None:
        return Verdict.UNKNOWN
    newest = listing.checkpoints[-1] if listing.checkpoints else None
    if newest is not None and newest.version >= draft.version:
        return _verdict_by(newest, draft, ours, store)
    if any(commit.version > draft.version for commit in listing.commits):
        # Nobody puts a version before the one below it is there, and no checkpoint says that another one was.
        return Verdict.READ
    if witness is None:
        return Verdict.READ
    before = next((commit.file for commit in listing.commits if commit.version == draft.version - 1), None)
    if newest is not None and newest.version == draft.version - 1 and witness in newest.files:
        return Verdict.READ
    if before is None:
        return Verdict.BEHIND_GAP
    return Verdict.READ if before == witness else Verdict.UNKNOWN


def _verdict_by(checkpoint: CheckpointFiles, draft: CommitDraft, ours: StoredFile, store: LogStore) -> Verdict:
    """By what a checkpoint of our version or a later one holds; else by which of the two was written first."""
    keys = {action.key for action in draft.actions if isinstance(action, AddFile)}
    if keys:
        contents = read_checkpoint(store, checkpoint)
        files = (contents.adds, contents.load_tombstones())
        known = any(not keys.isdisjoint(_keys_among(table, {path for path, _ in keys})) for table in files)
        return Verdict.READ if known else Verdict.BEFORE_CHECKPOINT
    after_ms = max(file.modified_ms for file in checkpoint.files) - ours.modified_ms
    if abs(after_ms) <= CLOCKS_APART_MS_MAX:
        return Verdict.UNKNOWN
    return Verdict.READ if after_ms > 0 else Verdict.BEFORE_CHECKPOINT


def _keys_among(files: pa.Table, paths: set[str]) -> set[tuple[str, str | None]]:
    chosen = files.filter(pc.is_in(files["path"], value_set=pa.array(sorted(paths), pa.string())))
    return set(zip(chosen["path"].to_pylist(), vector_ids(chosen["deletion_vector"]).to_pylist(), strict=True))


def _taken_back(
    draft: CommitDraft,
    verdict: Verdict,
    witness: StoredFile | None,
    *,
    read: LatestState,
    latest: LatestState,
    store: LogStore,
) -> DeltaError:
    """The error, once our file is removed. No reader comes by it, and nobody builds upon it."""
    if verdict is Verdict.BEFORE_CHECKPOINT:
        error: DeltaError = _moved_on(read, list_log(store, first=0, upto=None))
    else:
        assert witness is not None
        error = _replaced(witness, read, latest)
    try:
        store.delete(commit_path(draft.version))
        if verdict is Verdict.BEHIND_GAP:
            store.remove_directory(LOG_DIRECTORY)
    except StorageError as failure:
        error.add_note(f"anabranch: {commit_path(draft.version)} is left behind and should be deleted: {failure}")
    return error


def _until_answered(
    draft: CommitDraft, context: CommitContext, ask: Callable[[], T]
) -> tuple[T, KeyboardInterrupt | None]:
    """What `ask` answers, tried again while the storage fails. A first interrupt by the user is held back.

    Raises `CommitFateUnknownError`, and the second interrupt.
    """
    interrupt: KeyboardInterrupt | None = None
    failure: Exception | None = None
    for attempt in range(1, context.bounds.doubts_max + 1):
        try:
            return ask(), interrupt
        except KeyboardInterrupt as asked:
            if interrupt is not None:
                asked.add_note(str(unknown_fate(draft, context, attempts=attempt, cause="interrupted twice")))
                raise
            interrupt = asked
        except Exception as error:
            failure = error
            context.wait_in_doubt(attempt)
    unknown = unknown_fate(draft, context, attempts=context.bounds.doubts_max, cause=str(failure))
    raise _with(interrupt, unknown) from failure


def _with(interrupt: KeyboardInterrupt | None, error: DeltaError) -> BaseException:
    """What is to be raised: the interrupt goes before, and carries what is wrong."""
    if interrupt is None:
        return error
    interrupt.add_note(str(error))
    return interrupt


def _witness(state: LatestState) -> StoredFile | None:
    """The file that stands for the newest version of `state`; None where there is no table yet."""
    if state.winners:
        return state.winners[-1].commit.file
    if state.base is None:
        return None
    segment = state.base.segment
    if segment.version_file is None and segment.checkpoint is not None:
        return segment.checkpoint.files[0]
    return segment.version_file


def _stands(witness: StoredFile, store: LogStore) -> bool:
    if store.head(witness.path) == witness:
        return True
    # Some storages round times differently in a listing, which is where the witness comes from.
    directory, _, name = witness.path.rpartition("/")
    return witness in store.list_from(directory, start_after=name[:-1])


def _moved_on(read: LatestState, listing: LogListing) -> LogMovedOnError:
    earliest = listing.earliest_recreatable_version()
    return LogMovedOnError(table=read.table, read_version=read.version, earliest=earliest)


def _replaced(witness: StoredFile, read: LatestState, latest: LatestState) -> MetadataChangedException:
    return MetadataChangedException(
        table=latest.table,
        version=None,
        operation="another program",
        read_version=read.version,
        reason=ConflictReason.TABLE_REPLACED,
        where=f"{witness.path} is gone, or is another file",
        advice="The table was dropped, or made anew. Check what is there now.",
    )
