"""A commit of ours that is in the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property

from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.proposed_commit import Bin


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
