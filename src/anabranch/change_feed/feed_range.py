"""The range of versions that a change data feed covers."""

from __future__ import annotations

import dataclasses
import math

from anabranch.errors.dml import ChangesRangeError, ChangesStartAfterLatestError
from anabranch.errors.log import TimestampAfterLatestCommitError
from anabranch.log.time_travel import TimestampSearch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedBound:
    """One end of a range: a version, or a time."""

    version: int | None = None
    timestamp_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedRange:
    """Versions from `start` to `end`, both included."""

    start: int
    end: int


def resolve_range(
    start: FeedBound, end: FeedBound | None, search: TimestampSearch, *, allows_out_of_range: bool
) -> FeedRange | None:
    """The versions of a range; None for an empty range that is no mistake.

    A range that starts at a time starts with the first version of that time or later, one that ends at a time ends
    with the last version of that time or earlier. An end behind the newest version means the newest.

    Raises `ChangesRangeError`, `ChangesStartAfterLatestError`, `TimestampAfterLatestCommitError` and
    `TimestampEarlierThanFirstCommitError`.
    """
    latest, table = search.latest.version, search.store.root
    first = _first_version(start, search, allows_out_of_range=allows_out_of_range)
    last = math.inf if end is None else _last_version(end, search, allows_out_of_range=allows_out_of_range)
    if first > latest:
        if allows_out_of_range:
            return None
        raise ChangesStartAfterLatestError(table=table, start=first, latest=latest)
    if last < first:
        # Two times between two neighbouring versions make an empty range, not a wrong one.
        ascending = _is_ascending(start, end)
        if ascending and last == first - 1:
            return None
        raise ChangesRangeError(table=table, start=first, end=int(last))
    return FeedRange(start=first, end=int(min(last, latest)))


def _is_ascending(start: FeedBound, end: FeedBound | None) -> bool:
    if end is None or start.timestamp_ms is None or end.timestamp_ms is None:
        return False
    return start.timestamp_ms <= end.timestamp_ms


def _first_version(bound: FeedBound, search: TimestampSearch, *, allows_out_of_range: bool) -> int:
    if bound.timestamp_ms is None:
        assert bound.version is not None
        return bound.version
    commit = search.version_at(bound.timestamp_ms, can_return_last=True, can_return_earliest=True)
    if commit.timestamp_ms >= bound.timestamp_ms:
        return commit.version
    if commit.version == search.latest.version and not allows_out_of_range:
        raise TimestampAfterLatestCommitError(
            table=search.store.root,
            timestamp_ms=bound.timestamp_ms,
            latest_version=commit.version,
            latest_timestamp_ms=commit.timestamp_ms,
        )
    return commit.version + 1


def _last_version(bound: FeedBound, search: TimestampSearch, *, allows_out_of_range: bool) -> int:
    if bound.timestamp_ms is None:
        assert bound.version is not None
        return bound.version
    return search.version_at(bound.timestamp_ms, can_return_last=allows_out_of_range).version
