"""What readers find besides the commits: `N.crc`, a checkpoint every few, metadata for readers of Iceberg."""

from __future__ import annotations

import dataclasses
import functools
import random

from anabranch.clock import Clock
from anabranch.log.checksum import write_checksum
from anabranch.log.cleanup import clean_up_log
from anabranch.protocol.iceberg_compat import writes_iceberg
from anabranch.snapshot.checkpointing import is_due, write_checkpoint
from anabranch.snapshot.checksums import checksum_of
from anabranch.storage.log_store import LogStore
from anabranch.transaction.after_commit import AfterCommit
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.random_uuid import random_uuid
from anabranch.transaction.symlink_manifests import WriteManifests
from anabranch.uniform.library import check_installed


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpLog:
    """See "Metadata Cleanup", `delta.enableExpiredLogCleanup` and `delta.logRetentionDuration`."""

    store: LogStore
    clock: Clock
    name: str = "log clean-up"

    def run(self, landed: CommittedVersion) -> None:
        snapshot = landed.snapshot
        if not is_due(snapshot) or not snapshot.properties.expired_log_cleanup_enabled:
            return
        # A clock that is ahead must not make history old: what storage says of our own commit counts as well.
        now_ms = min(self.clock.now_ms(), snapshot.segment.modified_ms)
        clean_up_log(self.store, upto=snapshot.version, now_ms=now_ms, properties=snapshot.properties)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteIcebergMetadata:
    """See `delta.universalFormat.enabledFormats`. A version that was left out is made up for by the next one."""

    store: LogStore
    random: random.Random
    name: str = "Iceberg metadata"

    def run(self, landed: CommittedVersion) -> None:
        if not writes_iceberg(landed.snapshot.properties):
            return
        check_installed(landed.snapshot.properties, table=landed.snapshot.table_root)
        # Only who writes such a table needs the library.
        from anabranch.uniform.conversion import convert  # noqa: PLC0415

        convert(self.store, landed.snapshot, random=self.random)


def standard_upkeep(store: LogStore, clock: Clock, random: random.Random) -> AfterCommit:
    """What every writer does for its readers."""
    return AfterCommit(
        steps=(
            WriteChecksum(store=store),
            WriteCheckpoint(store=store, clock=clock, random=random),
            WriteManifests(store=store),
            WriteIcebergMetadata(store=store, random=random),
            CleanUpLog(store=store, clock=clock),
        )
    )
