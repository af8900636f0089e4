"""A checkpoint of a snapshot. See "Checkpoints"."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.clock import Clock
from anabranch.log.checkpoint_writing import CheckpointContent, write_classic_checkpoint, write_v2_checkpoint
from anabranch.log.last_checkpoint import LastCheckpoint
from anabranch.protocol.features import supported
from anabranch.snapshot.checkpoint_structs import CheckpointStructs
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore


def write_checkpoint(
    store: LogStore, snapshot: Snapshot, *, clock: Clock, new_uuid: Callable[[], str]
) -> LastCheckpoint:
    """Write the checkpoint of a version, of the kind its table wants, and the hint to it.

    `new_uuid` gives another UUID at each call, for names that no other writer chooses.

    Raises `StorageError`, and `CorruptCheckpointError` where the tombstones or statistics of the checkpoint
    that the snapshot was read from turn out damaged.
    """
    now_ms = clock.now_ms()
    content = checkpoint_content(snapshot, now_ms=now_ms)
    if snapshot.properties.checkpoint_policy == "v2" and supported(snapshot.protocol, "v2Checkpoint"):
        return write_v2_checkpoint(store, content, new_uuid=new_uuid, now_ms=now_ms)
    return write_classic_checkpoint(store, content)


def is_due(snapshot: Snapshot) -> bool:
    """Whether a checkpoint is to be written after this version. See `delta.checkpointInterval`."""
    return snapshot.version > 0 and snapshot.version % snapshot.properties.checkpoint_interval == 0


def checkpoint_content(snapshot: Snapshot, *, now_ms: int) -> CheckpointContent:
    """What a checkpoint of `snapshot` written now has to hold."""
    structs = CheckpointStructs.of(snapshot) if wants_structs(snapshot) else None
    as_json = snapshot.properties.checkpoint_stats_as_json or structs is None or not structs.holds_all_bounds
    expired_ms = snapshot.tombstone_retention_start_ms(now_ms=now_ms)
    return CheckpointContent(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        set_transactions=tuple(snapshot.set_transactions.values()),
        domain_metadata=tuple(snapshot.domain_metadata.values()),
        adds=snapshot.files.table,
        tombstones=snapshot.tombstones(after_ms=expired_ms),
        with_stats_json=as_json,
        parsed_fields=() if structs is None else structs.fields,
        parse=None if structs is None else structs.parse,
    )


def wants_structs(snapshot: Snapshot) -> bool:
    """Whether statistics are to be columns too. See `delta.checkpoint.writeStatsAsStruct` under "Checkpoints".

    By the protocol the default is false, by Delta's own configuration true. For a large table they double the work
    of a checkpoint, so they are written where the table asks for them.
    """
    return snapshot.properties.checkpoint_stats_as_struct
