"""Blind appends of one process that wait for one another land as one commit.

Each thread waits for its turn. The first one to get it takes the appends out of the line that can be part of the same
commit, and commits the files of all of them. An append is only in a group with others whose files obey the same
description of the table, so every check of the commit is as for its own.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Sequence

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import CommitFateUnknownError
from anabranch.protocol.actions import AddFile
from anabranch.protocol.column_rules import IDENTITY_PREFIX
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_context import CommitContext, Waiter
from anabranch.transactions.commit.commit_loop import Committed, NothingToCommit, commit_in_turn, commit_with_retries
from anabranch.transactions.commit.log_continuity import check_is_stored
from anabranch.transactions.conflicts.latest_state import latest_state_at
from anabranch.transactions.proposed_commit import ProposedCommit, least_certain

LOGGER = logging.getLogger("anabranch.commit")
GROUPED_METRIC = "numGroupedAppends"
MEMBERS_MAX = 64
FILES_MAX = 1_000
"""A larger append is committed alone: its commit takes longer than those of others that wait for it."""


class Member(Waiter):
    """An append that may be part of a group."""

    def __init__(self, proposal: ProposedCommit, snapshot: Snapshot) -> None:
        super().__init__()
        self.proposal = proposal
        self.snapshot = snapshot
        self.committed: Committed | None = None
        """The commit of the group; None where each member commits alone."""
        self.failure: BaseException | None = None
        """The error of the group's commit, which may be in the log."""

    def fits(self, other: Waiter) -> bool:
        """Whether the other append has the same operation and user, and was made for the same description."""
        if not isinstance(other, Member):
            return False
        ours, theirs = self.proposal, other.proposal
        same_table = (self.snapshot.metadata, self.snapshot.protocol) == (
            other.snapshot.metadata,
            other.snapshot.protocol,
        )
        return same_table and ours.operation == theirs.operation and ours.metrics.keys() == theirs.metrics.keys()


def may_be_grouped(proposal: ProposedCommit, snapshot: Snapshot) -> bool:
    """Whether a proposal only adds rows, and depends on no row, no number of its application and no other commit.

    Not on the main thread: only there an interrupt by the user may end the commit, which the others need.
    """
    if threading.current_thread() is threading.main_thread():
        return False
    only_adds = all(isinstance(action, AddFile) and action.deletion_vector is None for action in proposal.actions)
    depends_on_nothing = proposal.is_blind_append and not proposal.reads.application_ids
    is_plain = (
        proposal.conflicts_with is None
        and proposal.edited_properties is None
        and not (proposal.tags or proposal.statements)
    )
    has_sums = all(isinstance(number, int) for number in proposal.metrics.values())
    # The next value of an identity column is a part of the table's description.
    has_identity = IDENTITY_PREFIX in snapshot.metadata.schema_string
    is_small = 0 < len(proposal.actions) <= FILES_MAX
    return only_adds and depends_on_nothing and is_plain and has_sums and is_small and not has_identity


def commit_grouped(
    proposal: ProposedCommit, *, snapshot: Snapshot, context: CommitContext
) -> tuple[Committed | NothingToCommit, bool]:
    """Commit `proposal`, alone or with others, and return whether this thread wrote the commit.

    Raises as `commit_with_retries`. An append that makes the commit of its group fail fails alone.
    """
    member = Member(proposal, snapshot)
    with context.queue.turn_or_release(member) as has_waited:
        if has_waited is not None:
            return _commit_with_others(member, context, has_waited=has_waited), True
    if member.failure is not None:
        raise member.failure
    if member.committed is not None:
        return member.committed, False
    read = latest_state_at(snapshot, table=context.store.root)
    return commit_with_retries(proposal, read=read, context=context), True


def _commit_with_others(member: Member, context: CommitContext, *, has_waited: bool) -> Committed | NothingToCommit:
    waiters = context.queue.take_out(member.fits, count_max=MEMBERS_MAX - 1)
    others = [other for other in waiters if isinstance(other, Member)]
    try:
        if others:
            committed = _commit_group([member, *others], context, has_waited=has_waited)
            for other in others:
                other.committed = committed
            return committed
    except DeltaError as error:
        if isinstance(error, CommitFateUnknownError):
            _fail(others, error)
            raise
        LOGGER.info("%s: %d appends commit one by one: %s", context.store.root, len(others) + 1, error)
    except BaseException as error:
        # The error is none that says that nothing was written.
        _fail(others, error)
        raise
    finally:
        context.queue.release(others)
    read = latest_state_at(member.snapshot, table=context.store.root)
    return commit_in_turn(member.proposal, read=read, context=context, has_waited=has_waited)


def _fail(members: Sequence[Member], error: BaseException) -> None:
    for member in members:
        member.failure = error


def _commit_group(members: Sequence[Member], context: CommitContext, *, has_waited: bool) -> Committed:
    """One commit of several appends, with their files and the sums of their metrics, after the oldest version read."""
    first = members[0].proposal
    oldest = min((member.snapshot for member in members), key=lambda snapshot: snapshot.version)
    proposals = [member.proposal for member in members]
    sums = {name: sum(int(proposal.metrics[name]) for proposal in proposals) for name in first.metrics}
    union = dataclasses.replace(
        first,
        read_version=oldest.version,
        actions=tuple(action for proposal in proposals for action in proposal.actions),
        metrics={**sums, GROUPED_METRIC: len(members)},
        on_new_columns=least_certain(proposals),
    )
    read = latest_state_at(oldest, table=context.store.root)
    committed = commit_in_turn(union, read=read, context=context, has_waited=has_waited)
    assert isinstance(committed, Committed), "only bins can be left out"
    # Here, before the others hear of the commit: each of them would have to look.
    check_is_stored(committed.draft, committed.latest, context)
    return committed
