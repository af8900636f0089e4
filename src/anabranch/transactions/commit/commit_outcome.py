"""Whether the commit at a version is ours.

Storage may keep our file and lose the reply, refuse it because an earlier try of its own had succeeded, or store it
after we gave up. So no reply but CREATED is final: otherwise the log is read, and our commit recognized by its `txnId`.
Until the outcome is known the same version is tried again, never another: a commit at two versions would write its rows
twice.
"""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import CommitFateUnknownError
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.errors.log import CorruptCommitError
from anabranch.log.commit_files import Commit, read_commit
from anabranch.progress.progress_events import note
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import PutOutcome
from anabranch.transactions.commit.commit_context import CommitContext
from anabranch.transactions.commit.commit_draft import CommitDraft


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
