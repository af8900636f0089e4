"""The one loop that advances a table."""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import ConcurrentWriteException, ConflictReason
from anabranch.log.commit_files import read_commits
from anabranch.transaction.commit.commit_context import CommitContext
from anabranch.transaction.commit.commit_draft import CommitDraft, draft_commit
from anabranch.transaction.commit.commit_outcome import CommitOutcome, put_until_known
from anabranch.transaction.commit.log_continuity import Stopwatch, check_head_stands, check_landed
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
    head: LatestState
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
    proposal: ProposedCommit, *, read: LatestState, place: CommitContext
) -> Committed | NothingToCommit:
    """Add `proposal`, which was made from `read`, to the log.

    Raises the exceptions of `errors.conflicts` and `errors.commits`, `UnsupportedFeatureError`,
    `CorruptCommitError` and `StorageError`; after any of them but `CommitFateUnknownError` nothing of the
    proposal is in the log.
    """
    head, ours = read, drop_redundant_actions(proposal, read)
    for attempt in range(1, place.bounds.attempts_max + 1):
        stopwatch = Stopwatch.start(place.clock)
        check_head_stands(read, head, place.store)
        draft = draft_commit(ours, head, now_ms=place.clock.now_ms(), engine_info=place.engine_info)
        fate = put_until_known(draft, place)
        if fate.theirs is None:
            interrupt = check_landed(draft, stopwatch, read=read, head=head, place=place) or fate.interrupt
            dropped = tuple(each for each in proposal.bins if each not in ours.bins)
            return Committed(draft=draft, head=head, attempts=attempt, dropped=dropped, interrupt=interrupt)
        _raise_interrupt(fate, draft)
        place.wait_after_race(attempt)
        head = head.after(_winners(fate, place))
        ours = _rebased(proposal, read, head, place)
        if proposal.bins and not ours.bins:
            return NothingToCommit(dropped=proposal.bins)
        check_files_stand(ours, head, place.store)
    raise _too_many_winners(proposal, head, place)


def _rebased(proposal: ProposedCommit, read: LatestState, head: LatestState, place: CommitContext) -> ProposedCommit:
    """The proposal as first made, rebased over all winners at once."""
    deadline_ms = place.clock.now_ms() + place.bounds.checks_ms_max
    race = ConflictContext(
        ours=proposal,
        read=read,
        head=head,
        can_match=place.can_match,
        vectors=place.vectors,
        time_is_up=lambda: place.clock.now_ms() > deadline_ms,
        find_rows=place.find_rows,
    )
    outcome = rebase(race)
    if isinstance(outcome, Conflict):
        raise told(outcome, race).as_error(
            table=head.table, read_version=read.version, describe_rows=proposal.describe_rows
        )
    return outcome


def _winners(fate: CommitOutcome, place: CommitContext) -> list[Winner]:
    """The commit that took our version, and those behind it. A listing that lags only costs another attempt."""
    assert fate.theirs is not None
    later = read_commits(place.store, after=fate.theirs.version)
    return [Winner(commit=commit) for commit in (fate.theirs, *later)]


def _raise_interrupt(fate: CommitOutcome, draft: CommitDraft) -> None:
    """Stop where the user asked to; by now it is known that nothing landed."""
    if fate.interrupt is not None:
        fate.interrupt.add_note(f"anabranch: nothing landed; version {draft.version} is another writer's.")
        raise fate.interrupt


def _too_many_winners(proposal: ProposedCommit, head: LatestState, place: CommitContext) -> ConcurrentWriteException:
    return ConcurrentWriteException(
        table=head.table,
        version=head.version,
        operation=head.winners[-1].operation,
        read_version=proposal.read_version,
        reason=ConflictReason.TOO_MANY_WINNERS,
        where=f"{place.bounds.attempts_max} attempts",
        advice="Nothing is in conflict: run the operation again when fewer writers are at work.",
    )
