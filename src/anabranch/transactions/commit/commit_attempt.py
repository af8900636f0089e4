"""One attempt to commit: the draft of a proposal at its version, with all that depends on the version, and its outcome.

Storage may keep our file and lose the reply, refuse it because an earlier try of its own had succeeded, or store it
after we gave up. So no reply but CREATED is final: otherwise the log is read, and our commit recognized by its `txnId`.
Until the outcome is known the same version is tried again, never another: a commit at two versions would write its rows
twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, TypeGuard

import msgspec

from anabranch.errors.commits import CommitFateUnknownError, NumbersExhaustedError
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.errors.log import CorruptCommitError
from anabranch.log.commit_files import Commit, read_commit
from anabranch.progress.progress_events import note
from anabranch.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol, RemoveFile
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.features import active, supported
from anabranch.protocol.log_paths import VERSION_MAX, commit_path
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.value_text import LONG_MAX
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import PutOutcome
from anabranch.transactions.commit.commit_context import CommitContext
from anabranch.transactions.commit.invariants import check_invariants
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.metadata_compatibility import moved_marks
from anabranch.transactions.conflicts.rebase_report import LANDED_AFTER_TAG, version_ranges
from anabranch.transactions.proposed_commit import ProposedCommit, encoded_metrics, isolation_level_text
from anabranch.transactions.rows.row_ids import ROW_TRACKING_FEATURE, with_ids, with_row_ids

# The time of a commit. See "In-Commit Timestamps".


FEATURE = "inCommitTimestamp"
ENABLED = "delta.enableInCommitTimestamps"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def in_commit_timestamp(latest: LatestState, *, protocol: Protocol, metadata: Metadata, now_ms: int) -> int | None:
    """The timestamp of the commit after `latest`; None where the table has no in-commit timestamps.

    It is greater than that of the commit before, also when our clock is behind. Where this commit turns them on, it is
    greater than the time of the file before. Raises `NumbersExhaustedError`.
    """
    if not _is_active(protocol, metadata):
        return None
    if latest.version < 0:
        return now_ms
    previous_ms = latest.timestamp_ms if _was_active(latest) else max(latest.timestamp_ms, latest.modified_ms)
    if previous_ms >= LONG_MAX:
        way_out = f"ALTER TABLE … SET TBLPROPERTIES ('{ENABLED}' = 'false'), and 'true' again if you need them"
        raise NumbersExhaustedError(
            table=latest.table,
            version=latest.version + 1,
            numbers="in-commit timestamps",
            last=previous_ms,
            way_out=way_out,
        )
    return max(now_ms, previous_ms + 1)


def with_enablement(
    metadata: Metadata, latest: LatestState, *, protocol: Protocol, timestamp_ms: int | None
) -> Metadata:
    """`metadata`, with the version and time of the change if it turns in-commit timestamps on.

    A table that has them since version 0 does not need these properties.
    """
    if timestamp_ms is None or latest.version < 0 or _was_active(latest) or not _is_active(protocol, metadata):
        return metadata
    enablement = {ENABLEMENT_VERSION: str(latest.version + 1), ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **enablement})


def _was_active(latest: LatestState) -> bool:
    return latest.protocol is not None and latest.metadata is not None and _is_active(latest.protocol, latest.metadata)


def _is_active(protocol: Protocol, metadata: Metadata) -> bool:
    return active(protocol, FEATURE, properties=TableProperties(metadata.configuration))


# The part of the history that is kept or removed only as a whole, after a feature was dropped.
#
# `checkpointProtection` is a writer feature that PROTOCOL.md does not have yet; its text is Delta's RFC "Checkpoint
# Protection". Versions before `delta.requireCheckpointProtectionBeforeVersion` may use features that the table no
# longer lists. Readers skip them by checkpoints, so these must stay as long as any of those versions does.


CHECKPOINT_PROTECTION: Final = "checkpointProtection"
PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"


def with_protection(metadata: Metadata, latest: LatestState, *, protocol: Protocol) -> Metadata:
    """`metadata`, with the version right after `latest` as the bound if it changes the bound.

    Only DROP FEATURE does that, and then every version before its own commit is protected.
    """
    bound = metadata.configuration.get(PROTECTED_BEFORE)
    before = None if latest.metadata is None else latest.metadata.configuration.get(PROTECTED_BEFORE)
    if bound is None or bound == before or not supported(protocol, CHECKPOINT_PROTECTION):
        return metadata
    return msgspec.structs.replace(
        metadata, configuration={**metadata.configuration, PROTECTED_BEFORE: str(latest.version + 1)}
    )


TOMBSTONE_AGE_MAX_MS = 60_000
"""A tombstone that was made so long before its commit gets the time of the commit."""
ROWS_KEPT_TAG = "delta.rowTracking.preserved"
ONLY_MARKS_TAG = "delta.identity.schemaUpdate"
"""Tells delta-spark that a commit changes nothing of the metadata but marks of identity columns. Its statements that
generate no values are committed beside such a commit."""


def rows_kept_tags(snapshot: Snapshot) -> dict[str, str]:
    """The tag of a commit whose rows keep their ids. See "Writer Requirements for Row Tracking"."""
    return {} if snapshot.row_tracking is None else {ROWS_KEPT_TAG: "true"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitDraft:
    """A complete commit for one version, not yet in the log. Its invariants have been checked."""

    version: int
    txn_id: str
    actions: tuple[Action, ...]
    timestamp_ms: int
    """The time of the commit as `commitInfo` has it."""

    def encoded(self) -> bytes:
        return encode_actions(self.actions)


def draft_commit(ours: ProposedCommit, latest: LatestState, *, now_ms: int, engine_info: str) -> CommitDraft:
    """Make the commit right after `latest` from `ours`.

    Raises `InvalidCommitError`, `AppendOnlyTableError`, `UnsupportedFeatureError`, `RowIdsNeedStatisticsError`,
    `NumbersExhaustedError`.
    """
    version = latest.version + 1
    if version > VERSION_MAX:
        way_out = "Copy the rows to a new table: CREATE TABLE … AS SELECT"
        raise NumbersExhaustedError(
            table=latest.table, version=version, numbers="version", last=latest.version, way_out=way_out
        )
    protocol, metadata = check_invariants(ours, latest)
    timestamp_ms = in_commit_timestamp(latest, protocol=protocol, metadata=metadata, now_ms=now_ms)
    actions = tuple(
        with_protection(
            with_enablement(action, latest, protocol=protocol, timestamp_ms=timestamp_ms), latest, protocol=protocol
        )
        if isinstance(action, Metadata)
        else action
        for action in ours.actions
    )
    if tracked := tracks_rows(protocol, metadata):
        actions = with_row_ids(
            _with_existing_ids(actions, latest),
            after=latest.row_id_high_water_mark,
            version=version,
            table=latest.table,
        )
    info = CommitInfo(
        in_commit_timestamp=timestamp_ms,
        timestamp=now_ms if timestamp_ms is None else timestamp_ms,
        user_id=ours.operation.user,
        user_name=ours.operation.user,
        operation=ours.operation.name,
        operation_parameters=dict(ours.operation.encoded_parameters()),
        read_version=ours.read_version if ours.read_version >= 0 else None,
        isolation_level=isolation_level_text(ours.isolation),
        is_blind_append=ours.is_blind_append,
        operation_metrics=dict(encoded_metrics(ours.metrics)),
        user_metadata=ours.operation.user_metadata,
        tags=_tags(ours, latest, tracked=tracked) or None,
        engine_info=engine_info,
        txn_id=ours.txn_id,
    )
    return CommitDraft(
        version=version,
        txn_id=ours.txn_id,
        actions=(info, *_removed_now(actions, now_ms)),
        timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms,
    )


def _removed_now(actions: Sequence[Action], now_ms: int) -> Sequence[Action]:
    """The actions, with the time of the commit in tombstones that were made long before.

    A statement may run for days after it has made them. VACUUM counts the retention of a file from this time, and
    readers of the version before must find it for as long.
    """
    late = [isinstance(action, RemoveFile) and _is_late(action.deletion_timestamp, now_ms) for action in actions]
    if not any(late):
        return actions
    return [
        msgspec.structs.replace(action, deletion_timestamp=now_ms) if is_late else action
        for action, is_late in zip(actions, late, strict=True)
    ]


def _is_late(removed_ms: int | None, now_ms: int) -> bool:
    return removed_ms is not None and removed_ms < now_ms - TOMBSTONE_AGE_MAX_MS


def tracks_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every new file must have row ids."""
    suspended = TableProperties(metadata.configuration).row_tracking_suspended
    return supported(protocol, ROW_TRACKING_FEATURE) and not suspended


def _with_existing_ids(actions: Sequence[Action], latest: LatestState) -> list[Action]:
    """Give files that are in the table their ids, also those that a winner has assigned since we read."""
    existing = latest.row_ids_by_path({action.path for action in actions if _lacks_row_ids(action)})
    return [
        with_ids(action, existing[action.path]) if _lacks_row_ids(action) and action.path in existing else action
        for action in actions
    ]


def _lacks_row_ids(action: Action) -> TypeGuard[AddFile | RemoveFile]:
    return isinstance(action, AddFile | RemoveFile) and action.base_row_id is None


def _tags(ours: ProposedCommit, latest: LatestState, *, tracked: bool) -> dict[str, str]:
    tags = dict(ours.tags)
    if ours.metadata is not None and latest.metadata is not None and moved_marks(latest.metadata, ours.metadata):
        tags[ONLY_MARKS_TAG] = "true"
    if latest.winners:
        tags[LANDED_AFTER_TAG] = version_ranges(winner.version for winner in latest.winners)
    if tracked and (ROWS_KEPT_TAG not in tags or not _tracked_when_read(latest)):
        tags[ROWS_KEPT_TAG] = "false" if _copies_rows(ours) else "true"
    return tags


def _tracked_when_read(latest: LatestState) -> bool:
    """Whether row tracking was on in the version that ours read, so that our files were written with row ids."""
    return latest.base is None or tracks_rows(latest.base.protocol, latest.base.metadata)


def _copies_rows(ours: ProposedCommit) -> bool:
    """Whether new files may hold rows that the commit removes from other files or hides there."""
    removed = {remove.path for remove in ours.removes}
    return bool(removed) and any(add.path not in removed for add in ours.adds)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """The outcome of an attempt. It is final: the version has been written, by us or by another writer."""

    theirs: Commit | None
    """The other writer's commit at the version; None where the commit is ours."""
    interrupt: KeyboardInterrupt | None = None
    """An interrupt by the user while the outcome was unknown."""
    attempts: int = 1
    unresolved: str | None = None
    """Why the attempt before this one had no known outcome; None where this was the first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Unresolved:
    """An attempt whose outcome is not known yet."""

    cause: str
    error: Exception | None = None


def put_until_resolved(draft: CommitDraft, context: CommitContext) -> CommitOutcome:
    """Try to write `draft` as its version, until it is known whose commit the version is.

    Raises `StorageError` where nothing can have been written, `CorruptCommitError` where the version is a file that
    cannot be read, `CommitFateUnknownError` where the storage never reports an outcome. An interrupt by the user is
    held back until the outcome is known; a second one is raised at once.
    """
    data = draft.encoded()
    unresolved: _Unresolved | None = None
    first_interrupt: KeyboardInterrupt | None = None
    for attempt in range(1, context.bounds.unresolved_attempts_max + 1):
        try:
            outcome = _put_and_check(draft, data, context, may_be_written=unresolved is not None)
            if isinstance(outcome, CommitOutcome):
                cause = None if unresolved is None else unresolved.cause
                return dataclasses.replace(outcome, interrupt=first_interrupt, attempts=attempt, unresolved=cause)
            unresolved = outcome
            note(f"the storage does not say whether version {draft.version} is written; attempt {attempt + 1}")
            context.wait_while_unresolved(attempt)
        except KeyboardInterrupt as interrupt:
            if first_interrupt is not None:
                error = unknown_outcome_error(draft, context, attempts=attempt, cause="interrupted twice")
                interrupt.add_note(str(error))
                raise
            first_interrupt, unresolved = interrupt, _Unresolved(cause="interrupted by the user")
    assert unresolved is not None
    if isinstance(unresolved.error, CorruptCommitError):
        raise unresolved.error
    attempts = context.bounds.unresolved_attempts_max
    error = unknown_outcome_error(draft, context, attempts=attempts, cause=unresolved.cause)
    if first_interrupt is not None:
        first_interrupt.add_note(str(error))
        raise first_interrupt
    raise error from unresolved.error


def _put_and_check(
    draft: CommitDraft, data: bytes, context: CommitContext, *, may_be_written: bool
) -> CommitOutcome | _Unresolved:
    """Put the commit once. `may_be_written` says that an earlier attempt at this version may have written it."""
    try:
        outcome = context.store.put_if_absent(commit_path(draft.version), data)
    except StorageError as error:
        if not may_be_written:
            raise
        # This attempt has written nothing. An earlier one may have.
        return _outcome_in_log(draft, context, if_missing=_Unresolved(cause=error.cause, error=error))
    if outcome is PutOutcome.CREATED:
        return CommitOutcome(theirs=None)
    return _outcome_in_log(
        draft, context, if_missing=_Unresolved(cause=f"the storage replied {outcome.name} to the put")
    )


def _outcome_in_log(
    draft: CommitDraft, context: CommitContext, *, if_missing: _Unresolved
) -> CommitOutcome | _Unresolved:
    """Read whose commit the version is. Returns `if_missing` where the version is not in the log."""
    try:
        commit = read_commit(context.store, draft.version)
    except FileMissingError:
        return if_missing
    except StorageError as error:
        return _Unresolved(cause=error.cause, error=error)
    except CorruptCommitError as error:
        return _Unresolved(cause=error.reason, error=error)
    if commit.info is None or commit.info.txn_id != draft.txn_id:
        return CommitOutcome(theirs=commit)
    try:
        # On a disk, a name may be visible and yet not survive a power loss. It is safe to repeat the call until it
        # succeeds: a journal that failed to store a name keeps failing.
        context.store.make_durable(commit_path(draft.version))
    except StorageError as error:
        return _Unresolved(cause=error.cause, error=error)
    return CommitOutcome(theirs=None)


def unknown_outcome_error(
    draft: CommitDraft, context: CommitContext, *, attempts: int, cause: str
) -> CommitFateUnknownError:
    """The error that names the only version as which the draft may have been committed."""
    return CommitFateUnknownError(
        table=context.store.root, version=draft.version, txn_id=draft.txn_id, attempts=attempts, cause=cause
    )
