"""The history of a table whose feature is dropped: protected by checkpoints, or removed.

An engine without the feature may misread old versions. Either it never reads them, since it finds newer checkpoints
without a use of the feature, and no writer may remove these alone (see "Checkpoint Protection", an RFC of Delta's).
Or old versions are removed, once they are so old that no reader needs them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from anabranch.clock import random_uuid
from anabranch.commands.table_access import TableRef
from anabranch.errors.base import DeltaError
from anabranch.log.checkpoint_reading import read_checkpoint
from anabranch.log.cleanup import MINUTE_MS, cutoff_ms, delete_expired, plan_cleanup
from anabranch.log.commit_files import read_actions
from anabranch.log.log_segment import LogListing, list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.actions import Action
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.features")
CHECKPOINTS = 3
"""How many consecutive checkpoints protect the history: a reader that fails with one tries the one before it."""


def protect_history(table: TableRef) -> Snapshot:
    """Write consecutive checkpoints, each of an empty commit, and read them back. Returns the version of the first.

    Raises `StorageError`, and `CorruptCheckpointError` where a checkpoint cannot be read back.
    """
    versions = [commit_with_checkpoint(table) for _ in range(CHECKPOINTS)]
    return versions[0]


def commit_with_checkpoint(table: TableRef) -> Snapshot:
    """Make an empty commit and its checkpoint. Raises as `protect_history`."""
    committed = table.begin_at(Operation(name="Empty Commit"), snapshot=table.latest()).commit([])
    snapshot = committed.snapshot
    checkpoint(table, snapshot)
    for file in list_log(table.delta_log.store, first=snapshot.version, upto=snapshot.version).checkpoints:
        read_checkpoint(table.delta_log.store, file)
    return snapshot


def checkpoint(table: TableRef, snapshot: Snapshot) -> None:
    """Write the checkpoint of a version."""
    session = table.session
    new_uuid = functools.partial(random_uuid, session.random)
    write_checkpoint(table.delta_log.store, snapshot, clock=session.clock, new_uuid=new_uuid)


def checkpoint_if_possible(table: TableRef, snapshot: Snapshot) -> None:
    """Write the checkpoint of a committed version. A failure is logged: the statement has succeeded."""
    try:
        checkpoint(table, snapshot)
    except DeltaError:
        LOGGER.warning("version %d is committed, but its checkpoint failed", snapshot.version, exc_info=True)


def truncate_history(table: TableRef, snapshot: Snapshot) -> None:
    """Remove what is older than `delta.dropFeatureTruncateHistory.retentionDuration`, to the minute.

    Raises `CorruptCheckpointError`, before anything is removed, where the checkpoint that would stay cannot be read.
    """
    store = table.delta_log.store
    plan = plan_cleanup(
        store,
        upto=snapshot.version,
        cutoff_ms=cutoff_ms(
            now_ms=table.session.clock.now_ms(),
            retention_ms=snapshot.properties.drop_feature_retention_ms,
            granularity_ms=MINUTE_MS,
        ),
        protected_before=snapshot.properties.checkpoint_protection_version,
    )
    if plan is None:
        return
    LOGGER.info("%s: removing %d log files before version %d", table.label, len(plan.paths), plan.kept_checkpoint)
    delete_expired(store, plan)


def last_version_with(
    table: TableRef,
    listing: LogListing,
    *,
    in_version: Callable[[Snapshot], str | None],
    in_action: Callable[[Action], str | None],
) -> int | None:
    """The newest version that uses the feature, in its commit or as the oldest version that can be rebuilt.

    Tombstones of that oldest version are ignored: no version that needs their files can be read.
    """
    newest = None
    for commit, actions in read_actions(table.delta_log.store, listing.commits):
        if any(in_action(action) is not None for action in actions):
            newest = commit.version
    earliest = listing.earliest_recreatable_version()
    if newest is None and earliest > 0 and in_version(table.delta_log.snapshots.at_version(earliest)) is not None:
        newest = earliest
    return newest


def has_checkpoint_after(listing: LogListing, version: int) -> bool:
    """Whether later versions can be rebuilt without the commit of `version`."""
    return any(one.version > version for one in listing.checkpoints)


def removable_from(listing: LogListing, version: int, *, protected_before: int, retention_ms: int) -> str:
    """The time, in UTC to the minute, from which `truncate_history` removes `version`. A checkpoint follows it."""
    least = max(version + 1, protected_before)
    kept = min(one.version for one in listing.checkpoints if one.version >= least)
    time_ms = next(time.timestamp_ms for time in monotonic_times(listing.commits) if time.version == kept)
    whole_minute_ms = -(-time_ms // MINUTE_MS) * MINUTE_MS
    return datetime.fromtimestamp((whole_minute_ms + retention_ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
