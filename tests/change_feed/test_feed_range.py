"""The range of versions of a feed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.change_feed.feed_range import FeedBound, FeedRange, resolve_range
from anabranch.errors.dml import ChangesRangeError, ChangesStartAfterLatestError
from anabranch.errors.log import TimestampAfterLatestCommitError, TimestampEarlierThanFirstCommitError
from anabranch.log.log_segment import CommitFile
from anabranch.log.time_travel import CommitTime, TimestampSearch
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore

STEP_MS = 10
LATEST = 5
"""Version n was written at n * STEP_MS + 100."""


def time_of(version: int) -> int:
    return 100 + version * STEP_MS


def search() -> TimestampSearch:
    commits = tuple(
        CommitFile(version=version, file=StoredFile(path=f"{version}", size_bytes=1, modified_ms=time_of(version)))
        for version in range(LATEST + 1)
    )
    return TimestampSearch(
        store=MemoryStore("memory:/table"),
        commits=commits,
        latest=CommitTime(version=LATEST, timestamp_ms=time_of(LATEST)),
        in_commit_from=LATEST + 1,
        in_commit_from_ms=None,
    )


def resolved(start: FeedBound, end: FeedBound | None, *, lenient: bool = False) -> FeedRange | None:
    return resolve_range(start, end, search(), allows_out_of_range=lenient)


def version(number: int) -> FeedBound:
    return FeedBound(version=number)


def at(time_ms: int) -> FeedBound:
    return FeedBound(timestamp_ms=time_ms)


def test_both_ends_are_included() -> None:
    assert resolved(version(2), version(2)) == FeedRange(start=2, end=2)
    assert resolved(at(time_of(2)), at(time_of(4))) == FeedRange(start=2, end=4)
    assert resolved(at(time_of(2) + 1), at(time_of(4) - 1)) == FeedRange(start=3, end=3)


def test_an_open_end_is_the_newest_version() -> None:
    assert resolved(version(3), None) == FeedRange(start=3, end=LATEST)
    assert resolved(version(3), version(99)) == FeedRange(start=3, end=LATEST)
    assert resolved(at(0), None) == FeedRange(start=0, end=LATEST)


def test_two_times_between_two_versions_have_nothing_between_them() -> None:
    assert resolved(at(time_of(2) + 1), at(time_of(2) + 2)) is None
    with pytest.raises(ChangesRangeError):
        resolved(at(time_of(2) + 2), at(time_of(2) + 1))


def test_an_end_before_the_start() -> None:
    with pytest.raises(ChangesRangeError) as raised:
        resolved(version(3), version(2))
    assert (raised.value.start, raised.value.end) == (3, 2)
    with pytest.raises(ChangesRangeError):
        resolved(version(4), at(time_of(3)))


def test_out_of_range() -> None:
    """An error, unless the session allows for it; then nothing, or the newest version."""
    with pytest.raises(ChangesStartAfterLatestError):
        resolved(version(LATEST + 1), None)
    assert resolved(version(LATEST + 1), None, lenient=True) is None
    late = at(time_of(LATEST) + 1)
    with pytest.raises(TimestampAfterLatestCommitError):
        resolved(late, None)
    assert resolved(late, None, lenient=True) is None
    with pytest.raises(TimestampAfterLatestCommitError):
        resolved(version(1), late)
    assert resolved(version(1), late, lenient=True) == FeedRange(start=1, end=LATEST)
    with pytest.raises(TimestampEarlierThanFirstCommitError):
        resolved(version(0), at(time_of(0) - 1), lenient=True)


@given(st.integers(100, time_of(LATEST)), st.integers(100, time_of(LATEST)))
def test_times_choose_the_versions_between_them(first_ms: int, last_ms: int) -> None:
    wanted = [number for number in range(LATEST + 1) if first_ms <= time_of(number) <= last_ms]
    try:
        versions = resolved(at(first_ms), at(last_ms))
    except ChangesRangeError:
        assert not wanted
        assert last_ms < first_ms
        return
    assert wanted == ([] if versions is None else list(range(versions.start, versions.end + 1)))
