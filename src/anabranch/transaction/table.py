"""A table as something to begin transactions on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from anabranch import __version__
from anabranch.clock import Clock
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshots import Snapshots
from anabranch.storage.log_store import LogStore
from anabranch.transaction.after_commit import AfterCommit
from anabranch.transaction.commit import Landed, NothingLeft, land
from anabranch.transaction.commit_place import CommitBounds, CommitPlace
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.finding_rows import FindRows
from anabranch.transaction.head import head_at
from anabranch.transaction.matching import can_match
from anabranch.transaction.operation import Operation
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.race import CanMatch
from anabranch.transaction.random_uuid import random_uuid
from anabranch.transaction.read_set import DescribeRows
from anabranch.transaction.transaction import Transaction
from anabranch.transaction.upkeep import standard_upkeep
from anabranch.transaction.vectors import StoredVectors

ENGINE_INFO = f"anabranch/{__version__}"
DEFAULT_BOUNDS = CommitBounds()


class Table:
    """One table, be it there already or not. Any number of threads may use it.

    `random` names transactions and spreads retries. Outside of tests it is a `random.SystemRandom`: two
    processes that share a seed, as after a fork, would take each other's commits for their own.
    `after_commit` is the upkeep of the log; without it, checksums and checkpoints are written. `landed` is called after
    each commit, and raises nothing.
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
        bounds: CommitBounds = DEFAULT_BOUNDS,
        snapshots: Snapshots | None = None,
        landed: Callable[[], None] | None = None,
    ) -> None:
        self.store = store
        self.snapshots = snapshots or Snapshots(store, clock)
        self._landed = landed
        self._after_commit = after_commit or standard_upkeep(store, clock, random)
        self._place = CommitPlace(
            store=store,
            clock=clock,
            random=random,
            can_match=can_match,
            find_rows=find_rows,
            vectors=StoredVectors(store, random),
            engine_info=engine_info,
            bounds=bounds,
        )

    @property
    def root(self) -> str:
        return self.store.root

    def begin(self, operation: Operation, *, describe_rows: DescribeRows | None = None) -> Transaction:
        """A transaction on the newest version, or on nothing where there is no table: its commit creates it."""
        return self.begin_at(operation, snapshot=self.snapshots.latest_or_none(), describe_rows=describe_rows)

    def begin_at(
        self, operation: Operation, *, snapshot: Snapshot | None, describe_rows: DescribeRows | None = None
    ) -> Transaction:
        """A transaction on a version that was read before.

        `describe_rows` tells rows by their values in the message of a conflict.
        """
        # What it has read of vectors is dropped with the transaction.
        vectors = StoredVectors(self.store, self._place.random)
        place = dataclasses.replace(self._place, vectors=vectors)
        return Transaction(
            operation=operation,
            snapshot=snapshot,
            txn_id=random_uuid(self._place.random),
            vectors=vectors,
            land=lambda proposal: self._land(proposal, snapshot, place),
            describe_rows=describe_rows,
        )

    def _land(self, proposal: ProposedCommit, snapshot: Snapshot | None, place: CommitPlace) -> CommittedVersion | None:
        landed = land(proposal, read=head_at(snapshot, table=self.root), place=place)
        if isinstance(landed, NothingLeft):
            return None
        version = self._committed(landed)
        if self._landed is not None:
            self._landed()
        if landed.interrupt is not None:
            landed.interrupt.add_note(f"anabranch: version {version.version} of {self.root} had landed by then.")
            raise landed.interrupt
        try:
            self._after_commit.run(version)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"anabranch: version {version.version} of {self.root} had landed before.")
            raise
        return version

    def _committed(self, landed: Landed) -> CommittedVersion:
        return CommittedVersion(
            version=landed.draft.version,
            timestamp_ms=landed.draft.timestamp_ms,
            txn_id=landed.draft.txn_id,
            attempts=landed.attempts,
            reconciled=tuple(winner.version for winner in landed.head.winners),
            dropped_bins=landed.dropped,
            actions=landed.draft.actions,
            load=self._snapshot_at,
        )

    def _snapshot_at(self, version: int) -> Snapshot:
        latest = self.snapshots.latest()
        return latest if latest.version == version else self.snapshots.at_version(version)
