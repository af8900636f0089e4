"""The one loop that advances a table."""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import ConcurrentWriteException, ConflictReason
from anabranch.log.commit_files import read_commits
from anabranch.transaction.commit.commit_context import CommitContext
from anabranch.transaction.commit.commit_draft import CommitDraft, draft_commit
from anabranch.transaction.commit.commit_outcome import CommitOutcome, put_until_known
from anabranch.transaction.commit.log_continuity import Stopwatch, check_landed, check_latest_is_there
from anabranch.transaction.commit.vacuumed_files import check_files_stand
from anabranch.transaction.conflicts.conflict_advice import told
from anabranch.transaction.conflicts.conflict_checks import drop_redundant_actions, rebase
from anabranch.transaction.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import Bin, ProposedCommit


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit that is in the log."""

    draft: CommitDraft
    latest: LatestState
    """The table right before it."""
    attempts: int
    """Versions tried, the last one included."""
    dropped: tuple[Bin, ...] = ()
    """Parts that others made impossible; they may be done again on the new version."""
    interrupt: KeyboardInterrupt | None = None
    """The user asked to stop while it landed; to be raised when that cannot hurt any more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NothingToCommit:
    """A commit that changes no row lost all of its parts to others. Nothing was written, and nothing is wrong."""

    dropped: tuple[Bin, ...]


def commit_with_retries(
    proposal: ProposedCommit, *, read: LatestState, context: CommitContext
) -> Committed | NothingToCommit:
    """Add `proposal`, which was made from `read`, to the log.

    Raises the errors of `errors.commits`, `UnsupportedFeatureError`, `CorruptCommitError` and `StorageError`; after any
    of them but `CommitFateUnknownError` nothing of the proposal is in the log.
    """
    latest, ours = read, drop_redundant_actions(proposal, read)
    for attempt in range(1, context.bounds.attempts_max + 1):
        stopwatch = Stopwatch.start(context.clock)
        check_latest_is_there(read, latest, context.store)
        draft = draft_commit(ours, latest, now_ms=context.clock.now_ms(), engine_info=context.engine_info)
        outcome = put_until_known(draft, context)
        if outcome.theirs is None:
            interrupt = check_landed(draft, stopwatch, read=read, latest=latest, context=context) or outcome.interrupt
            dropped = tuple(each for each in proposal.bins if each not in ours.bins)
            return Committed(draft=draft, latest=latest, attempts=attempt, dropped=dropped, interrupt=interrupt)
        _raise_interrupt(outcome, draft)
        context.wait_after_race(attempt)
        latest = latest.after(_winners(outcome, context))
        ours = _rebased(proposal, read, latest, context)
        if proposal.bins and not ours.bins:
            return NothingToCommit(dropped=proposal.bins)
        check_files_stand(ours, latest, context.store)
    raise _too_many_winners(proposal, latest, context)


def _rebased(
    proposal: ProposedCommit, read: LatestState, latest: LatestState, context: CommitContext
) -> ProposedCommit:
    """The proposal as first made, rebased over all winners at once."""
    deadline_ms = context.clock.now_ms() + context.bounds.checks_ms_max
    conflict_context = ConflictContext(
        ours=proposal,
        read=read,
        latest=latest,
        can_match=context.can_match,
        vectors=context.vectors,
        time_is_up=lambda: context.clock.now_ms() > deadline_ms,
        find_rows=context.find_rows,
    )
    outcome = rebase(conflict_context)
    if isinstance(outcome, Conflict):
        raise told(outcome, conflict_context).as_error(
            table=latest.table, read_version=read.version, describe_rows=proposal.describe_rows
        )
    return outcome


def _winners(outcome: CommitOutcome, context: CommitContext) -> list[Winner]:
    """The commit that took our version, and those behind it. A listing that lags only costs another attempt."""
    assert outcome.theirs is not None
    later = read_commits(context.store, after=outcome.theirs.version)
    return [Winner(commit=commit) for commit in (outcome.theirs, *later)]


def _raise_interrupt(outcome: CommitOutcome, draft: CommitDraft) -> None:
    """Stop where the user asked to; by now it is known that nothing landed."""
    if outcome.interrupt is not None:
        outcome.interrupt.add_note(f"anabranch: nothing landed; version {draft.version} is another writer's.")
        raise outcome.interrupt


def _too_many_winners(
    proposal: ProposedCommit, latest: LatestState, context: CommitContext
) -> ConcurrentWriteException:
    return ConcurrentWriteException(
        table=latest.table,
        version=latest.version,
        operation=latest.winners[-1].operation,
        read_version=proposal.read_version,
        reason=ConflictReason.TOO_MANY_WINNERS,
        where=f"{context.bounds.attempts_max} attempts",
        advice="Nothing is in conflict: run the operation again when fewer writers are at work.",
    )
