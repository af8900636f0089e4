"""The commit loop. No other code adds a version to a table."""

from __future__ import annotations

import dataclasses
import logging

from anabranch.errors.commits import (
    ConcurrentWriteException,
    ConflictReason,
    DeltaConcurrentModificationException,
    LogMovedOnError,
)
from anabranch.progress.progress_events import note
from anabranch.transactions.commit.commit_attempt import (
    CommitDraft,
    CommitOutcome,
    draft_commit,
    put_until_resolved,
    unknown_outcome_error,
)
from anabranch.transactions.commit.commit_context import CommitContext
from anabranch.transactions.commit.commit_message import commit_message
from anabranch.transactions.commit.log_continuity import PutTimer, check_commit_is_visible, check_latest_exists
from anabranch.transactions.commit.number_reservation import reservation
from anabranch.transactions.commit.vacuumed_files import check_files_exist
from anabranch.transactions.conflicts.conflict_advice import with_advice, with_advice_on_transaction
from anabranch.transactions.conflicts.conflict_checks import conflicting_statement, rebase
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import Bin, ProposedCommit
from anabranch.transactions.reserved_numbers import ExecuteAgainError, ReservedNumbers

LOGGER = logging.getLogger("anabranch.commit")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit that is in the log."""

    draft: CommitDraft
    latest: LatestState
    """The table right before it."""
    attempts: int
    """Versions tried, the last one included."""
    dropped: tuple[Bin, ...] = ()
    """Bins that winners made impossible. Another commit may rewrite them on the new version."""
    interrupt: KeyboardInterrupt | None = None
    """An interrupt by the user during the commit, which the caller raises after it."""
    execute_again: ExecuteAgainError | None = None
    """For a commit that only reserves numbers for the proposal: the error that the caller raises after it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NothingToCommit:
    """Winners made all bins of a commit that changes no row impossible. Nothing was written, and it is no error."""

    dropped: tuple[Bin, ...]


def commit_with_retries(
    proposal: ProposedCommit, *, read: LatestState, context: CommitContext
) -> Committed | NothingToCommit:
    """Add `proposal`, which was made from `read`, to the log.

    Raises the exceptions of `errors.commits`, `UnsupportedFeatureError`, `CorruptCommitError` and `StorageError`.
    After any of them except `CommitFateUnknownError` nothing of the proposal is in the log. With `execute_again` of the
    result nothing of it is there either: it has lost, and numbers are reserved for another execution.
    """
    with context.queue.turn() as has_waited:
        return commit_in_turn(proposal, read=read, context=context, has_waited=has_waited)


def commit_in_turn(
    proposal: ProposedCommit, *, read: LatestState, context: CommitContext, has_waited: bool
) -> Committed | NothingToCommit:
    """As `commit_with_retries`, in a turn for which the process may have waited for another one."""
    others_committed = has_waited or context.queue.newest_version > read.version
    winners = _winners_since(read, context) if others_committed else []
    latest, ours = read, read.without_redundant(proposal)
    begun_ms = context.clock.elapsed_ms()
    no_matches = set[tuple[object, ...]]()
    lost: DeltaConcurrentModificationException | None = None
    for attempt in range(1, context.bounds.attempts_max + 1):
        if winners:
            latest = latest.after(winners)
            note(
                f"{latest.winners[-1].operation} landed version {latest.version} first; this commit is rebased over it"
            )
            ours, lost = _rebased(proposal, read, latest, context, no_matches)
            if proposal.bins and not ours.bins:
                return NothingToCommit(dropped=proposal.bins)
            check_files_exist(ours, latest, context.store)
        timer = PutTimer.start(context.clock)
        check_latest_exists(read, latest, context.store)
        draft = draft_commit(ours, latest, now_ms=context.clock.now_ms(), engine_info=context.engine_info)
        outcome = put_until_resolved(draft, context)
        if outcome.theirs is None:
            context.queue.note_version(draft.version)
            interrupt = _checked_after_put(outcome, draft, timer, read=read, latest=latest, context=context)
            _log_commit(draft, latest, attempts=attempt, elapsed_ms=context.clock.elapsed_ms() - begun_ms)
            return Committed(
                draft=draft,
                latest=latest,
                attempts=attempt,
                dropped=tuple(proposed for proposed in proposal.bins if proposed not in ours.bins),
                interrupt=interrupt or outcome.interrupt,
                execute_again=None if lost is None else _execute_again(ours, draft, lost),
            )
        _raise_interrupt(outcome, draft)
        context.wait_after_lost_attempt(attempt)
        winners = _winners(outcome, context)
    raise _too_many_winners(proposal, latest.after(winners), context)


def _checked_after_put(
    outcome: CommitOutcome,
    draft: CommitDraft,
    timer: PutTimer,
    *,
    read: LatestState,
    latest: LatestState,
    context: CommitContext,
) -> KeyboardInterrupt | None:
    """As `check_commit_is_visible`; but where an attempt before the last may have landed, no error says otherwise."""
    try:
        return check_commit_is_visible(draft, timer, read=read, latest=latest, context=context)
    except (LogMovedOnError, DeltaConcurrentModificationException) as error:
        if outcome.unresolved is None:
            raise
        cause = outcome.unresolved
        raise unknown_outcome_error(draft, context, attempts=outcome.attempts, cause=cause) from error


def _rebased(
    proposal: ProposedCommit,
    read: LatestState,
    latest: LatestState,
    context: CommitContext,
    no_matches: set[tuple[object, ...]],
) -> tuple[ProposedCommit, DeltaConcurrentModificationException | None]:
    """The original proposal, rebased over all winners at once. Raises the conflict, where there is one.

    If reserved numbers can resolve the conflict, it returns the commit that reserves them, and the conflict.
    """
    deadline_ms = context.clock.now_ms() + context.bounds.checks_ms_max
    conflict_context = ConflictContext(
        ours=proposal,
        read=read,
        latest=latest,
        can_match=context.can_match,
        vectors=context.vectors(),
        time_is_up=lambda: context.clock.now_ms() > deadline_ms,
        find_rows=context.find_rows,
        no_matches=no_matches,
    )
    outcome = rebase(conflict_context)
    if isinstance(outcome, Conflict):
        outcome = with_advice(outcome, conflict_context)
        if proposal.statements:
            outcome = with_advice_on_transaction(outcome, conflicting_statement(conflict_context))
        error = outcome.as_error(table=latest.table, read_version=read.version, describe_rows=proposal.describe_rows)
        reserving = reservation(outcome, conflict_context)
        if reserving is None:
            raise error
        return reserving, error
    return outcome, None


def _execute_again(
    ours: ProposedCommit, draft: CommitDraft, lost: DeltaConcurrentModificationException
) -> ExecuteAgainError:
    return ExecuteAgainError(ReservedNumbers(version=draft.version, ranges=ours.reserves), lost)


def _winners_since(read: LatestState, context: CommitContext) -> list[Winner]:
    """The commits that landed while we waited for our turn: the version after `read` would be tried in vain."""
    check_latest_exists(read, read, context.store)
    return [Winner(commit=commit) for commit in context.queue.recent.read_commits(context.store, after=read.version)]


def _winners(outcome: CommitOutcome, context: CommitContext) -> list[Winner]:
    """The commit that has our version, and those after it. A listing that lags only costs another attempt."""
    assert outcome.theirs is not None
    later = context.queue.recent.read_commits(context.store, after=outcome.theirs.version)
    winners = [Winner(commit=commit) for commit in (outcome.theirs, *later)]
    context.queue.note_version(winners[-1].version)
    return winners


def _log_commit(draft: CommitDraft, latest: LatestState, *, attempts: int, elapsed_ms: int) -> None:
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    try:
        LOGGER.info("%s", commit_message(draft, latest, attempts=attempts, elapsed_ms=elapsed_ms))
    except Exception:
        # The commit is in the log: nothing may report a failure now.
        LOGGER.warning("%s: version %d could not be described", latest.table, draft.version, exc_info=True)


def _raise_interrupt(outcome: CommitOutcome, draft: CommitDraft) -> None:
    """Raise the interrupt by the user, where there was one. The outcome shows that nothing of ours was committed."""
    if outcome.interrupt is not None:
        outcome.interrupt.add_note(f"anabranch: nothing was committed; version {draft.version} is another writer's.")
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
        advice="There is no conflict: run the operation again when fewer writers are active.",
    )
