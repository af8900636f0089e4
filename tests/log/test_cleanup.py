"""What log clean-up may take, and in which order."""

from __future__ import annotations

import pytest

from anabranch.errors.log import CorruptCheckpointError, LogGapError, TruncatedLogError, VersionNotFoundError
from anabranch.log.checksum import write_checksum
from anabranch.log.cleanup import DAY_MS, MINUTE_MS, cutoff_ms, delete_expired, plan_cleanup
from anabranch.protocol.log_paths import checkpoint_path, commit_path
from anabranch.snapshot.checkpointing import write_checkpoint
from log.log_in_memory import START_MS, CountedUuids, LogInMemory, add, write_compaction


@pytest.fixture
def log() -> LogInMemory:
    """One commit a day, versions 0 to 20, checkpoints of 5, 10, 15 and 20."""
    log = LogInMemory.created()
    for version in range(1, 21):
        log.clock.time_ms = START_MS + version * DAY_MS
        log.commit(add(f"file-{version}"))
        snapshot = log.snapshots().latest()
        write_checksum(log.store, version, snapshot.checksum())
        if version % 5 == 0:
            write_checkpoint(log.store, snapshot, clock=log.clock, new_uuid=CountedUuids())
    write_compaction(log.store, first=2, last=4)
    write_compaction(log.store, first=10, last=12)
    write_compaction(log.store, first=11, last=13)
    return log


def test_the_cut_off_is_midnight() -> None:
    assert cutoff_ms(now_ms=10 * DAY_MS + 5, retention_ms=3 * DAY_MS) == 7 * DAY_MS
    assert cutoff_ms(now_ms=10 * DAY_MS, retention_ms=3 * DAY_MS) == 7 * DAY_MS
    in_minutes = cutoff_ms(now_ms=10 * DAY_MS + 61_000, retention_ms=3 * DAY_MS, granularity_ms=MINUTE_MS)
    assert in_minutes == 7 * DAY_MS + MINUTE_MS


def test_what_was_current_at_the_cut_off_stays_readable(log: LogInMemory) -> None:
    """Covers fault F43: also when clean-up stops after any file."""
    plan = plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 13 * DAY_MS + 7)
    assert plan is not None
    assert plan.kept_checkpoint == 10
    for path in plan.paths:
        log.delete(path)
        for version in (10, 13, 20):
            assert log.snapshots().at_version(version).files.count == version
    with pytest.raises((VersionNotFoundError, LogGapError, TruncatedLogError)):
        log.snapshots().at_version(9)
    left = log.names()
    assert "00000000000000000010.json" in left
    assert "00000000000000000011.00000000000000000013.compacted.json" in left
    assert "00000000000000000010.00000000000000000012.compacted.json" not in left
    assert not [name for name in left if name < "00000000000000000010"]


def test_nothing_goes_before_a_checkpoint_is_old_enough(log: LogInMemory) -> None:
    assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS - 1) is None
    assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 4 * DAY_MS) is None


def test_a_checkpoint_without_its_commit_keeps_everything(log: LogInMemory) -> None:
    log.delete(commit_path(10))
    assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 13 * DAY_MS) is None


def test_a_second_clean_up_finds_nothing(log: LogInMemory) -> None:
    plan = plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 30 * DAY_MS)
    assert plan is not None
    assert plan.kept_checkpoint == 20
    log.delete(*plan.paths)
    assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 30 * DAY_MS) is None
    assert log.snapshots().latest().files.count == 20


def test_protected_history_goes_as_a_whole_or_stays(log: LogInMemory) -> None:
    """See "Checkpoint Protection": checkpoints before the bound hide commits from readers that would misread them."""
    for bound in (11, 15):
        assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 13 * DAY_MS + 7, protected_before=bound) is None
    plan = plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 16 * DAY_MS, protected_before=15)
    assert plan is not None
    assert plan.kept_checkpoint == 15
    kinds = ["checkpoint" in path for path in plan.paths]
    assert kinds == sorted(kinds), "commits go before the checkpoints that hide them"
    assert sum(kinds) == 2
    for path in plan.paths:
        log.delete(path)
        for version in (15, 20):
            assert log.snapshots().at_version(version).files.count == version
    assert plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 16 * DAY_MS, protected_before=15) is None


def test_nothing_is_deleted_before_the_kept_checkpoint_was_read(log: LogInMemory) -> None:
    """What is deleted could not be rebuilt from a damaged one."""
    plan = plan_cleanup(log.store, upto=20, cutoff_ms=START_MS + 13 * DAY_MS + 7)
    assert plan is not None
    whole, before = log.store.read(checkpoint_path(10)), log.names()
    log.store.put(checkpoint_path(10), whole[:-100])
    with pytest.raises(CorruptCheckpointError):
        delete_expired(log.store, plan)
    assert log.names() == before
    log.store.put(checkpoint_path(10), whole)
    delete_expired(log.store, plan)
    assert log.names()[0] == "00000000000000000010.checkpoint.parquet"
    assert log.snapshots().latest().files.count == 20
