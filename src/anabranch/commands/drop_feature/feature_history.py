"""The history of a table whose feature is dropped: hidden behind checkpoints that stay, or removed.

Old versions may hold what an engine that does not know the feature would misread. Either it never gets to see them,
since checkpoints without a trace stand before them, which nobody may remove alone (see "Checkpoint Protection", an RFC
of Delta's); or they go, once they are old enough that nobody can be reading them.
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
from anabranch.log.listing import LogListing, list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.actions import Action
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.features")
CHECKPOINTS = 3
"""So many in a row: a reader that fails with one tries an older one, and must give up before it gets past all."""


def raise_barrier(table: TableRef) -> Snapshot:
    """Checkpoints right behind each other, each of a commit of its own and read back. The version of the first.

    Raises `StorageError`, and `CorruptCheckpointError` where a checkpoint cannot be read back.
    """
    versions = [checkpoint_of_its_own(table) for _ in range(CHECKPOINTS)]
    return versions[0]


def checkpoint_of_its_own(table: TableRef) -> Snapshot:
    """A commit that changes nothing, and its checkpoint. Raises as `raise_barrier`."""
    committed = table.begin_at(Operation(name="Empty Commit"), snapshot=table.latest()).commit([])
    snapshot = committed.snapshot
    checkpoint(table, snapshot)
    for found in list_log(table.delta_log.store, first=snapshot.version, upto=snapshot.version).checkpoints:
        read_checkpoint(table.delta_log.store, found)
    return snapshot


def checkpoint(table: TableRef, snapshot: Snapshot) -> None:
    """Write the checkpoint of a version."""
    session = table.session
    new_uuid = functools.partial(random_uuid, session.random)
    write_checkpoint(table.delta_log.store, snapshot, clock=session.clock, new_uuid=new_uuid)


def checkpoint_if_possible(table: TableRef, snapshot: Snapshot) -> None:
    """As `checkpoint`, for a commit that has landed: whatever becomes of this, nothing is to be done again."""
    try:
        checkpoint(table, snapshot)
    except DeltaError:
        LOGGER.warning("version %d landed, but its checkpoint failed", snapshot.version, exc_info=True)


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
    """The newest version of the log that shows it, in its commit or in the oldest version that can be rebuilt.

    Tombstones of that oldest version are passed over: nobody reads what they name.
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
    """Whether what follows `version` can be rebuilt without it."""
    return any(one.version > version for one in listing.checkpoints)


def removable_from(listing: LogListing, version: int, *, protected_before: int, retention_ms: int) -> str:
    """When `truncate_history` will remove `version`, once there is a checkpoint after it: in UTC, to the minute."""
    least = max(version + 1, protected_before)
    kept = min(one.version for one in listing.checkpoints if one.version >= least)
    time_ms = next(time.timestamp_ms for time in monotonic_times(listing.commits) if time.version == kept)
    whole_minute_ms = -(-time_ms // MINUTE_MS) * MINUTE_MS
    return datetime.fromtimestamp((whole_minute_ms + retention_ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
