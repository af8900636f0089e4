"""What follows every commit, and what others make of our log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pytest

from anabranch.errors.environment import StorageError
from anabranch.log.cleanup import DAY_MS
from anabranch.protocol.actions import SetTransaction
from anabranch.protocol.log_paths import LAST_CHECKPOINT_PATH, checkpoint_path, checksum_path, commit_path
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.file_tree import Deletion
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from log.log_in_memory import verify_checksum
from transactions.log_linter import lint
from transactions.table_on_memory import (
    PLAIN,
    TestClock,
    add,
    created,
    features,
    metadata,
    remove,
    rival_of,
    with_properties,
    writer,
)


def test_checksum_follows_every_commit() -> None:
    table = created(add("a"))
    table.commit([SetTransaction(app_id="x", version=3), add("b")])
    committed = table.begin("DELETE").commit([remove(add("a"))])

    for version in range(3):
        assert table.store.head(checksum_path(version)) is not None
    assert verify_checksum(table.store, committed.snapshot) == []
    assert committed.txn_id.encode() in table.store.read(checksum_path(2))
    assert lint(table.store) == []


def test_checksum_is_of_our_version_though_others_landed_behind() -> None:
    table = created()
    ours = table.begin()
    rival_of(table).append(add("w"))
    committed = ours.commit([add("a")])
    rival_of(table, seed=7).append(add("w2"))
    assert committed.snapshot.files.count == 2
    assert lint(table.store) == []


def test_checkpoint_every_few_commits() -> None:
    table = created(described=with_properties(metadata(), checkpointInterval="4"))
    for number in range(9):
        table.append(add(f"f{number}"))

    written = [version for version in range(10) if table.store.head(checkpoint_path(version)) is not None]
    assert written == [4, 8]
    assert table.store.head(LAST_CHECKPOINT_PATH) is not None
    snapshot = SnapshotCache(table.store, table.clock).latest()
    assert snapshot.version == 9
    assert snapshot.files.count == 9
    assert snapshot.segment.checkpoint is not None


def test_v2_checkpoint_where_the_table_wants_it() -> None:
    protocol = features("appendOnly", "invariants", "v2Checkpoint")
    described = with_properties(metadata(), checkpointInterval="2", checkpointPolicy="v2")
    table = created(protocol=protocol, described=described)
    table.append(add("a"))
    table.append(add("b"))
    snapshot = SnapshotCache(table.store, table.clock).latest()
    assert snapshot.segment.checkpoint is not None
    assert snapshot.files.count == 2


def test_old_history_goes_after_a_checkpoint() -> None:
    """Covers fault F43: only versions are removed that no reader may read any more, and a failure fails no commit."""
    described = with_properties(metadata(), checkpointInterval="4", logRetentionDuration="interval 10 days")
    described = with_properties(described, deletedFileRetentionDuration="interval 1 days")
    table = created(described=described)
    for number in range(1, 17):
        table.clock.time_ms += DAY_MS
        table.append(add(f"f{number}"))
    left = sorted(file.path for file in table.store.list_from("_delta_log"))
    assert left[0] == checkpoint_path(4)
    assert table.store.head(checksum_path(3)) is None
    for version in range(4, 17):
        assert SnapshotCache(table.store, table.clock).at_version(version).files.count == version


def test_history_stays_where_the_table_says_so() -> None:
    properties = {"checkpointInterval": "2", "logRetentionDuration": "interval 1 weeks"}
    for more in ({"enableExpiredLogCleanup": "false"}, {"requireCheckpointProtectionBeforeVersion": "9"}):
        table = created(described=with_properties(metadata(), **properties, **more))
        for number in range(8):
            table.clock.time_ms += 10 * DAY_MS
            table.append(add(f"f{number}"))
        assert table.store.head(commit_path(0)) is not None


def test_a_clock_that_is_ahead_leaves_the_history(tmp_path: Path) -> None:
    """Covers fault F28: the storage's time of our commit counts."""
    root = str(tmp_path / "t")
    ahead = TestClock(4_000_000_000_000)
    table = DeltaLog(LocalStore(root), ahead, random.Random(1))
    described = with_properties(metadata(), checkpointInterval="2")
    table.begin(Operation(name="CREATE TABLE")).commit([PLAIN, described])
    for number in range(4):
        table.begin(Operation(name="WRITE")).commit([add(f"f{number}")])
    assert table.store.head(commit_path(0)) is not None


def test_clean_up_that_fails_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = TestClock()
    table = writer(Undeletable(clock=clock), clock=clock)
    table.commit([PLAIN, with_properties(metadata(), checkpointInterval="4")], name="CREATE TABLE")
    for number in range(8):
        table.clock.time_ms += 40 * DAY_MS
        table.append(add(f"f{number}"))
    assert table.table.snapshots.latest().version == 8
    assert "its log clean-up failed" in caplog.text


class Undeletable(MemoryStore):
    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return Deletion(failures=(StorageError(root=self.root, path=paths[0], doing="delete", cause="denied"),))


def test_delta_rs_reads_our_log(tmp_path: Path) -> None:
    """Covers race 90, as far as logs go."""
    root = str(tmp_path / "t")
    table = DeltaLog(LocalStore(root), TestClock(), random.Random(1))
    table.begin(Operation(name="CREATE TABLE", parameters={"partitionBy": []})).commit([PLAIN, metadata()])
    late = table.begin(Operation(name="WRITE", parameters={"mode": "Append"}, user_metadata="mine"))
    for number in range(12):
        table.begin(Operation(name="WRITE")).commit([add(f"f{number}")])
    table.begin(Operation(name="DELETE")).commit([remove(add("f0"))], metrics={"numRemovedFiles": 1})
    late.commit([add("late")])

    theirs = deltalake.DeltaTable(root)
    assert theirs.version() == 14
    assert sorted(uri.rpartition("/")[2] for uri in theirs.file_uris()) == sorted(
        ["late", *(f"f{number}" for number in range(1, 12))]
    )
    newest, before = theirs.history(2)
    assert (newest["operation"], newest["userMetadata"]) == ("WRITE", "mine")
    assert newest["readVersion"] == 0
    assert before["operation"] == "DELETE"
    assert deltalake.DeltaTable(root, version=5).version() == 5
