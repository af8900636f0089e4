"""Snapshots that the sessions of one process share: each commit is applied once, and none is kept for its own sake."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.protocol.actions import SetTransaction
from anabranch.protocol.log_paths import commit_path
from anabranch.snapshot import snapshot_cache
from anabranch.snapshot.replay import Replay
from anabranch.snapshot.snapshot_cache import SharedSnapshots, SnapshotCache, shared_snapshots_of
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.object.object_store import ObjectStore
from log.log_in_memory import LogInMemory, add, metadata


@pytest.fixture
def log() -> LogInMemory:
    log = LogInMemory.created()
    log.commit(add("file-0"))
    return log


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each commit that is applied to a snapshot."""
    commits: list[int] = []
    begin: Callable[[Replay], None] = Replay.begin_commit

    def begin_commit(replay: Replay) -> None:
        commits.append(1)
        begin(replay)

    monkeypatch.setattr(Replay, "begin_commit", begin_commit)
    return commits


def sessions(log: LogInMemory, count: int) -> list[SnapshotCache]:
    shared = SharedSnapshots()
    return [SnapshotCache(log.store, log.clock, shared=shared) for _ in range(count)]


def test_a_commit_is_applied_once_for_all_sessions(log: LogInMemory, applied: list[int]) -> None:
    caches = sessions(log, 8)
    for cache in caches:
        cache.latest()
    assert len(applied) == 2, "the first session reads the log, and the others take its snapshot"
    for number in range(10):
        log.commit(add(f"more-{number}"))
        assert {cache.latest().files.count for cache in caches} == {number + 2}
    assert len(applied) == 2 + 10, "each of eight sessions applied each commit before: 96"


def test_a_session_that_is_behind_applies_only_what_no_other_has(log: LogInMemory, applied: list[int]) -> None:
    behind, ahead, _ = caches = sessions(log, 3)
    for cache in caches:
        cache.latest()
    for number in range(5):
        log.commit(add(f"more-{number}"))
    ahead.latest()
    log.commit(add("last"))
    applied.clear()
    assert behind.latest().files.count == 7
    assert len(applied) == 1


def test_sessions_that_read_at_the_same_time_apply_a_commit_once(log: LogInMemory, applied: list[int]) -> None:
    caches = sessions(log, 8)
    barrier = threading.Barrier(len(caches))
    counts: list[int] = []

    def read(cache: SnapshotCache) -> None:
        barrier.wait()
        counts.append(cache.latest().files.count)

    for expected in (2, 3):
        counts.clear()
        threads = [threading.Thread(target=read, args=(cache,)) for cache in caches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [expected - 1] * 8
        assert len(applied) == expected
        log.commit(add(f"more-{expected}"))


def test_a_snapshot_that_no_session_holds_is_released(log: LogInMemory) -> None:
    first, second = sessions(log, 2)
    shared = first._shared
    for number in range(20):
        first.latest()
        second.latest()
        log.commit(add(f"more-{number}"))
    gc.collect()
    kept = 2 * (1 + snapshot_cache.OLDER_VERSIONS_CACHED)
    assert len(shared._snapshots) <= kept
    file = first.latest().segment.version_file
    del first
    assert shared.get(file) is None, "the second session has not seen it"


def test_a_table_that_was_created_again_is_read_again(log: LogInMemory) -> None:
    old, new = sessions(log, 2)
    assert old.latest().files.count == 1
    created = log.store.read(commit_path(0))
    log.delete(commit_path(0), commit_path(1))
    log.clock.time_ms += 1000
    log.store.put(commit_path(0), created)
    assert new.latest().version == 0
    assert old.latest() is new.latest()


def test_application_ids_that_expire_are_left_out_of_a_shared_snapshot() -> None:
    log = LogInMemory.created(delta__setTransactionRetentionDuration="interval 1 hours")
    log.commit(SetTransaction(app_id="app", version=1, last_updated=log.clock.time_ms))
    first, second = sessions(log, 2)
    assert "app" in first.latest().set_transactions
    log.clock.time_ms += 2 * 3_600_000
    assert "app" not in second.latest().set_transactions


def test_a_change_of_the_metadata_reaches_all_sessions(log: LogInMemory) -> None:
    caches = sessions(log, 2)
    assert not any(cache.latest().properties.append_only for cache in caches)
    log.commit(metadata(delta__appendOnly="true"))
    assert all(cache.latest().properties.append_only for cache in caches)


# Which sessions share.


def test_sessions_share_the_tables_of_a_local_disk(tmp_path: Path) -> None:
    one, same, other = (LocalStore(str(tmp_path / name)) for name in ("t", "t", "u"))
    shared = shared_snapshots_of(one)
    assert shared_snapshots_of(same) is shared
    assert shared_snapshots_of(other) is not shared


def object_store(**credentials: str) -> ObjectStore:
    config = {"region": "eu-west-1"}
    options = ObjectStoreOptions(service="s3", bucket="b", endpoint="S3", config=config, credentials=credentials)
    return ObjectStore("s3a://b/t", prefix="t", options=options)


def test_sessions_with_other_credentials_share_nothing() -> None:
    ours = object_store(access_key_id="ours", secret_access_key="s")
    same = object_store(access_key_id="ours", secret_access_key="s")
    other = object_store(access_key_id="ours", secret_access_key="another")
    shared = shared_snapshots_of(ours)
    assert shared_snapshots_of(same) is shared
    assert shared_snapshots_of(other) is not shared
    assert "another" not in str(other.identity), "it is kept as a hash"


def test_stores_whose_rights_are_not_known_share_nothing(log: LogInMemory) -> None:
    shared = shared_snapshots_of(log.store)
    assert shared_snapshots_of(log.store) is not shared
