"""What the commit loop works with, its limits, and its result."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from anabranch.cached_property import cached_property
from anabranch.clock import Clock
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.transactions.commit.commit_queue import CommitQueue
from anabranch.transactions.conflicts.conflict_context import CanMatch
from anabranch.transactions.proposed_commit import Bin
from anabranch.transactions.rows.deletion_vector_actions import Vectors
from anabranch.transactions.rows.located_rows import FindRows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """The limits of the commit loop."""

    attempts_max: int = 10_000
    """Versions tried. Each lost attempt is a commit of another writer, so the table makes progress."""
    checks_ms_max: float = 600_000
    """Longest time of the conflict checks after a lost attempt."""
    unresolved_attempts_max: int = 12
    """Times that one version is tried while the storage does not report an outcome."""
    lost_attempt_wait_ms_max: float = 100
    """Longest pause after a lost attempt. It is short, or writers that lost most often would lose further."""
    unresolved_wait_ms_max: float = 5_000
    """Longest pause while the outcome of an attempt is unknown."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """A table's storage and everything else that the commit loop needs."""

    store: LogStore
    clock: Clock
    random: random.Random
    can_match: CanMatch
    engine_info: str
    vectors: Vectors
    queue: CommitQueue
    bounds: RetryLimits = RetryLimits()
    find_rows: FindRows | None = None

    def wait_after_lost_attempt(self, attempt: int) -> None:
        """Wait for a random time, so that concurrent writers do not collide again."""
        self._wait(attempt, limit_ms=self.bounds.lost_attempt_wait_ms_max)

    def wait_while_unresolved(self, attempt: int) -> None:
        """Give a failing storage time to recover."""
        self._wait(attempt + 5, limit_ms=self.bounds.unresolved_wait_ms_max)

    def _wait(self, attempt: int, *, limit_ms: float) -> None:
        ceiling_ms = min(limit_ms, 2.0 ** min(attempt, 20))
        self.clock.sleep_ms(self.random.uniform(0, ceiling_ms))


# A commit of ours that is in the log.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CommittedVersion:
    """A commit, with its version and the commits that landed first."""

    version: int
    timestamp_ms: int
    """The in-commit timestamp where the table has them, else our clock at the attempt."""
    txn_id: str
    attempts: int
    """Versions tried; 1 where no other commit landed first."""
    reconciled: tuple[int, ...]
    """Versions that were committed between the one read and this one."""
    dropped_bins: tuple[Bin, ...] = ()
    """For a commit that changes no row: the bins that winners made impossible. Another commit may rewrite them."""
    is_shared: bool = False
    """Whether it is the commit of another statement, too, which does what follows a commit."""
    is_part: bool = False
    """Whether it is only the result of one statement of a larger transaction, and in no log."""
    actions: tuple[Action, ...] = dataclasses.field(repr=False)
    """The actions as they are in the log."""
    load: Callable[[int], Snapshot] = dataclasses.field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as of this version, read on first access."""
        return self.load(self.version)
