"""Which files rebuild a version, and what is said where they cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from anabranch.errors.log import (
    CorruptCommitError,
    LogGapError,
    TableNotFoundError,
    TruncatedLogError,
    VersionNotFoundError,
)
from anabranch.log import commit_files
from anabranch.log.commit_files import read_commit, read_commits
from anabranch.log.log_segment import find_segment
from anabranch.protocol.log_paths import (
    LAST_CHECKPOINT_PATH,
    checkpoint_path,
    commit_path,
    compacted_path,
    multi_part_checkpoint_path,
)
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore
from log.log_in_memory import CountedUuids, LogInMemory, add, write_compaction


@pytest.fixture
def log() -> LogInMemory:
    """Versions 0 to 12, checkpoints of 5 and 10."""
    log = LogInMemory.created()
    for version in range(1, 13):
        log.commit(add(f"file-{version}"))
        if version % 5 == 0:
            write_checkpoint(log.store, log.snapshots().latest(), clock=log.clock, new_uuid=CountedUuids())
    return log


def test_the_hint_spares_listing_what_is_older(log: LogInMemory) -> None:
    segment = find_segment(log.store)
    assert segment.version == 12
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 10
    assert [commit.version for commit in segment.commits] == [11, 12]


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version":"ten","size":1}',
        b'{"version":-5,"size":1}',
        b'{"version":11,"size":1}',
        b'{"version":5000,"size":1}',
        b'{"version":9223372036854775807,"size":1}',
        b'{"version":99999999999999999999999999,"size":1}',
        b'{"version":10.5,"size":1}',
        b'{"version":10,"version":11,"size":1}',
        b'{"version":10,"size":1,"checksum":"00000000000000000000000000000000"}',
        b'{"version":5,"size":1}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_hint_that_is_wrong_costs_only_time(log: LogInMemory, hint: bytes) -> None:
    """Covers fault F38."""
    log.store.put(LAST_CHECKPOINT_PATH, hint)
    segment = find_segment(log.store)
    assert (segment.version, segment.checkpoint and segment.checkpoint.version) == (12, 10)


def test_without_a_hint_the_newest_checkpoint_is_used(log: LogInMemory) -> None:
    log.delete(LAST_CHECKPOINT_PATH)
    segment = find_segment(log.store)
    assert (segment.version, segment.checkpoint and segment.checkpoint.version) == (12, 10)


def test_a_hint_to_a_checkpoint_that_is_gone_leads_to_an_older_one(log: LogInMemory) -> None:
    """Covers fault F38: some compaction services leave a hint to a checkpoint that is not there."""
    log.delete(checkpoint_path(10))
    segment = find_segment(log.store)
    assert (segment.version, segment.checkpoint and segment.checkpoint.version) == (12, 5)


def test_time_travel_uses_no_newer_checkpoint(log: LogInMemory) -> None:
    segment = find_segment(log.store, upto=9)
    assert (segment.version, segment.checkpoint and segment.checkpoint.version) == (9, 5)


def test_a_multi_part_checkpoint_with_a_missing_part_is_ignored(log: LogInMemory) -> None:
    """Covers fault F40."""
    data = log.store.read(checkpoint_path(10))
    log.store.put(multi_part_checkpoint_path(11, 1, 2), data)
    segment = find_segment(log.store)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 10


def test_a_checkpoint_of_a_billion_parts_is_ignored(log: LogInMemory) -> None:
    log.store.put(multi_part_checkpoint_path(11, 1, 999_999_999), b"PAR1")
    segment = find_segment(log.store)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 10


def test_a_checkpoint_of_no_bytes_is_ignored(log: LogInMemory) -> None:
    """Covers fault F37."""
    log.store.put(checkpoint_path(11), b"")
    segment = find_segment(log.store)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 10


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000013.json.tmp",
        ".00000000000000000013.json.crc",
        "13.json",
        "000000000000000000013.json",
        "00000000000000000013%2ejson",
        "00000000000000000013.JSON",
        "+0000000000000000013.json",
        "99999999999999999999.json",
        "_commits",
        "00000000000000000013.00000000000000000013.compacted.json",
    ],
)
def test_other_names_are_no_commits(log: LogInMemory, name: str) -> None:
    """Covers faults F22 and F26."""
    log.store.put(f"_delta_log/{name}", b"{}")
    assert find_segment(log.store).version == 12


def test_a_gap_is_named(log: LogInMemory) -> None:
    """Covers fault F25."""
    log.delete(commit_path(11))
    with pytest.raises(LogGapError, match="version 11 is missing") as caught:
        find_segment(log.store)
    assert (caught.value.missing_from, caught.value.missing_to, caught.value.version) == (11, 11, 12)


def test_a_gap_below_a_checkpoint_does_no_harm_above_it(log: LogInMemory) -> None:
    log.delete(commit_path(7))
    assert find_segment(log.store).version == 12
    assert find_segment(log.store, upto=6).version == 6
    with pytest.raises(LogGapError, match="version 7 is missing"):
        find_segment(log.store, upto=8)


def test_a_gap_at_the_requested_version(log: LogInMemory) -> None:
    log.delete(commit_path(11))
    with pytest.raises(LogGapError, match="11"):
        find_segment(log.store, upto=11)


class ListingThatMissesOne(MemoryStore):
    """A listing that began before a commit and ended after the next one."""

    missed: str = ""
    listings = 0

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        self.listings += 1
        files = super().list_from(directory, start_after)
        return (file for file in files if self.listings > 1 or not file.path.endswith(self.missed))


def test_a_gap_of_a_slow_listing_is_looked_at_again(log: LogInMemory) -> None:
    """Covers fault F49."""
    store = ListingThatMissesOne()
    for file in log.store.list_tree():
        store.put(file.path, log.store.read(file.path))
    store.missed = "11.json"
    assert find_segment(store).version == 12


def test_a_log_cut_off_at_its_start_says_so(log: LogInMemory) -> None:
    log.delete(*(commit_path(version) for version in range(3)), checkpoint_path(5), checkpoint_path(10))
    with pytest.raises(TruncatedLogError, match="starts at version 3"):
        find_segment(log.store)


@pytest.mark.parametrize("version", [13, 2**62, -1])
def test_a_version_that_was_never_committed(log: LogInMemory, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="Versions 0 to 12 are available") as caught:
        find_segment(log.store, upto=version)
    assert (caught.value.earliest, caught.value.latest) == (0, 12)


@pytest.mark.parametrize("version", [0, 2, 4])
def test_a_version_whose_log_was_cleaned_up(log: LogInMemory, version: int) -> None:
    log.delete(*(commit_path(version) for version in range(4)))
    with pytest.raises(VersionNotFoundError, match=r"cleaned up.*Versions 5 to 12"):
        find_segment(log.store, upto=version)
    assert find_segment(log.store, upto=5).version == 5


def test_a_directory_without_a_log() -> None:
    store = MemoryStore("memory:/not/a/table")
    store.put("data.parquet", b"PAR1")
    for upto in (None, 0, 7):
        with pytest.raises(TableNotFoundError, match="memory:/not/a/table` is not a Delta table"):
            find_segment(store, upto=upto)
    store.put(LAST_CHECKPOINT_PATH, b'{"version":3,"size":1}')
    with pytest.raises(TableNotFoundError):
        find_segment(store)


def test_compactions_replace_the_commits_that_they_cover() -> None:
    """Covers fault F46: of overlapping ones the widest of each start is used, and none beyond the version."""
    log = LogInMemory.created()
    for version in range(1, 10):
        log.commit(add(f"file-{version}"))
    for first, last in [(1, 3), (1, 5), (4, 8), (6, 7), (6, 9), (8, 9)]:
        write_compaction(log.store, first=first, last=last)

    def steps(upto: int) -> list[str]:
        return [step.file.path for step in find_segment(log.store, upto=upto).steps()]

    assert steps(9) == [commit_path(0), compacted_path(1, 5), compacted_path(6, 9)]
    assert steps(8) == [commit_path(0), compacted_path(1, 5), compacted_path(6, 7), commit_path(8)]
    assert steps(4) == [commit_path(0), compacted_path(1, 3), commit_path(4)]


def test_a_compaction_whose_last_commit_is_not_listed_is_not_used() -> None:
    """A listing of a disk may have a new file and lack one that was written before it."""
    log = LogInMemory.created()
    for version in range(1, 4):
        log.commit(add(f"file-{version}"))
    write_compaction(log.store, first=2, last=3)
    log.store.delete(commit_path(3))

    segment = find_segment(log.store)
    assert [step.file.path for step in segment.steps()] == [commit_path(version) for version in range(3)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\n\n",
        lambda data: data[:-10],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"path":', b'"path":17,"x":'),
        lambda data: b"\x00" * len(data),
        lambda data: data + b"garbage\n",
    ],
)
def test_a_torn_commit_is_loud(log: LogInMemory, damage: Callable[[bytes], bytes]) -> None:
    """Covers fault F24: it is never skipped, and the file is named."""
    log.store.put(commit_path(11), damage(log.store.read(commit_path(11))))
    for read in (
        lambda: log.snapshots().latest(),
        lambda: read_commit(log.store, 11),
        lambda: read_commits(log.store, after=9),
    ):
        with pytest.raises(CorruptCommitError, match=r"00000000000000000011\.json") as caught:
            read()
        assert caught.value.version == 11
    assert log.snapshots().at_version(10).files.count == 10


def test_commits_are_read_in_order_and_stop_at_a_gap(log: LogInMemory) -> None:
    assert [commit.version for commit in read_commits(log.store, after=3)] == list(range(4, 13))
    assert [commit.version for commit in read_commits(log.store, after=3, upto=5)] == [4, 5]
    assert read_commits(log.store, after=12) == []
    log.delete(commit_path(8))
    assert [commit.version for commit in read_commits(log.store, after=3)] == [4, 5, 6, 7]


def test_a_commit_has_its_provenance_and_time(log: LogInMemory) -> None:
    commit = read_commit(log.store, 3)
    assert commit.info is not None
    assert commit.info.txn_id == "3"
    file = log.store.head(commit_path(3))
    assert file is not None
    assert commit.timestamp_ms == commit.modified_ms == file.modified_ms


def test_a_commit_without_a_line_break_is_refused_once_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers fault F27: no more of it is read than a line may have, and nothing is copied twice."""
    monkeypatch.setattr(commit_files, "PIECE_BYTES", 1000)
    monkeypatch.setattr(commit_files, "LINE_BYTES_MAX", 50_000)

    class CountsBytes(MemoryStore):
        read_bytes = 0

        def read_range(self, path: str, offset: int, length: int) -> bytes:
            self.read_bytes += length
            return super().read_range(path, offset, length)

    store = CountsBytes()
    store.put(commit_path(0), b'{"commitInfo":{}}\n' + b"x" * 10_000_000)
    with pytest.raises(CorruptCommitError, match="more than 50000 bytes"):
        read_commit(store, 0)
    assert store.read_bytes <= 53_000


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 10_000])
def test_a_large_commit_is_read_by_pieces(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    """Covers fault F27: the actions do not depend on where pieces end, and a truncated end is noticed."""
    monkeypatch.setattr(commit_files, "PIECE_BYTES", piece_bytes)
    log = LogInMemory.created()
    log.commit(*[add(f"file-ä-{number}") for number in range(20)])
    assert log.snapshots().latest().files.count == 20
    log.store.put(commit_path(1), log.store.read(commit_path(1))[:-5])
    with pytest.raises(CorruptCommitError):
        log.snapshots().latest()
