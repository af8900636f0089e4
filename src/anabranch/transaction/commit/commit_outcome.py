"""Whether our commit is the one that stands at a version.

Storage may keep our file and lose its reply, refuse it because an attempt of its own had landed, or take
it after we gave up. So no answer but CREATED is final: the log is asked, by our `txnId`. Until it is
known, the same version is tried again, never another: at two versions the same rows would be written twice.
"""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import CommitFateUnknownError
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.errors.log import CorruptCommitError
from anabranch.log.commit_files import Commit, read_commit
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import PutOutcome
from anabranch.transaction.commit.commit_context import CommitContext
from anabranch.transaction.commit.commit_draft import CommitDraft


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """What became of a draft. It is final: the version is taken, by us or by another."""

    theirs: Commit | None
    """The commit that stands there instead of ours; None where it is ours."""
    interrupt: KeyboardInterrupt | None = None
    """The user asked to stop while the outcome was open."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """No answer yet."""

    cause: str
    error: Exception | None = None


def put_until_known(draft: CommitDraft, context: CommitContext) -> CommitOutcome:
    """Try to make `draft` the commit of its version, until it is known who has the version.

    Raises `StorageError` where nothing can have landed, `CorruptCommitError` where the version is taken by
    a file that cannot be read, `CommitFateUnknownError` where the storage never told. An interrupt by the
    user is held back until the outcome is known; a second one is not.
    """
    data = draft.encoded()
    doubt: _Doubt | None = None
    interrupt: KeyboardInterrupt | None = None
    for attempt in range(1, context.bounds.doubts_max + 1):
        try:
            found = _put_and_look(draft, data, context, in_doubt=doubt is not None)
            if isinstance(found, CommitOutcome):
                return dataclasses.replace(found, interrupt=interrupt)
            doubt = found
            context.wait_in_doubt(attempt)
        except KeyboardInterrupt as asked:
            if interrupt is not None:
                asked.add_note(str(unknown_fate(draft, context, attempts=attempt, cause="interrupted twice")))
                raise
            interrupt, doubt = asked, _Doubt(cause="interrupted by the user")
    assert doubt is not None
    if isinstance(doubt.error, CorruptCommitError):
        raise doubt.error
    error = unknown_fate(draft, context, attempts=context.bounds.doubts_max, cause=doubt.cause)
    if interrupt is not None:
        interrupt.add_note(str(error))
        raise interrupt
    raise error from doubt.error


def _put_and_look(draft: CommitDraft, data: bytes, context: CommitContext, *, in_doubt: bool) -> CommitOutcome | _Doubt:
    try:
        outcome = context.store.put_if_absent(commit_path(draft.version), data)
    except StorageError as error:
        if not in_doubt:
            raise
        # This attempt surely made nothing. An earlier one may have.
        return _look(draft, context, unless=_Doubt(cause=error.cause, error=error))
    if outcome is PutOutcome.CREATED:
        return CommitOutcome(theirs=None)
    return _look(draft, context, unless=_Doubt(cause=f"the put was answered {outcome.name}"))


def _look(draft: CommitDraft, context: CommitContext, *, unless: _Doubt) -> CommitOutcome | _Doubt:
    """Whose commit stands at the version; `unless` where none is seen."""
    try:
        commit = read_commit(context.store, draft.version)
    except FileMissingError:
        return unless
    except StorageError as error:
        return _Doubt(cause=error.cause, error=error)
    except CorruptCommitError as error:
        return _Doubt(cause=error.reason, error=error)
    if commit.info is None or commit.info.txn_id != draft.txn_id:
        return CommitOutcome(theirs=commit)
    try:
        # On a disk, a name may show and yet not survive a power loss. Asking again is no self-deception: a
        # journal that failed to take a name keeps failing.
        context.store.make_durable(commit_path(draft.version))
    except StorageError as error:
        return _Doubt(cause=error.cause, error=error)
    return CommitOutcome(theirs=None)


def unknown_fate(draft: CommitDraft, context: CommitContext, *, attempts: int, cause: str) -> CommitFateUnknownError:
    """The error that names the one version at which the draft can be."""
    return CommitFateUnknownError(
        table=context.store.root, version=draft.version, txn_id=draft.txn_id, attempts=attempts, cause=cause
    )
