"""Versions by time, and history."""

from __future__ import annotations

import pytest

from anabranch.errors.log import (
    MissingInCommitTimestampError,
    TimestampAfterLatestCommitError,
    TimestampEarlierThanFirstCommitError,
)
from anabranch.log.commit_history import read_history
from anabranch.protocol.actions import CommitInfo
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.memory_store import MemoryStore
from log.log_in_memory import PROTOCOL, START_MS, LogInMemory, StillClock, add, metadata


def log_with_file_times(*offsets_ms: int) -> LogInMemory:
    """Commit n was written `offsets_ms[n]` after the start."""
    log = LogInMemory.empty()
    for number, offset_ms in enumerate(offsets_ms):
        log.clock.time_ms = START_MS + offset_ms - 1000
        log.commit(*([PROTOCOL, metadata()] if number == 0 else [add(f"file-{number}")]))
    return log


def log_with_own_times(*offsets_ms: int) -> LogInMemory:
    """A log with in-commit timestamps from the first commit on; the files' own times say nothing."""
    log = LogInMemory.empty()
    for number, offset_ms in enumerate(offsets_ms):
        info = CommitInfo(operation="WRITE", in_commit_timestamp=START_MS + offset_ms)
        first = [PROTOCOL, metadata(delta__enableInCommitTimestamps="true")]
        log.commit(*(first if number == 0 else [add(f"file-{number}")]), info=info)
    return log


@pytest.mark.parametrize(("offset_ms", "version"), [(0, 0), (999, 0), (1000, 1), (1500, 1), (5000, 2)])
def test_the_newest_commit_at_or_before(offset_ms: int, version: int) -> None:
    assert log_with_file_times(0, 1000, 5000).snapshots().version_at_timestamp(START_MS + offset_ms) == version


def test_a_clock_that_ran_backwards_is_made_to_ascend() -> None:
    """Covers fault F28: times 0, 5000, 1000, 6000 count as 0, 5000, 5001, 6000."""
    snapshots = log_with_file_times(0, 5000, 1000, 6000).snapshots()
    assert [snapshots.version_at_timestamp(START_MS + at) for at in (1000, 4999, 5000, 5001, 5999)] == [0, 0, 1, 2, 2]


def test_too_early_and_too_late_are_errors_that_say_the_limits() -> None:
    snapshots = log_with_file_times(0, 1000).snapshots()
    with pytest.raises(TimestampEarlierThanFirstCommitError, match=r"version 0 of 2023-11-14 22:13:20\.000"):
        snapshots.version_at_timestamp(START_MS - 1)
    with pytest.raises(TimestampAfterLatestCommitError, match=r"version 1 of 2023-11-14 22:13:21\.000"):
        snapshots.version_at_timestamp(START_MS + 1001)


def test_after_a_clean_up_the_earliest_is_that_of_the_checkpoint() -> None:
    log = log_with_file_times(0, 1000, 2000, 3000)
    write_checkpoint(log.store, log.snapshots().at_version(2), clock=log.clock, new_uuid=lambda: "")
    log.delete(commit_path(0), commit_path(1))
    snapshots = log.snapshots()
    assert snapshots.version_at_timestamp(START_MS + 2999) == 2
    with pytest.raises(TimestampEarlierThanFirstCommitError) as caught:
        snapshots.version_at_timestamp(START_MS + 1500)
    assert caught.value.earliest_version == 2


def test_in_commit_timestamps_go_before_those_of_files() -> None:
    snapshots = log_with_own_times(0, 100, 101, 90_000_000).snapshots()
    assert snapshots.latest().timestamp_ms == START_MS + 90_000_000
    assert [snapshots.version_at_timestamp(START_MS + at) for at in (0, 99, 100, 101, 5000)] == [0, 0, 1, 2, 2]
    with pytest.raises(TimestampEarlierThanFirstCommitError):
        snapshots.version_at_timestamp(START_MS - 1)
    with pytest.raises(TimestampAfterLatestCommitError):
        snapshots.version_at_timestamp(START_MS + 90_000_001)


def test_in_commit_timestamps_since_a_version() -> None:
    """See "Recommendations for Readers of Tables with In-Commit Timestamps"."""
    log = log_with_file_times(0, 1000, 2000)
    enabled = metadata(
        delta__enableInCommitTimestamps="true",
        delta__inCommitTimestampEnablementVersion="3",
        delta__inCommitTimestampEnablementTimestamp=str(START_MS + 3000),
    )
    log.clock.time_ms = START_MS + 50_000_000
    log.commit(enabled, info=CommitInfo(in_commit_timestamp=START_MS + 3000))
    log.commit(add("x"), info=CommitInfo(in_commit_timestamp=START_MS + 4000))
    snapshots = log.snapshots()
    versions = [snapshots.version_at_timestamp(START_MS + at) for at in (0, 1000, 2000, 2999, 3000, 3999, 4000)]
    assert versions == [0, 1, 2, 2, 3, 3, 4]
    assert [entry.timestamp_ms - START_MS for entry in snapshots.history()] == [4000, 3000, 2000, 1000, 0]


def test_a_commit_without_the_timestamp_it_must_have() -> None:
    log = log_with_own_times(0, 100)
    log.commit(add("x"), info=CommitInfo(operation="WRITE"))
    with pytest.raises(MissingInCommitTimestampError, match="Commit 2"):
        log.snapshots().latest()


class WatchedStore(MemoryStore):
    """Remembers what was read whole."""

    def __init__(self, copied: MemoryStore, clock: StillClock) -> None:
        super().__init__(clock=clock)
        self.reads: list[str] = []
        for file in copied.list_tree():
            self.put(file.path, copied.read(file.path))

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, size_max=size_max)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return super().read(path)[offset : offset + length]


def test_few_commits_are_read_to_find_a_time() -> None:
    log = log_with_own_times(*range(0, 200_000, 1000))
    store = WatchedStore(log.store, log.clock)
    snapshots = SnapshotCache(store, log.clock)
    snapshots.latest()
    store.reads.clear()
    assert snapshots.version_at_timestamp(START_MS + 77_500) == 77
    assert len(store.reads) < 15


def test_history_is_newest_first_and_tolerates_silence() -> None:
    log = LogInMemory.created()
    log.commit(add("a"), info=CommitInfo(operation="MERGE", user_metadata="why"))
    log.store.put(commit_path(2), encode_actions([add("b")]))
    entries = log.snapshots().history()
    assert [(entry.version, entry.info and entry.info.operation) for entry in entries] == [
        (2, None),
        (1, "MERGE"),
        (0, "WRITE"),
    ]
    assert [entry.version for entry in log.snapshots().history(limit=2)] == [2, 1]
    assert log.snapshots().history(limit=0) == []


def test_history_is_of_what_is_left() -> None:
    log = log_with_file_times(0, 1000, 2000, 3000)
    write_checkpoint(log.store, log.snapshots().at_version(2), clock=log.clock, new_uuid=lambda: "")
    log.delete(commit_path(0), commit_path(1))
    assert [entry.version for entry in log.snapshots().history()] == [3, 2]


def test_provenance_of_a_long_commit_is_read_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogInMemory.created()
    log.commit(*[add(f"file-{number}") for number in range(5000)], info=CommitInfo(operation="BIG"))
    store = WatchedStore(log.store, log.clock)
    entries = read_history(store, upto=1, properties=TableProperties({}), limit=1)
    assert entries[0].info is not None
    assert entries[0].info.operation == "BIG"
    assert store.reads == []
