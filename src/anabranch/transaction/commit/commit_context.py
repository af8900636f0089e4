"""What the commit loop works with, and the bounds it keeps."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from functools import cached_property

from anabranch.clock import Clock
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.transaction.conflicts.conflict_context import CanMatch
from anabranch.transaction.proposed_commit import Bin
from anabranch.transaction.rows.row_access import FindRows, Vectors


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How long the loop goes on."""

    attempts_max: int = 10_000
    """Versions tried. Every lost attempt is somebody else's commit, so the table moves on."""
    checks_ms_max: float = 600_000
    """Longest time to tell, after a lost race, whether ours is in conflict."""
    doubts_max: int = 12
    """Times one version is tried while the storage does not say what became of it."""
    race_wait_ms_max: float = 100
    """Longest pause after a lost race. It grows no further, or those who lost most would lose on."""
    doubt_wait_ms_max: float = 5_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """Where commits land."""

    store: LogStore
    clock: Clock
    random: random.Random
    can_match: CanMatch
    engine_info: str
    vectors: Vectors
    bounds: RetryLimits = RetryLimits()
    find_rows: FindRows | None = None

    def wait_after_race(self, attempt: int) -> None:
        """Let rivals drift apart."""
        self._wait(attempt, limit_ms=self.bounds.race_wait_ms_max)

    def wait_in_doubt(self, attempt: int) -> None:
        """Give a storage in trouble time to recover."""
        self._wait(attempt + 5, limit_ms=self.bounds.doubt_wait_ms_max)

    def _wait(self, attempt: int, *, limit_ms: float) -> None:
        ceiling_ms = min(limit_ms, 2.0 ** min(attempt, 20))
        self.clock.sleep_ms(self.random.uniform(0, ceiling_ms))


# A commit of ours that is in the log.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CommittedVersion:
    """What landed, where, and behind whom."""

    version: int
    timestamp_ms: int
    """In-commit timestamp where the table has them, else our clock when the commit was tried."""
    txn_id: str
    attempts: int
    """Versions tried; 1 where nobody was in the way."""
    reconciled: tuple[int, ...]
    """Versions that landed between the one read and this one."""
    dropped_bins: tuple[Bin, ...] = ()
    """Of a commit that changes no row: parts that winners made impossible, to be done again if wanted."""
    actions: tuple[Action, ...] = dataclasses.field(repr=False)
    """As they stand in the log."""
    load: Callable[[int], Snapshot] = dataclasses.field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as of this version; read when first asked for."""
        return self.load(self.version)
