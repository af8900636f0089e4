"""A Delta table in a log store, on which transactions begin."""

from __future__ import annotations

import copy
import dataclasses
import functools
import random
import threading
from collections.abc import Callable

from anabranch import __version__
from anabranch.clock import Clock, random_uuid
from anabranch.errors.log import VersionNotFoundError
from anabranch.progress.progress_events import begin_phase
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore
from anabranch.transactions.commit.after_commit import LOGGER, AfterCommit, standard_upkeep
from anabranch.transactions.commit.commit_context import CommitContext, CommitQueue, CommittedVersion, RetryLimits
from anabranch.transactions.commit.commit_loop import Committed, NothingToCommit, commit_with_retries
from anabranch.transactions.commit.group_commit import commit_grouped, may_be_grouped
from anabranch.transactions.commit.log_continuity import check_is_stored
from anabranch.transactions.conflicts.conflict_context import CanMatch, can_match
from anabranch.transactions.conflicts.latest_state import latest_state_at
from anabranch.transactions.proposed_commit import Operation, ProposedCommit
from anabranch.transactions.read_set import DescribeRows
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors, Vectors
from anabranch.transactions.rows.located_rows import FindRows
from anabranch.transactions.transaction import MultiStatementTransaction, Transaction

ENGINE_INFO = f"anabranch/{__version__}"
DEFAULT_BOUNDS = RetryLimits()


class DeltaLog:
    """One table, which may not exist yet. It is thread-safe.

    `random` makes the ids of transactions and the pauses between retries. Outside of tests it is a
    `random.SystemRandom`: two processes that share a seed, as after a fork, would take each other's commits for their
    own. `queue` has the threads of this process that commit to the same table, also by other objects of this class.
    `after_commit` is the upkeep of the log after each commit; by default, that of `standard_upkeep`. `landed` is
    called with the version after each commit, and must not raise.
    """

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        random: random.Random,
        *,
        engine_info: str = ENGINE_INFO,
        after_commit: AfterCommit | None = None,
        can_match: CanMatch = can_match,
        find_rows: FindRows | None = None,
        bounds: RetryLimits = DEFAULT_BOUNDS,
        snapshots: SnapshotCache | None = None,
        queue: CommitQueue | None = None,
        landed: Callable[[int], None] | None = None,
    ) -> None:
        self.store = store
        queue = queue or CommitQueue()
        self.snapshots = snapshots or SnapshotCache(store, clock, recent=queue.recent)
        self.compacting = threading.Lock()
        """Held during auto-compaction, so that the threads of one process do not compact the same files at once."""
        self._random = random
        self._landed = landed
        self._whole: MultiStatementTransaction | None = None
        self._after_commit = after_commit or standard_upkeep(store, clock, random)
        self._context = CommitContext(
            store=store,
            clock=clock,
            random=random,
            can_match=can_match,
            find_rows=find_rows,
            vectors=self._cached_vectors(),
            engine_info=engine_info,
            bounds=bounds,
            queue=queue,
        )

    @property
    def root(self) -> str:
        return self.store.root

    def begin(self, operation: Operation, *, describe_rows: DescribeRows | None = None) -> Transaction:
        """A transaction on the newest version. Where the table does not exist, its commit creates the table."""
        return self.begin_at(operation, snapshot=self.snapshots.latest_or_none(), describe_rows=describe_rows)

    def begin_at(
        self, operation: Operation, *, snapshot: Snapshot | None, describe_rows: DescribeRows | None = None
    ) -> Transaction:
        """A transaction on a version that was read before.

        `describe_rows` formats rows by their values for the message of a conflict.
        """
        vectors = self._cached_vectors()
        context = dataclasses.replace(self._context, vectors=vectors)
        return Transaction(
            operation=operation,
            snapshot=snapshot,
            txn_id=random_uuid(self._random),
            vectors=vectors,
            commit_proposal=lambda proposal: self._commit_proposal(proposal, snapshot, context),
            describe_rows=describe_rows,
            part_of=self._whole,
        )

    def _cached_vectors(self) -> Callable[[], Vectors]:
        """A function that returns the vectors of one transaction, which caches them; most appends need none."""
        return functools.cache(lambda: StoredVectors(self.store, self._random))

    def as_seen_by(self, whole: MultiStatementTransaction, snapshots: SnapshotCache) -> DeltaLog:
        """The same table with these versions; its transactions are parts of a larger one, and commit nothing."""
        log = copy.copy(self)
        log.snapshots, log._whole = snapshots, whole
        return log

    def _commit_proposal(
        self, proposal: ProposedCommit, snapshot: Snapshot | None, context: CommitContext
    ) -> CommittedVersion | None:
        """Commit the proposal. Raises `ExecuteAgainError` if it reserves numbers for its statement instead."""
        begin_phase("commit")
        writes = True
        committed: Committed | NothingToCommit
        if proposal.may_be_grouped and snapshot is not None and may_be_grouped(proposal, snapshot):
            committed, writes = commit_grouped(proposal, snapshot=snapshot, context=context)
        else:
            read = latest_state_at(snapshot, table=self.root)
            committed = commit_with_retries(proposal, read=read, context=context)
        if isinstance(committed, NothingToCommit):
            return None
        version = self._committed(committed, is_shared=not writes)
        landed = "was already committed" if committed.execute_again is None else "only reserves numbers for it"
        try:
            self._check_is_stored(committed, version, context)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"anabranch: version {version.version} of {self.root} {landed}.")
            raise
        if self._landed is not None:
            self._landed(version.version)
        if committed.interrupt is not None:
            committed.interrupt.add_note(f"anabranch: version {version.version} of {self.root} {landed}.")
            raise committed.interrupt
        if version.is_shared:
            return version
        try:
            self._after_commit.run(version)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"anabranch: version {version.version} of {self.root} {landed}.")
            raise
        if committed.execute_again is not None:
            raise committed.execute_again
        return version

    def _check_is_stored(self, committed: Committed, version: CommittedVersion, context: CommitContext) -> None:
        """Raise `CommitFateUnknownError` where the storage acknowledged our commit and does not have it.

        The upkeep needs the snapshot of the version, so for a sound storage this takes no call more.
        """
        if version.is_shared or committed.interrupt is not None or not self._after_commit.steps:
            return
        try:
            info = version.snapshot.info
            if info is not None and info.txn_id == version.txn_id:
                return
        except VersionNotFoundError:
            pass
        except Exception:
            LOGGER.debug("the upkeep will say why version %d cannot be read", version.version, exc_info=True)
            return
        check_is_stored(committed.draft, committed.latest, context)

    def _committed(self, committed: Committed, *, is_shared: bool) -> CommittedVersion:
        before = committed.latest.commit_files
        return CommittedVersion(
            version=committed.draft.version,
            timestamp_ms=committed.draft.timestamp_ms,
            txn_id=committed.draft.txn_id,
            attempts=committed.attempts,
            reconciled=tuple(winner.version for winner in committed.latest.winners),
            dropped_bins=committed.dropped,
            is_shared=is_shared,
            actions=committed.draft.actions,
            load=lambda version: self.snapshots.after_commit(version, before=before),
        )
