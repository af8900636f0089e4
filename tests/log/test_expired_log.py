"""Log cleanup: every version from the cutoff on reads as before."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors.log import CorruptCheckpointError, LogGapError, TruncatedLogError, VersionNotFoundError
from anabranch.log.checksum import write_checksum
from anabranch.log.cleanup import (
    DAY_MS,
    CleanupPlan,
    clean_up_log,
    delete_expired,
    delete_orphaned_sidecars,
    plan_cleanup,
    sidecars_of,
)
from anabranch.log.log_segment import list_log
from anabranch.protocol.actions import CommitInfo
from anabranch.protocol.log_paths import LOG_DIRECTORY, SIDECAR_DIRECTORY, parse_log_path
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.file_tree import Deletion
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore
from log.log_in_memory import START_MS, CountedUuids, LogInMemory, StillClock, add, metadata, remove, write_compaction

ALL_TOMBSTONES = "interval 1000 days"
"""So that checkpoints keep them all."""


def random_log(chance: random.Random) -> LogInMemory:
    """A few dozen versions at odd times, with all that may lie beside commits."""
    log = LogInMemory.created(
        delta__checkpointPolicy=chance.choice(["classic", "v2"]), delta__deletedFileRetentionDuration=ALL_TOMBSTONES
    )
    stamped_from = chance.choice([0, 4, 99])
    new_uuid, live = CountedUuids(), list[str]()
    reader = log.snapshots()
    for version in range(1, chance.randint(5, 12)):
        log.clock.time_ms += chance.choice([1, 1000, DAY_MS // 3, DAY_MS, 3 * DAY_MS])
        actions = [add(f"f{version}")]
        if live and chance.random() < 0.4:
            actions.append(remove(live.pop(), at_ms=log.clock.time_ms))  # type: ignore[arg-type]
        live.append(f"f{version}")
        stamp = START_MS + version * DAY_MS if version >= stamped_from else None
        if version == stamped_from:
            actions.append(stamping(log, stamp, version))  # type: ignore[arg-type]
        log.commit(*actions, info=CommitInfo(operation="WRITE", in_commit_timestamp=stamp, txn_id=str(version)))
        snapshot = reader.latest()
        if chance.random() < 0.8:
            write_checksum(log.store, version, snapshot.checksum())
        if chance.random() < 0.35:
            write_checkpoint(log.store, snapshot, clock=log.clock, new_uuid=new_uuid)
        if version > 3 and chance.random() < 0.1:
            write_compaction(log.store, first=version - chance.randint(1, 3), last=version)
    return log


def stamping(log: LogInMemory, stamp: int | None, version: int) -> object:
    return metadata(
        delta__enableInCommitTimestamps="true",
        delta__inCommitTimestampEnablementVersion=str(version),
        delta__inCommitTimestampEnablementTimestamp=str(stamp),
        delta__checkpointPolicy=log.snapshots().latest().properties.checkpoint_policy,
        delta__deletedFileRetentionDuration=ALL_TOMBSTONES,
    )


def content_of(snapshot: Snapshot) -> tuple[object, ...]:
    files = sorted(snapshot.files.columns("path", "stats").to_pylist(), key=str)
    tombstones = sorted(snapshot.tombstones().select(["path", "deletion_timestamp"]).to_pylist(), key=str)
    return files, tombstones, snapshot.metadata, snapshot.protocol, snapshot.timestamp_ms


def times_of(log: LogInMemory, versions: list[Snapshot], properties: TableProperties) -> dict[int, int]:
    """The commit time of each version, computed in the simplest way."""
    times: dict[int, int] = {}
    for commit in list_log(log.store, first=0, upto=None).commits:
        snapshot = versions[commit.version]
        enabled = properties.in_commit_timestamps_enabled
        stamped = enabled and commit.version >= (properties.in_commit_timestamp_enablement_version or 0)
        time_ms = snapshot.timestamp_ms if stamped else commit.file.modified_ms
        times[commit.version] = time_ms if stamped else max(time_ms, max(times.values(), default=0) + 1)
    return times


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_versions_from_the_cut_off_on_read_as_before(seed: int) -> None:
    """Covers faults F42 and F43: also where it stops half-way, and is begun again."""
    chance = random.Random(seed)
    log = random_log(chance)
    reader = log.snapshots()
    newest = reader.latest()
    versions = [reader.at_version(version) for version in range(newest.version + 1)]
    times = times_of(log, versions, newest.properties)
    cutoff = chance.choice(list(times.values())) + chance.choice([-1, 0, 1, DAY_MS])
    first_needed = max((version for version, time_ms in times.items() if time_ms <= cutoff), default=0)
    before = [content_of(snapshot) for snapshot in versions]
    protected = chance.choice([0, 0, first_needed, newest.version])

    def plan() -> CleanupPlan | None:
        return plan_cleanup(
            log.store,
            upto=newest.version,
            cutoff_ms=cutoff,
            protected_before=protected,
            properties=newest.properties,
        )

    planned = plan()
    if planned is None:
        return
    assert protected <= planned.kept_checkpoint <= first_needed
    log.delete(*planned.paths[: chance.randint(0, len(planned.paths))])
    again = plan()
    if again is not None:
        assert set(again.paths) <= set(planned.paths)
        delete_expired(log.store, again)
    fresh = log.snapshots()
    for version in range(planned.kept_checkpoint, newest.version + 1):
        assert content_of(fresh.at_version(version)) == before[version]
    for version in range(planned.kept_checkpoint):
        with pytest.raises((VersionNotFoundError, LogGapError, TruncatedLogError)):
            fresh.at_version(version)
    names = [parse_log_path(name) for name in log.names()]
    assert not [name for name in names if name is not None and name.version < planned.kept_checkpoint]
    assert plan() is None


class Counting(MemoryStore):
    """A store that records listings; once `refuses` is set, nothing may be deleted."""

    listed: list[str]
    refuses = False

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        self.listed.append(directory)
        return super().list_from(directory, start_after)

    def delete_many(self, paths: object) -> Deletion:
        assert not self.refuses
        return super().delete_many(paths)  # type: ignore[arg-type]


def v2_log() -> LogInMemory:
    """One commit a day, versions 0 to 12, checkpoints with sidecars at 4, 8 and 12, in a store that counts."""
    clock = StillClock()
    store = Counting(clock=clock)
    store.listed = []
    log = LogInMemory(store=store, clock=clock)
    new_uuid = CountedUuids()
    made = LogInMemory.created(delta__checkpointPolicy="v2")
    for path in made.names():
        store.put(f"{LOG_DIRECTORY}/{path}", made.store.read(f"{LOG_DIRECTORY}/{path}"))
    log.next_version = 1
    for version in range(1, 13):
        clock.time_ms = START_MS + version * DAY_MS
        log.commit(add(f"f{version}"))
        if version % 4 == 0:
            write_checkpoint(store, log.snapshots().latest(), clock=clock, new_uuid=new_uuid)
    store.listed.clear()
    return log


def sidecars(log: LogInMemory) -> set[str]:
    return {file.path for file in log.store.list_tree(SIDECAR_DIRECTORY)}


def test_sidecars_go_with_the_last_checkpoint_that_names_them() -> None:
    log = v2_log()
    store = log.store
    assert isinstance(store, Counting)
    checkpoints = list_log(store, first=0, upto=None).checkpoints
    named = {one.version: sidecars_of(store, one) for one in checkpoints}
    assert all(named.values())
    store.put(f"{SIDECAR_DIRECTORY}/of-a-checkpoint-being-written.parquet", b"x")
    store.listed.clear()
    properties = log.snapshots().latest().properties
    store.listed.clear()

    now_ms = START_MS + 12 * DAY_MS + 31 * DAY_MS
    clean_up_log(store, upto=12, now_ms=now_ms, properties=properties)
    assert store.listed == [LOG_DIRECTORY, SIDECAR_DIRECTORY]
    assert list_log(store, first=0, upto=None).commits[0].version == 12
    assert sidecars(log) == named[12], "and what is young stays, but here all is a month old"
    assert log.snapshots().latest().files.count == 12

    store.listed.clear()
    store.refuses = True
    clean_up_log(store, upto=12, now_ms=now_ms, properties=properties)
    assert store.listed == [LOG_DIRECTORY], "with nothing to do, one listing is all it costs"


def test_young_sidecars_stay_and_an_unreadable_checkpoint_keeps_all() -> None:
    log = v2_log()
    checkpoints = list_log(log.store, first=0, upto=None).checkpoints
    all_of_them = sidecars(log)
    before_ms = START_MS + 8 * DAY_MS
    assert delete_orphaned_sidecars(log.store, checkpoints[2:], before_ms=before_ms) == 1
    left = all_of_them - sidecars_of(log.store, checkpoints[0])
    assert sidecars(log) == left
    log.store.put(checkpoints[2].files[0].path, b"torn")
    with pytest.raises(CorruptCheckpointError):
        delete_orphaned_sidecars(log.store, checkpoints[1:], before_ms=START_MS + 90 * DAY_MS)
    assert sidecars(log) == left


def test_times_in_commits_count_where_the_table_has_them() -> None:
    """Copied or touched, the files are all of today; the versions are as old as they say."""
    log = LogInMemory.created()
    log.clock.time_ms = START_MS + 400 * DAY_MS
    for version in range(1, 9):
        actions = [add(f"f{version}")]
        stamp = START_MS + version * DAY_MS if version >= 3 else None
        if version == 3:
            actions.append(stamping(log, stamp, 3))  # type: ignore[arg-type]
        log.commit(*actions, info=CommitInfo(operation="WRITE", in_commit_timestamp=stamp))
        if version in {4, 6}:
            write_checkpoint(log.store, log.snapshots().latest(), clock=log.clock, new_uuid=CountedUuids())
    properties = log.snapshots().latest().properties
    for days, kept in ((3, None), (4, 4), (5, 4), (7, 6), (100, 6)):
        plan = plan_cleanup(log.store, upto=8, cutoff_ms=START_MS + days * DAY_MS, properties=properties)
        assert (None if plan is None else plan.kept_checkpoint) == kept, days
    assert plan_cleanup(log.store, upto=8, cutoff_ms=START_MS + 100 * DAY_MS) is None
