"""The files of the log that make readers faster: `N.crc` with every commit, a checkpoint every few."""

from __future__ import annotations

import dataclasses
import functools
import random

from anabranch.clock import Clock
from anabranch.log.checksum import write_checksum
from anabranch.snapshot.checkpointing import is_due, write_checkpoint
from anabranch.snapshot.checksums import checksum_of
from anabranch.storage.log_store import LogStore
from anabranch.transaction.after_commit import AfterCommit
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.random_uuid import random_uuid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteChecksum:
    """See "Version Checksum File": written once, after the commit, never over another."""

    store: LogStore
    name: str = "checksum"

    def run(self, landed: CommittedVersion) -> None:
        write_checksum(self.store, landed.version, checksum_of(landed.snapshot, txn_id=landed.txn_id))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheckpoint:
    """See "Checkpoints" and `delta.checkpointInterval`."""

    store: LogStore
    clock: Clock
    random: random.Random
    name: str = "checkpoint"

    def run(self, landed: CommittedVersion) -> None:
        if is_due(landed.snapshot):
            new_uuid = functools.partial(random_uuid, self.random)
            write_checkpoint(self.store, landed.snapshot, clock=self.clock, new_uuid=new_uuid)


def standard_upkeep(store: LogStore, clock: Clock, random: random.Random) -> AfterCommit:
    """What every writer does for its readers."""
    return AfterCommit(steps=(WriteChecksum(store=store), WriteCheckpoint(store=store, clock=clock, random=random)))
