"""A proposal at the one version it is tried for: everything that depends on the version is filled in."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeGuard

from anabranch.errors.commits import NumbersExhaustedError
from anabranch.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol, RemoveFile
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import VERSION_MAX
from anabranch.protocol.properties import TableProperties
from anabranch.transaction.checkpoint_protection import with_protection
from anabranch.transaction.commit_timestamps import in_commit_timestamp, with_enablement
from anabranch.transaction.head import Head
from anabranch.transaction.invariants import check_invariants
from anabranch.transaction.isolation import written_level
from anabranch.transaction.operation import encoded_metrics
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.reconciliation import LANDED_AFTER_TAG, stretches
from anabranch.transaction.row_ids import assigns_row_ids, with_ids, with_row_ids

ROWS_KEPT_TAG = "delta.rowTracking.preserved"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitDraft:
    """A commit, complete but for being in the log. Its invariants have been checked."""

    version: int
    txn_id: str
    actions: tuple[Action, ...]
    timestamp_ms: int
    """What the commit says of its time."""

    def encoded(self) -> bytes:
        return encode_actions(self.actions)


def draft_commit(ours: ProposedCommit, head: Head, *, now_ms: int, engine_info: str) -> CommitDraft:
    """`ours` as the commit right after `head`.

    Raises `InvalidCommitError`, `AppendOnlyTableError`, `UnsupportedFeatureError`, `RowIdsNeedStatisticsError`,
    `NumbersExhaustedError`.
    """
    version = head.version + 1
    if version > VERSION_MAX:
        way_out = "Make a new table of this one's rows: CREATE TABLE … AS SELECT"
        raise NumbersExhaustedError(
            table=head.table, version=version, numbers="version", last=head.version, way_out=way_out
        )
    protocol, metadata = check_invariants(ours, head)
    timestamp_ms = in_commit_timestamp(head, protocol=protocol, metadata=metadata, now_ms=now_ms)
    actions = tuple(
        with_protection(
            with_enablement(action, head, protocol=protocol, timestamp_ms=timestamp_ms), head, protocol=protocol
        )
        if isinstance(action, Metadata)
        else action
        for action in ours.actions
    )
    if tracks_rows(protocol, metadata):
        known = _with_known_ids(actions, head)
        actions = with_row_ids(known, after=head.row_id_high_water_mark, version=version, table=head.table)
    info = CommitInfo(
        in_commit_timestamp=timestamp_ms,
        timestamp=now_ms if timestamp_ms is None else timestamp_ms,
        operation=ours.operation.name,
        operation_parameters=dict(ours.operation.encoded_parameters()),
        read_version=ours.read_version if ours.read_version >= 0 else None,
        isolation_level=written_level(ours.isolation),
        is_blind_append=ours.is_blind_append,
        operation_metrics=dict(encoded_metrics(ours.metrics)),
        user_metadata=ours.operation.user_metadata,
        tags=_tags(ours, head, tracks_rows=tracks_rows(protocol, metadata)) or None,
        engine_info=engine_info,
        txn_id=ours.txn_id,
    )
    return CommitDraft(
        version=version,
        txn_id=ours.txn_id,
        actions=(info, *actions),
        timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms,
    )


def tracks_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every new file must have row ids."""
    suspended = TableProperties(metadata.configuration).row_tracking_suspended
    return assigns_row_ids(protocol, suspended=suspended)


def _with_known_ids(actions: Sequence[Action], head: Head) -> list[Action]:
    """Files that are in the table keep their ids, also those that a winner has given them meanwhile."""
    known = head.row_ids_by_path({action.path for action in actions if _lacks_row_ids(action)})
    return [
        with_ids(action, known[action.path]) if _lacks_row_ids(action) and action.path in known else action
        for action in actions
    ]


def _lacks_row_ids(action: Action) -> TypeGuard[AddFile | RemoveFile]:
    return isinstance(action, AddFile | RemoveFile) and action.base_row_id is None


def _tags(ours: ProposedCommit, head: Head, *, tracks_rows: bool) -> dict[str, str]:
    tags = dict(ours.tags)
    if head.winners:
        tags[LANDED_AFTER_TAG] = stretches(winner.version for winner in head.winners)
    if tracks_rows and (ROWS_KEPT_TAG not in tags or not _tracked_when_read(head)):
        tags[ROWS_KEPT_TAG] = "false" if _copies_rows(ours) else "true"
    return tags


def _tracked_when_read(head: Head) -> bool:
    """Whether our files were written by somebody who knew that rows have ids."""
    return head.base is None or tracks_rows(head.base.protocol, head.base.metadata)


def _copies_rows(ours: ProposedCommit) -> bool:
    """Whether rows of replaced files may stand in new ones."""
    added = {add.path for add in ours.adds}
    return any(remove.path not in added for remove in ours.removes) and bool(added)
