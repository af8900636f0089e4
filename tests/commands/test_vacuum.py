"""What VACUUM deletes, and what it must never delete. No Spark needed."""

from __future__ import annotations

import dataclasses
import os
import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from anabranch.commands.vacuum.vacuum_listing import Hiding, Inventory
from anabranch.commands.vacuum.vacuum_lite import HINT_PATH, read_hint
from anabranch.deletion_vectors.vector_descriptors import encoded_location
from anabranch.errors.commits import ConcurrentDeleteReadException, ConflictReason
from anabranch.errors.environment import StorageError
from anabranch.errors.maintenance import (
    NegativeRetentionError,
    RetentionTooShortError,
    VacuumIncompleteError,
    VacuumLiteError,
    VacuumModeError,
)
from anabranch.errors.protocol import UnsafePathError, UnsupportedFeatureError
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, DeletionVectorDescriptor, Protocol
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.storage.file_tree import TREE_SCHEMA, Deletion
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from commands.vacuumed_tables import HOUR_MS, VECTORS, WEEK_HOURS, Target
from storage.faults import FaultyStore, WriterDied
from transactions.table_on_memory import TestClock, add, metadata, rival_of, with_properties, writer


@pytest.fixture
def table() -> Target:
    """Files `old` (removed a week and an hour ago), `removed` (an hour ago), `live`; and `orphan`, as old as `old`."""
    clock = TestClock()
    table = Target.made(MemoryStore(clock=clock), clock)
    table.write("old", "removed", "live", "orphan")
    table.commit(add("old"), add("removed"), add("live"))
    table.commit(table.removed("old"))
    table.wait(WEEK_HOURS)
    table.commit(table.removed("removed"))
    table.wait(1)
    table.write("young")
    return table


def on_disk(root: Path, **properties: str) -> Target:
    """On a disk, whose own clock stamps files: ours begins nine days before it."""
    clock = TestClock(int(os.stat(root.parent).st_mtime * 1000) - 9 * 24 * HOUR_MS)
    return Target.made(LocalStore(str(root), clock), clock, protocol=VECTORS, by=("date",), **properties)


def make_old(root: Path) -> None:
    """Sets the times of all files below to ten years ago; links are left alone."""
    for directory, names, files in os.walk(root, topdown=False):
        for name in [*names, *files]:
            os.utime(os.path.join(directory, name), (1.4e9, 1.4e9), follow_symlinks=False)


def test_unneeded_files_are_deleted_once_they_are_old_enough(table: Target) -> None:
    dry = table.vacuum(dry_run=True)
    assert dry.plan.paths == ["old", "orphan"]
    assert dry.plan.size_bytes == 8
    assert table.files() == {"old", "orphan", "removed", "live", "young"}
    assert table.notes() == []

    done = table.vacuum()
    assert done.cleared is not None
    assert done.cleared.num_files == 2
    assert table.files() == {"removed", "live", "young"}
    table.wait(WEEK_HOURS + 1)
    assert table.vacuum(dry_run=True).plan.paths == ["removed", "young"]


def test_the_history_describes_a_vacuum_as_delta_does(table: Target) -> None:
    table.vacuum(hours=200)
    start, end = table.notes()
    assert (start.operation, end.operation) == ("VACUUM START", "VACUUM END")
    assert start.operation_parameters == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(WEEK_HOURS * HOUR_MS),
        "specifiedRetentionMillis": str(200 * HOUR_MS),
    }
    assert start.operation_metrics == {"numFilesToDelete": "0", "sizeOfDataToDelete": "0"}
    assert end.operation_parameters == {"status": "COMPLETED"}
    assert end.operation_metrics == {"numDeletedFiles": "0", "numVacuumedDirectories": "1"}
    table.vacuum()
    assert "specifiedRetentionMillis" not in (table.notes()[2].operation_parameters or {})
    assert table.notes()[3].operation_metrics == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}

    table.with_settings(logs=False).vacuum()
    assert len(table.notes()) == 4


def test_a_retention_shorter_than_the_tables_is_refused(table: Target) -> None:
    with pytest.raises(RetentionTooShortError, match=r"167\.5 hours.*168 hours") as short:
        table.vacuum(hours=167.5)
    assert "retentionDurationCheck.enabled" in str(short.value)
    assert table.files() >= {"old", "orphan"}
    for hours in (-1, float("nan")):
        with pytest.raises(NegativeRetentionError):
            table.with_settings(checks_retention=False).vacuum(hours=hours)
    with pytest.raises(VacuumModeError):
        table.vacuum(lite=True, inventory=lambda: Inventory(rows=TREE_SCHEMA.empty_table(), roots=()))
    table.vacuum(hours=float("inf"))
    assert table.files() >= {"old", "orphan"}
    table.with_settings(checks_retention=False).vacuum(hours=0)
    assert table.files() == {"live", "young"}, "a file of this very moment stays: a writer may be about to commit it"


def test_a_table_with_a_feature_we_lack_is_left_alone(table: Target) -> None:
    """See "VACUUM Protocol Check"."""
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=["filesOfItsOwn"])
    table.store.put_if_absent(commit_path(4), encode_actions([protocol]))
    with pytest.raises(UnsupportedFeatureError, match="filesOfItsOwn"):
        table.vacuum()
    assert table.files() >= {"old", "orphan"}


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("_delta_log", True),
        ("_spark_metadata", True),
        (".hoodie", True),
        (".part-0.parquet.crc", True),
        ("_change_data", False),
        ("_change_data_of_mine", True),
        ("_delta_index", False),
        ("_delta_index_1", False),
        ("_c=1", False),
        ("_c", True),
        ("_d%3Ae=1", False),
        ("_other=1", True),
        ("metadata", True),
        ("metadata2", False),
        ("day=_1", False),
    ],
)
def test_names_that_are_hidden(name: str, hidden: bool) -> None:
    hiding = Hiding(partition_columns=frozenset({"day", "_c", "_d:e"}), iceberg=True)
    assert hiding.hides(name) is hidden
    for path in (name, f"a/{name}", f"{name}/x", f"a/{name}/b/x"):
        listed = pa.table([[path], [1], [1], [False]], schema=TREE_SCHEMA)
        assert len(hiding.shown(listed)) == (0 if hidden else 1), path
    assert not Hiding(partition_columns=frozenset(), iceberg=False).hides("metadata")


def test_hidden_files_stay_and_change_data_goes(table: Target) -> None:
    hidden = {"_mine/x", ".x", "a/_b/c", "a/.y", "_anything"}
    table.write(*hidden, "_change_data/cdc-1", "_delta_index/i", "a/b")
    table.wait(WEEK_HOURS + 1)
    table.vacuum()
    assert table.files() == {"live", *hidden}


def test_iceberg_metadata_stays_while_the_table_is_kept_so(table: Target) -> None:
    table.write("metadata/v1.json")
    table.wait(WEEK_HOURS + 1)
    iceberg = with_properties(table.latest().metadata, universalFormat_enabledFormats="iceberg")
    table.store.put_if_absent(commit_path(4), encode_actions([iceberg]))
    assert "metadata/v1.json" not in table.vacuum(dry_run=True).plan.paths
    table.store.put_if_absent(commit_path(5), encode_actions([metadata()]))
    assert "metadata/v1.json" in table.vacuum(dry_run=True).plan.paths


def test_files_that_the_log_spells_otherwise_stay(tmp_path: Path) -> None:
    root = tmp_path / "a table"
    table = on_disk(root)
    spelled = {
        "date=a%252Fb/1": "date=a%2Fb/1",
        "date=x%20y/2": "date=x y/2",
        "date=é/3": "date=é/3",
        f"file:{root}/4".replace(" ", "%20"): "4",
        f"file://{root}/date=5/5".replace(" ", "%20"): "date=5/5",
        f"{root}/6".replace(" ", "%20"): "6",
        "Xy/7": "Xy/7",
        "./8": "8",
        "file:/somewhere/else/9": "linked/9",
        "DATE=10/10": "date=10/10",
        "%C3%A9/11": "e\u0301/11",
    }
    gone = {"date=a%252Fb/1", "date=x%20y/2", "linked/8", "other", "date=10/11"}
    for path in {*spelled.values(), *gone}:
        table.write(path)
    table.commit(*(msgspec.structs.replace(add(uri), partition_values={"date": "a"}) for uri in spelled))
    make_old(root)
    table.vacuum()
    assert table.files() == set(spelled.values())


def test_vectors_stay_as_long_as_their_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = on_disk(root)
    ids = [uuid.UUID(int=number, version=4) for number in range(6)]
    names = [f"deletion_vector_{file_id}.bin" for file_id in ids]
    where = ["u", "prefix", "p", "elsewhere", "removed long ago", "orphan"]
    stored = [names[0], f"aB/{names[1]}", f"date=2/{names[2]}", names[3], names[4], names[5]]
    vectors = [
        ("u", encoded_location(ids[0], prefix="")),
        ("u", encoded_location(ids[1], prefix="aB")),
        ("p", f"file:{root}/date=2/{names[2]}"),
        ("p", f"file:/another/mount/{names[3]}"),
        ("u", encoded_location(ids[4], prefix="")),
    ]
    adds = [with_vector(f"f{number}", kind, text) for number, (kind, text) in enumerate(vectors)]
    table.write(*stored, *(file.path for file in adds))
    table.commit(*adds)
    table.commit(table.removed("f4"))
    table.wait(WEEK_HOURS + 1)
    table.commit(table.removed("f1"))
    make_old(root)
    table.vacuum()
    left = table.files()
    assert [what for what, path in zip(where, stored, strict=True) if path not in left] == [
        "removed long ago",
        "orphan",
    ]
    assert {path for path in left if path.startswith("f")} == {"f0", "f1", "f2", "f3"}


def with_vector(path: str, kind: str, text: str) -> AddFile:
    vector = DeletionVectorDescriptor(
        storage_type=kind, path_or_inline_dv=text, offset=1, size_in_bytes=40, cardinality=1
    )
    return msgspec.structs.replace(add(path), deletion_vector=vector, partition_values={"date": "a"})


def test_a_path_without_a_meaning_refuses_everything(table: Target) -> None:
    """Covers fault F54: who cannot say which file is meant cannot say either which is not."""
    for path in ("../sibling/x", "%2e%2e/x", "a/../../x"):
        other = Target.made(MemoryStore(clock=table.clock), table.clock)
        other.write("orphan")
        other.commit(add(path))
        other.wait(WEEK_HOURS + 1)
        with pytest.raises(UnsafePathError):
            other.vacuum()
        assert other.files() == {"orphan"}


def test_a_table_in_the_folder_of_a_table_stays(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = on_disk(root)
    table.write("orphan", "inner/_delta_log/0.json", "inner/data", "inner/date=1/data", "inner2/data")
    make_old(root)
    assert table.vacuum(dry_run=True).plan.paths == ["inner2/data", "orphan"]
    in_memory = Target.made(MemoryStore(clock=table.clock), table.clock)
    in_memory.write("orphan", "inner/_delta_log/0.json", "inner/data", "inner2/data")
    in_memory.wait(WEEK_HOURS + 1)
    in_memory.vacuum()
    assert in_memory.files() == {"inner/_delta_log/0.json", "inner/data"}


def test_links_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    """Covers fault F54, attack A3."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("x")
    root = tmp_path / "t"
    table = on_disk(root)
    table.write("date=1/orphan")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "theirs")
    make_old(root)
    make_old(outside)
    plan = table.vacuum(dry_run=True).plan
    assert plan.paths == ["date=1/orphan"]

    # Between listing and deletion a folder is replaced by a link.
    (root / "date=1" / "orphan").rename(outside / "orphan")
    (root / "date=1").rmdir()
    (root / "date=1").symlink_to(outside)
    deletion = table.store.delete_many(["date=1/orphan", "folder/theirs"])
    assert deletion.failures == ()
    assert sorted(path.name for path in outside.iterdir()) == ["orphan", "theirs"]
    assert not table.store.remove_directory("folder/none")


def test_directories_that_nothing_is_left_in_go(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = on_disk(root)
    table.write("date=1/x", "date=2/live", "date=2/deep/y", "date=3/_hidden/z", "date=4/young")
    (root / "empty" / "deeper").mkdir(parents=True)
    make_old(root)
    os.utime(root / "date=4" / "young")
    (root / "new").mkdir()
    table.commit(msgspec.structs.replace(add("date=2/live"), partition_values={"date": "2"}))
    dry = table.vacuum(dry_run=True)
    assert dry.plan.paths == ["date=1/x", "date=2/deep/y", "date=3", "empty", "empty/deeper"]
    done = table.vacuum()
    assert sorted(path.name for path in root.iterdir()) == ["_delta_log", "date=2", "date=3", "date=4", "new"]
    assert not (root / "date=2" / "deep").exists()
    assert done.cleared is not None
    assert (done.cleared.num_files, done.cleared.num_emptied_directories) == (4, 2)
    assert table.notes()[1].operation_metrics == {"numDeletedFiles": "4", "numVacuumedDirectories": "9"}


def test_a_clock_that_is_ahead_makes_no_file_old(table: Target) -> None:
    """Covers faults F28 and F53: the storage's clock stamps the files, so it counts, and of two the earlier one."""
    ahead = TestClock(table.clock.now_ms() + 10 * WEEK_HOURS * HOUR_MS)
    table.vacuum(clock=ahead)
    assert table.files() == {"removed", "live", "young"}
    behind = TestClock(table.clock.now_ms() - 10 * WEEK_HOURS * HOUR_MS)
    table.wait(10 * WEEK_HOURS)
    table.vacuum(clock=behind)
    assert table.files() == {"removed", "live", "young"}
    assert not [file for file in table.store.list_tree("_delta_log") if "clock" in file.path]


class Refusing(MemoryStore):
    """A store that keeps the files it is configured to keep, and dies at one deletion."""

    kept: frozenset[str] = frozenset()
    dies_at: int | None = None
    deletions = 0

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        allowed = [path for path in paths if path not in self.kept]
        for path in allowed:
            self.deletions += 1
            if self.deletions == self.dies_at:
                raise WriterDied
            self.delete(path)
        failures = [
            StorageError(root=self.root, path=path, doing="delete", cause="denied")
            for path in paths
            if path in self.kept
        ]
        return Deletion(count=len(allowed), failures=tuple(failures))


@pytest.fixture
def refusing() -> Target:
    clock = TestClock()
    table = Target.made(Refusing(clock=clock), clock)
    table.write("live", *(f"orphan-{number}" for number in range(5)))
    table.commit(add("live"))
    table.wait(WEEK_HOURS + 1)
    return table


def test_a_failing_delete_is_reported_and_the_other_files_are_deleted(refusing: Target) -> None:
    assert isinstance(refusing.store, Refusing)
    refusing.store.kept = frozenset({"orphan-2"})
    with pytest.raises(VacuumIncompleteError, match=r"4 of 5.*orphan-2: denied"):
        refusing.vacuum()
    assert refusing.files() == {"live", "orphan-2"}
    assert [note.operation_parameters for note in refusing.notes()][1] == {"status": "FAILED"}
    assert refusing.store.head(HINT_PATH) is None
    refusing.store.kept = frozenset()
    refusing.vacuum()
    assert refusing.files() == {"live"}


def test_killed_anywhere_it_can_be_run_again(refusing: Target) -> None:
    """Covers fault F55."""
    assert isinstance(refusing.store, Refusing)
    for number in range(1, 4):
        refusing.store.dies_at, refusing.store.deletions = 2, 0
        with pytest.raises(WriterDied):
            refusing.vacuum()
        assert refusing.files() == {"live", *(f"orphan-{left}" for left in range(number, 5))}
    refusing.store.dies_at = None
    refusing.vacuum()
    assert refusing.files() == {"live"}


def test_a_full_disk_is_emptied(table: Target) -> None:
    """Covers bug B84: neither what begins VACUUM's history nor the file by which the time is read can be written there."""

    class FullStore(FaultyStore):
        def put(self, path: str, data: bytes) -> None:
            raise StorageError(root=self.root, path=path, doing="write", cause="no space left on device")

        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            raise StorageError(root=self.root, path=path, doing="write", cause="no space left on device")

    table.commit(add("young"))
    full = dataclasses.replace(table, delta_log=DeltaLog(FullStore(table.store), table.clock, random.Random(5)))
    assert full.vacuum().cleared is not None
    assert table.files() == {"removed", "live", "young"}
    assert table.notes() == []
    with pytest.raises(StorageError, match="no space"):
        full.with_settings(checks_retention=False).vacuum(hours=0)


@pytest.mark.parametrize("besides", [(), (metadata(table_id="table-1", properties={"delta.appendOnly": "false"}),)])
def test_what_comes_back_while_vacuum_looks_is_spared(besides: tuple[Action, ...]) -> None:
    """RESTORE may make a file live again after VACUUM has read the newest version; covers fault F57.

    Covers bug B65: also where START has to begin again, because that commit changes the description, too.
    """
    clock = TestClock()
    inner = MemoryStore(clock=clock)
    table = Target.made(inner, clock)
    table.write("back", "gone")
    table.commit(add("back"), add("gone"))
    table.commit(table.removed("back"), table.removed("gone"))
    table.wait(WEEK_HOURS + 1)
    landed: list[str] = []

    def restore_first(path: str) -> None:
        if not landed:
            landed.append(path)
            writer(inner, clock=clock, seed=9).commit([add("back"), *besides], name="RESTORE")

    beside = FaultyStore(inner, before_put=restore_first)
    dataclasses.replace(table, delta_log=DeltaLog(beside, clock, random.Random(4)), store=beside).vacuum()
    assert landed
    assert table.files() == {"back"}
    assert [file.path for file in table.latest().files.to_actions()] == ["back"]


VECTOR = uuid.UUID(int=7, version=4)
OWN_FILES = ["new", "back", "_change_data/c", f"deletion_vector_{VECTOR}.bin"]


@pytest.mark.parametrize("path", OWN_FILES)
def test_writers_whose_files_a_vacuum_takes_are_refused(path: str) -> None:
    """Covers bug B69: their own data files, vectors and change data, and what comes back; gone, or about to be."""
    clock = TestClock()
    table = Target.made(MemoryStore(clock=clock), clock, protocol=VECTORS)
    table.write("live", "back")
    table.commit(add("live"), add("back"))
    table.commit(table.removed("back"))
    hidden = msgspec.structs.replace(with_vector("live", "u", encoded_location(VECTOR, prefix="")), partition_values={})
    change = AddCDCFile(path="_change_data/c", partition_values={}, size=1, data_change=False)
    actions = dict(
        zip(OWN_FILES, [[add("new")], [add("back")], [change], [table.removed("live"), hidden]], strict=True)
    )

    def behind(*winners: Callable[[], object]) -> None:
        ours = table.begin_at(Operation(name="WRITE"), snapshot=table.latest())
        table.write(path)
        table.wait(1)
        for winner in winners:
            winner()
        ours.commit(actions[path])

    def start(**parameters: int) -> None:
        table.delta_log.begin(Operation(name="VACUUM START", parameters=parameters)).commit([])

    cases: list[tuple[str, Callable[[], object]]] = [
        ("VACUUM START", start),
        ("VACUUM START", lambda: start(specifiedRetentionMillis=0, defaultRetentionMillis=WEEK_HOURS * HOUR_MS)),
        ("VACUUM END", lambda: table.with_settings(checks_retention=False).vacuum(hours=0)),
    ]
    for operation, winner in cases:
        with pytest.raises(ConcurrentDeleteReadException, match="Run the operation again") as raised:
            behind(winner)
        error = raised.value
        assert (error.operation, error.reason, error.where) == (operation, ConflictReason.FILES_VACUUMED, path)
    assert path not in table.files()
    behind(lambda: start(defaultRetentionMillis=WEEK_HOURS * HOUR_MS), table.vacuum)
    again = table.begin_at(Operation(name="ROW TRACKING BACKFILL"), snapshot=table.latest())
    live = table.latest().files.to_actions()
    start()
    again.commit([msgspec.structs.replace(file, tags={"a": "b"}, data_change=False) for file in live])


def test_lite_takes_from_the_log_what_was_removed(table: Target) -> None:
    assert table.vacuum(lite=True, dry_run=True).plan.paths == ["old"]
    table.vacuum(lite=True)
    assert table.files() == {"orphan", "removed", "live", "young"}
    assert read_hint(table.store) == 2
    table.wait(WEEK_HOURS + 1)
    assert table.vacuum(lite=True, dry_run=True).plan.paths == ["removed"], "and `old` is not looked at again"
    assert table.vacuum(dry_run=True).plan.paths == ["orphan", "removed", "young"]
    table.with_settings(lite=True).vacuum()
    assert table.files() == {"orphan", "live", "young"}


def test_lite_takes_vectors_and_change_data_of_the_log_too() -> None:
    clock = TestClock()
    table = Target.made(MemoryStore(clock=clock), clock, protocol=VECTORS)
    ids = [uuid.UUID(int=number, version=4) for number in range(2)]
    names = [f"deletion_vector_{file_id}.bin" for file_id in ids]
    table.write("f", "g", *names, "_change_data/c", "kept")
    first, second = (
        with_vector(path, "u", encoded_location(file_id, prefix="")) for path, file_id in zip("fg", ids, strict=True)
    )
    table.commit(first, second)
    table.commit(
        table.removed("f"),
        add("kept"),
        AddCDCFile(path="_change_data/c", partition_values={}, size=4, data_change=False),
    )
    table.wait(WEEK_HOURS + 1)
    table.vacuum(lite=True)
    assert table.files() == {"g", names[1], "kept"}


def test_a_file_that_came_back_is_not_taken_by_lite() -> None:
    clock = TestClock()
    table = Target.made(MemoryStore(clock=clock), clock)
    table.write("f", "g")
    table.commit(add("f"), add("g"))
    table.commit(table.removed("f"), table.removed("g"))
    table.commit(add("f"), name="RESTORE")
    table.wait(WEEK_HOURS + 1)
    table.vacuum(lite=True)
    assert table.files() == {"f"}


def test_lite_is_refused_where_the_log_no_longer_has_the_removed_files(table: Target) -> None:
    write_checkpoint(table.store, table.latest(), clock=table.clock, new_uuid=lambda: str(uuid.uuid4()))
    table.commit(add("more"))
    for version in range(2):
        table.store.delete(commit_path(version))
    fresh = Target(
        delta_log=rival_of(writer(table.store, clock=table.clock)).table, store=table.store, clock=table.clock
    )
    with pytest.raises(VacuumLiteError, match=r"starts with version 2.*none is recorded.*FULL"):
        fresh.vacuum(lite=True)
    assert fresh.files() >= {"old", "removed"}
    fresh.vacuum()
    fresh.wait(WEEK_HOURS)
    fresh.vacuum(lite=True)
    assert fresh.files() == {"live", "young"}, "FULL has reached what LITE needs"


def test_a_longer_retention_counts_though_checkpoints_have_forgotten(table: Target) -> None:
    """`delta.deletedFileRetentionDuration` says how long checkpoints keep tombstones; RETAIN may be longer."""
    table.wait(WEEK_HOURS + 1)
    table.commit(add("more"))
    write_checkpoint(table.store, table.latest(), clock=table.clock, new_uuid=lambda: str(uuid.uuid4()))
    fresh = Target(
        delta_log=rival_of(writer(table.store, clock=table.clock)).table, store=table.store, clock=table.clock
    )
    assert len(fresh.latest().tombstones()) == 0
    assert fresh.vacuum(hours=WEEK_HOURS + 12, dry_run=True).plan.paths == ["old", "orphan"]
    assert fresh.vacuum(hours=WEEK_HOURS, dry_run=True).plan.paths == ["old", "orphan", "removed", "young"]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"latestCommitVersionOutsideOfRetentionWindow":"x"}'])
def test_a_hint_that_says_nothing_is_none(table: Target, text: bytes) -> None:
    table.store.put(HINT_PATH, text)
    assert read_hint(table.store) is None
    table.vacuum(lite=True)
    assert "old" not in table.files()


def test_an_inventory_replaces_the_listing(table: Target) -> None:
    """No inventory deletes a file outside the table, a hidden one or one that is needed."""
    ms = table.clock.now_ms() - WEEK_HOURS * HOUR_MS
    root = "memory:/table"
    rows: list[tuple[str | None, int | None, int | None, bool | None]] = [
        (f"{root}/old", 4, ms - 1, False),
        (f"{root}/live", 4, ms - 1, False),
        (f"{root}/removed", 4, ms - 1, False),
        (f"{root}/orphan", 4, ms - 1, False),
        (f"{root}/orphan", 4, ms, False),
        (f"{root}/young", None, None, False),
        (f"{root}/never there", None, ms - 1, False),
        (f"{root}/_delta_log/00000000000000000000.json", 4, 0, False),
        (f"{root}/../sibling/x", 4, 0, False),
        (f"{root}/a//b", 4, 0, False),
        ("memory:/table2/x", 4, 0, False),
        (None, 4, 0, False),
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    listed = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, TREE_SCHEMA, strict=True)], TREE_SCHEMA.names
    )
    inventory = Inventory(rows=listed, roots=(f"{root}/",))
    assert table.vacuum(inventory=lambda: inventory, dry_run=True).plan.paths == ["never there", "old"]
    table.vacuum(inventory=lambda: inventory)
    assert table.files() == {"orphan", "live", "removed", "young"}
    assert table.store.head(HINT_PATH) is None
    assert table.latest().version == 5
