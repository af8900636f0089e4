"""The cached, refreshed view of a table."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from uuid import UUID

import msgspec
import pytest

from anabranch.errors.log import (
    CorruptCheckpointError,
    CorruptCommitError,
    IncompleteStateError,
    TableNotFoundError,
    VersionNotFoundError,
)
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.log.log_segment import CommitFile
from anabranch.protocol.actions import (
    AddFile,
    DeletionVectorDescriptor,
    DomainMetadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import (
    checkpoint_path,
    commit_path,
    compacted_path,
    multi_part_checkpoint_path,
    v2_checkpoint_path,
)
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore
from log.log_in_memory import PROTOCOL, CountedUuids, LogInMemory, StillClock, add, metadata, remove, write_compaction


class WatchedStore(MemoryStore):
    """Remembers what was read and listed."""

    def __init__(self, clock: StillClock, root: str = "memory:/table") -> None:
        super().__init__(root, clock)
        self.reads: list[str] = []
        self.listings: list[str] = []

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        self.listings.append(start_after)
        return super().list_from(directory, start_after)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, size_max=size_max)


@pytest.fixture
def log() -> LogInMemory:
    """Versions 0 to 3."""
    clock = StillClock()
    log = LogInMemory(store=WatchedStore(clock), clock=clock)
    log.commit(PROTOCOL, metadata())
    for number in range(3):
        log.commit(add(f"file-{number}"))
    return log


def reads_of(log: LogInMemory) -> list[str]:
    assert isinstance(log.store, WatchedStore)
    return log.store.reads


def test_a_refresh_reads_only_what_is_new(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    first = snapshots.latest()
    reads_of(log).clear()
    assert snapshots.latest() is first
    assert reads_of(log) == []
    log.commit(remove("file-1"), add("file-3"))
    second = snapshots.latest()
    assert reads_of(log) == [commit_path(4)]
    assert sorted(second.files.table["path"].to_pylist()) == ["file-0", "file-2", "file-3"]
    assert sorted(first.files.table["path"].to_pylist()) == ["file-0", "file-1", "file-2"]


def test_after_a_commit_the_log_of_a_local_disk_is_not_listed() -> None:
    """Covers fault F50: it is listed where a commit between is not known, and where the table was made again meanwhile."""
    clock = StillClock()
    store = WatchedStore(clock, root="/table")
    log = LogInMemory(store=store, clock=clock)
    log.commit(PROTOCOL, metadata())
    log.commit(add("read"))
    snapshots, unknowing, replaced = log.snapshots(), log.snapshots(), log.snapshots()
    for cache in (snapshots, unknowing, replaced):
        cache.latest()
    theirs, ours = log.commit(add("theirs")), log.commit(add("ours"), remove("read"))
    file = store.head(commit_path(theirs))
    assert file is not None
    before = [CommitFile(version=theirs, file=file)]
    store.listings.clear()
    after = snapshots.after_commit(ours, before=before)
    assert store.listings == []
    assert sorted(after.files.table["path"].to_pylist()) == ["ours", "theirs"]
    assert snapshots.latest() is after
    assert sorted(unknowing.after_commit(ours).files.table["path"].to_pylist()) == ["ours", "theirs"]
    log.clock.time_ms += 10_000
    log.next_version = 0
    for number in range(ours + 1):
        log.commit(*([PROTOCOL, metadata()] if number == 0 else [add(f"again-{number}")]))
    again = replaced.after_commit(ours, before=before)
    assert sorted(again.files.table["path"].to_pylist()) == ["again-1", "again-2", "again-3"]


def test_versions_reached_forwards_read_only_the_commits_between(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    snapshots.at_version(1)
    reads_of(log).clear()
    assert snapshots.at_version(3).files.count == 3
    assert reads_of(log) == [commit_path(2), commit_path(3)]
    reads_of(log).clear()
    assert snapshots.at_version(3) is snapshots.at_version(3)
    assert reads_of(log) == []


def test_there_may_be_no_table_yet() -> None:
    log = LogInMemory.empty()
    snapshots = log.snapshots()
    assert snapshots.latest_or_none() is None
    with pytest.raises(TableNotFoundError):
        snapshots.latest()
    log.commit(PROTOCOL, metadata())
    assert snapshots.latest().version == 0


def test_a_table_created_again_is_noticed(log: LogInMemory) -> None:
    """Covers fault F50."""
    for versions in (1, 4, 9):
        snapshots = log.snapshots()
        before = snapshots.latest()
        log.delete(*(f"_delta_log/{name}" for name in log.names()))
        log.next_version = 0
        log.clock.time_ms += 10_000
        log.commit(PROTOCOL, metadata(delta__appendOnly="true"))
        for number in range(1, versions):
            log.commit(add(f"new-{versions}-{number}"))
        after = snapshots.latest()
        assert after.version == versions - 1
        assert after.files.count == versions - 1
        assert after.properties.append_only
        assert before.version >= 0
        assert snapshots.at_version(0).files.count == 0


def test_a_table_that_was_dropped_is_noticed(log: LogInMemory) -> None:
    """Covers fault F50."""
    snapshots = log.snapshots()
    snapshots.latest()
    log.delete(*(f"_delta_log/{name}" for name in log.names()))
    with pytest.raises(TableNotFoundError):
        snapshots.latest()
    assert snapshots.latest_or_none() is None
    with pytest.raises((TableNotFoundError, VersionNotFoundError)):
        snapshots.at_version(3)


def test_a_reader_keeps_up_across_a_checkpoint_and_a_clean_up(log: LogInMemory) -> None:
    """Covers fault F42: an old snapshot stays whole, statistics included, when its files are gone."""
    snapshots = log.snapshots()
    old = snapshots.latest()
    write_checkpoint(log.store, old, clock=log.clock, new_uuid=CountedUuids())
    from_checkpoint = log.snapshots().latest()
    log.commit(remove("file-0"))
    new = log.snapshots().latest()
    write_checkpoint(log.store, new, clock=log.clock, new_uuid=CountedUuids())
    log.delete(*(commit_path(version) for version in range(4)), checkpoint_path(3))
    assert old.files.columns("stats")["stats"].to_pylist() == ['{"numRecords":9}'] * 3
    assert from_checkpoint.files.columns("stats")["stats"].to_pylist() == ['{"numRecords":9}'] * 3
    assert snapshots.latest().version == 4
    with pytest.raises(VersionNotFoundError, match="Versions 4 to 4"):
        log.snapshots().at_version(3)


def test_a_damaged_checkpoint_gives_way_to_an_older_one(log: LogInMemory) -> None:
    write_checkpoint(log.store, log.snapshots().at_version(1), clock=log.clock, new_uuid=CountedUuids())
    write_checkpoint(log.store, log.snapshots().at_version(3), clock=log.clock, new_uuid=CountedUuids())
    log.store.put(checkpoint_path(3), b"PAR1 this is no Parquet file PAR1")
    snapshot = log.snapshots().latest()
    assert (snapshot.version, snapshot.files.count) == (3, 3)
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 1


@pytest.mark.parametrize("parts", [17, 40])
def test_a_damaged_checkpoint_of_many_parts_is_one_checkpoint(log: LogInMemory, parts: int) -> None:
    """The commits are whole, and so is the table."""
    for version in (1, 3):
        for part in range(1, parts + 1):
            log.store.put(multi_part_checkpoint_path(version, part, parts), b"PAR1 no Parquet file PAR1")
    snapshot = log.snapshots().latest()
    assert (snapshot.version, snapshot.files.count) == (3, 3)
    assert snapshot.segment.checkpoint is None


def test_commits_replace_any_number_of_damaged_checkpoints(log: LogInMemory) -> None:
    for number in range(30):
        log.store.put(v2_checkpoint_path(3, str(UUID(int=number))), b"PAR1 no Parquet file PAR1")
        log.store.put(compacted_path(1, 3), b"{")
    snapshot = log.snapshots().latest()
    assert (snapshot.version, snapshot.files.count) == (3, 3)


def test_a_damaged_checkpoint_without_anything_older_is_named(log: LogInMemory) -> None:
    write_checkpoint(log.store, log.snapshots().latest(), clock=log.clock, new_uuid=CountedUuids())
    log.store.put(checkpoint_path(3), log.store.read(checkpoint_path(3))[:-20])
    log.delete(commit_path(0))
    with pytest.raises(CorruptCheckpointError, match=r"00000000000000000003\.checkpoint\.parquet"):
        log.snapshots().latest()


@pytest.mark.parametrize("content", [b"", b"{", b'{"add":{"path":"x"}}\n'])
def test_a_damaged_compaction_gives_way_to_the_commits(log: LogInMemory, content: bytes) -> None:
    """Covers fault F46."""
    write_compaction(log.store, first=1, last=3)
    log.store.put(compacted_path(1, 3), content)
    assert log.snapshots().latest().files.count == 3


def hiding(path: str, vector: str, hidden: int) -> AddFile:
    """A file of ten rows, of which a vector of that name hides some."""
    descriptor = DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=vector.rjust(20, "0"), offset=1, size_in_bytes=40, cardinality=hidden
    )
    return msgspec.structs.replace(add(path), deletion_vector=descriptor)


def removing(file: AddFile) -> RemoveFile:
    return msgspec.structs.replace(remove(file.path), deletion_vector=file.deletion_vector)


def test_a_compaction_that_is_not_reconciled_gives_way_to_the_commits() -> None:
    """Else rows that were hidden later would be back: two vectors of one file would both be live."""
    log = LogInMemory.created()
    thinned, thinner = hiding("a", "v", 1), hiding("a", "w", 5)
    log.commit(add("a"))
    log.commit(remove("a"), thinned)
    log.commit(removing(thinned), thinner)
    log.store.put(compacted_path(2, 3), encode_actions([remove("a"), thinned, thinner]))
    assert [file.key for file in log.snapshots().latest().files.to_actions()] == [thinner.key]


def test_a_compaction_that_leaves_out_a_removal_gives_way_to_the_commits() -> None:
    log = LogInMemory.created()
    thinned = hiding("a", "v", 1)
    log.commit(add("a"))
    log.commit(remove("a"), thinned)
    log.commit(add("b"))
    log.store.put(compacted_path(2, 3), encode_actions([thinned, add("b")]))
    assert [file.key for file in log.snapshots().latest().files.to_actions()] == [thinned.key, ("b", None)]


def test_a_torn_commit_spoils_no_version_before_it(log: LogInMemory) -> None:
    """Covers fault F24: also for a reader that has the versions before."""
    snapshots = log.snapshots()
    snapshots.latest()
    log.commit(add("x"))
    data = log.store.read(commit_path(4))
    log.store.put(commit_path(4), data[:-7])
    for _ in range(2):
        with pytest.raises(CorruptCommitError):
            snapshots.latest()
    assert snapshots.at_version(3).files.count == 3
    log.store.put(commit_path(4), data)
    assert snapshots.latest().files.count == 4


@pytest.mark.parametrize(("actions", "missing"), [([PROTOCOL], "metaData"), ([metadata()], "protocol")])
def test_a_log_without_protocol_or_metadata(actions: list[Protocol], missing: str) -> None:
    log = LogInMemory.empty()
    log.commit(*actions)
    with pytest.raises(IncompleteStateError, match=missing):
        log.snapshots().latest()


def test_a_feature_we_lack_is_refused_by_name(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    snapshots.latest()
    log.commit(
        Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=["fromTheFuture"],
            writer_features=["fromTheFuture"],
        )
    )
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        snapshots.latest()
    assert snapshots.at_version(3).files.count == 3


def test_application_ids_expire() -> None:
    """See `delta.setTransactionRetentionDuration`."""
    log = LogInMemory.created(delta__setTransactionRetentionDuration="interval 1 hour")
    now_ms = log.clock.time_ms
    log.commit(
        SetTransaction(app_id="dated", version=1, last_updated=now_ms), SetTransaction(app_id="undated", version=1)
    )
    snapshots = log.snapshots()
    assert set(snapshots.latest().set_transactions) == {"dated", "undated"}
    log.clock.time_ms += 3_600_001
    assert set(snapshots.latest().set_transactions) == {"undated"}


def test_domain_metadata_that_was_removed_is_gone(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    log.commit(DomainMetadata(domain="d", configuration="1", removed=False))
    assert snapshots.latest().domain_metadata["d"].configuration == "1"
    log.commit(DomainMetadata(domain="d", configuration="", removed=True))
    assert dict(snapshots.latest().domain_metadata) == {}


def test_threads_share_one_view(log: LogInMemory) -> None:
    """Covers fault F62: readers see versions ascend and each version whole, while a writer commits."""
    snapshots = log.snapshots()
    failures: list[str] = []
    done = threading.Event()

    def read() -> None:
        last = -1
        while not done.is_set():
            snapshot = snapshots.latest()
            if snapshot.version < last or snapshot.files.table.num_rows != snapshot.version:
                failures.append(f"{snapshot.version} after {last}, {snapshot.files.count} files")
            last = snapshot.version

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(40):
        log.commit(add(f"more-{number}"))
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_files_are_looked_up_by_key(log: LogInMemory) -> None:
    log.commit(remove("file-0"), add("file-0", vector="x"))
    files = log.snapshots().latest().files
    file = files.find("file-0", add("", vector="x").deletion_vector.unique_id)  # type: ignore[union-attr]
    assert file is not None
    assert files.find("file-0") is None
    assert files.find("nowhere") is None
    assert files.at_path("file-0") == [file]


def test_what_is_derived_from_metadata() -> None:
    snapshot = LogInMemory.created().snapshots().latest()
    assert snapshot.schema.fieldNames() == ["id", "day"]
    assert snapshot.partition_columns == snapshot.physical_partition_columns == ("day",)


def test_metadata_is_parsed_once_for_all_versions_that_have_it(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    schema = snapshots.latest().schema
    log.commit(add("file-3"))
    assert snapshots.latest().schema is schema
    log.commit(metadata(delta__appendOnly="true"))
    changed = snapshots.latest()
    assert changed.schema is not schema
    assert changed.properties.append_only


def test_a_long_lived_reader_releases_unreferenced_snapshots(log: LogInMemory) -> None:
    # Tables of other tests are none of ours.
    before = {id(snapshot) for snapshot in _snapshots_alive()}
    snapshots = log.snapshots()
    for number in range(50):
        log.commit(add(f"more-{number}"), remove(f"more-{number - 1}"))
        snapshots.latest()
    gc.collect()
    kept = [snapshot for snapshot in _snapshots_alive() if id(snapshot) not in before]
    assert 1 <= len(kept) <= 8


def _snapshots_alive() -> list[object]:
    return [snapshot for snapshot in gc.get_objects() if type(snapshot).__name__ == "Snapshot"]


def test_a_store_that_reports_times_twice_differently_costs_only_time(log: LogInMemory) -> None:
    snapshots = log.snapshots()
    snapshots.latest()
    log.clock.time_ms += 5
    log.store.put(commit_path(3), log.store.read(commit_path(3)))
    assert snapshots.latest().files.count == 3
    assert isinstance(snapshots, SnapshotCache)
