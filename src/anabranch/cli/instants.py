"""`--version` and `--timestamp`: which version a user means."""

from __future__ import annotations

import datetime

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshots import Snapshots


def snapshot_meant(snapshots: Snapshots, *, version: int | None, timestamp: str | None) -> Snapshot:
    """That version, the one of that time, or the newest.

    Raises `InvalidArgumentError`, `VersionNotFoundError`, `TimestampEarlierThanFirstCommitError`,
    `TimestampAfterLatestCommitError`.
    """
    if version is not None and timestamp is not None:
        problem = "give either --version or --timestamp"
        raise InvalidArgumentError(argument="--timestamp", value=timestamp, problem=problem)
    if timestamp is not None:
        return snapshots.at_timestamp(milliseconds(timestamp))
    return snapshots.latest() if version is None else snapshots.at_version(version)


def milliseconds(text: str) -> int:
    """Since the epoch, of a time in ISO 8601; without a zone it is that of this machine.

    Raises `InvalidArgumentError`.
    """
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        problem = "write it as 2026-03-01, '2026-03-01 10:30:00' or 2026-03-01T10:30:00Z"
        raise InvalidArgumentError(argument="--timestamp", value=text, problem=problem) from None
