"""The time of a commit. See "In-Commit Timestamps"."""

from __future__ import annotations

import msgspec

from anabranch.errors.commits import NumbersExhaustedError
from anabranch.protocol.actions import Metadata, Protocol
from anabranch.protocol.date_times import LONG_MAX
from anabranch.protocol.features import active
from anabranch.protocol.properties import TableProperties
from anabranch.transaction.head import Head

FEATURE = "inCommitTimestamp"
ENABLED = "delta.enableInCommitTimestamps"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def in_commit_timestamp(head: Head, *, protocol: Protocol, metadata: Metadata, now_ms: int) -> int | None:
    """The time that the commit after `head` must carry; None where the table has no in-commit timestamps.

    Above that of the commit before, also when our clock is behind; where this commit turns them on,
    above the time of the file before. Raises `NumbersExhaustedError`.
    """
    if not _is_active(protocol, metadata):
        return None
    if head.version < 0:
        return now_ms
    previous_ms = head.timestamp_ms if _was_active(head) else max(head.timestamp_ms, head.modified_ms)
    if previous_ms >= LONG_MAX:
        way_out = f"ALTER TABLE … SET TBLPROPERTIES ('{ENABLED}' = 'false'), and 'true' again if you need them"
        raise NumbersExhaustedError(
            table=head.table,
            version=head.version + 1,
            numbers="in-commit timestamps",
            last=previous_ms,
            way_out=way_out,
        )
    return max(now_ms, previous_ms + 1)


def with_enablement(metadata: Metadata, head: Head, *, protocol: Protocol, timestamp_ms: int | None) -> Metadata:
    """`metadata`, with the version and time of the change where it turns in-commit timestamps on.

    A table that had them from version 0 needs no such note.
    """
    if timestamp_ms is None or head.version < 0 or _was_active(head) or not _is_active(protocol, metadata):
        return metadata
    noted = {ENABLEMENT_VERSION: str(head.version + 1), ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **noted})


def _was_active(head: Head) -> bool:
    return head.protocol is not None and head.metadata is not None and _is_active(head.protocol, head.metadata)


def _is_active(protocol: Protocol, metadata: Metadata) -> bool:
    return active(protocol, FEATURE, properties=TableProperties(metadata.configuration))
