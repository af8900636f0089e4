"""Version checksums and histograms."""

from __future__ import annotations

import json

import numpy as np
import pytest

from anabranch.log.checksum import (
    FILE_SIZE_BOUNDARIES,
    decode_checksum,
    deleted_record_counts,
    encode_checksum,
    file_size_histogram,
    read_checksum,
    write_checksum,
)
from anabranch.protocol.actions import DomainMetadata, SetTransaction
from anabranch.protocol.log_paths import checksum_path
from anabranch.storage.log_store import PutOutcome
from log.log_in_memory import LogInMemory, add, remove, verify_checksum


@pytest.fixture
def log() -> LogInMemory:
    log = LogInMemory.created()
    log.commit(
        add("a", size=10_000),
        add("b", vector="x", size=5 * 2**20),
        SetTransaction(app_id="s", version=7),
        DomainMetadata(domain="d", configuration="{}", removed=False),
    )
    log.commit(remove("a"), add("c", size=2**40))
    return log


def test_what_is_written_is_read_and_agrees(log: LogInMemory) -> None:
    snapshot = log.snapshots().latest()
    assert write_checksum(log.store, 2, snapshot.checksum(txn_id="t")) is PutOutcome.CREATED
    assert verify_checksum(log.store, snapshot) == []
    recorded = read_checksum(log.store, 2)
    assert recorded is not None
    assert recorded == snapshot.checksum(txn_id="t")


def test_a_checksum_is_never_overwritten(log: LogInMemory) -> None:
    log.store.put(checksum_path(2), b"theirs")
    assert write_checksum(log.store, 2, log.snapshots().latest().checksum()) is PutOutcome.EXISTS
    assert log.store.read(checksum_path(2)) == b"theirs"


def test_the_fields_are_those_of_the_protocol(log: LogInMemory) -> None:
    """See "Version Checksum File Schema"."""
    fields = json.loads(encode_checksum(log.snapshots().latest().checksum(txn_id="t")))
    assert fields["numFiles"] == 2
    assert fields["tableSizeBytes"] == 5 * 2**20 + 2**40
    assert (fields["numMetadata"], fields["numProtocol"]) == (1, 1)
    assert fields["setTransactions"] == [{"appId": "s", "version": 7}]
    assert fields["domainMetadata"] == [{"domain": "d", "configuration": "{}", "removed": False}]
    assert fields["numDeletedRecordsOpt"] == 2
    assert fields["numDeletionVectorsOpt"] == 1
    assert fields["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    histogram = fields["fileSizeHistogram"]
    assert len(histogram["sortedBinBoundaries"]) == len(histogram["fileCounts"]) == 95
    assert sum(histogram["fileCounts"]) == 2
    assert sum(histogram["totalBytes"]) == fields["tableSizeBytes"]
    assert "inCommitTimestampOpt" not in fields


@pytest.mark.parametrize(
    ("field", "lie"),
    [
        ("numFiles", 3),
        ("tableSizeBytes", 0),
        ("numMetadata", 2),
        ("setTransactions", []),
        ("domainMetadata", []),
        ("numDeletedRecordsOpt", 0),
        ("deletedRecordCountsHistogramOpt", {"deletedRecordCounts": [2] + [0] * 9}),
        ("protocol", {"minReaderVersion": 1, "minWriterVersion": 2}),
    ],
)
def test_a_lie_is_reported_and_not_believed(log: LogInMemory, field: str, lie: object) -> None:
    """Covers fault F45."""
    fields = json.loads(encode_checksum(log.snapshots().latest().checksum()))
    log.store.put(checksum_path(2), json.dumps({**fields, field: lie}).encode())
    snapshot = log.snapshots().latest()
    assert snapshot.files.count == 2
    assert [discrepancy.field for discrepancy in verify_checksum(log.store, snapshot) or []] == [field]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"numFiles":"x"}', b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_checksum_is_as_none(log: LogInMemory, data: bytes) -> None:
    log.store.put(checksum_path(2), data)
    assert read_checksum(log.store, 2) is None
    assert verify_checksum(log.store, log.snapshots().latest()) is None


def test_the_older_name_of_the_histogram_is_read(log: LogInMemory) -> None:
    fields = json.loads(encode_checksum(log.snapshots().latest().checksum()))
    fields["histogramOpt"] = fields.pop("fileSizeHistogram")
    assert decode_checksum(json.dumps(fields).encode()).file_sizes is not None


def test_bins_are_inclusive_below_and_exclusive_above() -> None:
    sizes = np.array([0, 8191, 8192, 2**30, 2**50])
    histogram = file_size_histogram(sizes)
    assert histogram.file_counts[0] == 2
    assert histogram.file_counts[1] == 1
    assert histogram.file_counts[FILE_SIZE_BOUNDARIES.index(2**30)] == 1
    assert (histogram.file_counts[-1], histogram.total_bytes[-1]) == (1, 2**50)


def test_deletions_by_power_of_ten() -> None:
    hidden = np.array([0, 1, 9, 10, 99, 100, 9_999_999, 10_000_000, 2**31 - 2, 2**31 - 1, 2**40])
    assert deleted_record_counts(hidden) == (1, 2, 2, 1, 0, 0, 0, 1, 2, 2)


def test_histograms_follow_commits_without_counting_again() -> None:
    """The sums of a refreshed snapshot are those of one read from nothing."""
    log = LogInMemory.created()
    follower = log.snapshots()
    log.commit(
        *[add(f"file-{number}", size=number * 9_000, vector="x" if number % 3 else None) for number in range(300)]
    )
    _ = follower.latest().files.summary
    for number in range(0, 300, 7):
        log.commit(remove(f"file-{number}", vector="x" if number % 3 else None), add(f"new-{number}", size=number))
        fresh = log.snapshots().latest()
        assert follower.latest().checksum() == fresh.checksum()
