"""Race 75 and fault F58 for a DROP FEATURE: a winner that uses the feature is always a conflict."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.errors.commits import (
    ConflictReason,
    DeltaConcurrentModificationException,
    InvalidCommitError,
    MetadataChangedException,
)
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transactions.commit.commit_attempt import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from transactions.log_linter import lint
from transactions.table_on_memory import Writer, add, created, features, metadata, remove, rival_of, with_properties

BASE = ("appendOnly", "invariants")


def uses_vectors(commit: Commit) -> str | None:
    adds = (action for action in commit.actions if isinstance(action, AddFile) and action.deletion_vector is not None)
    return next((f"a vector of {action.path}" for action in adds), None)


def table() -> tuple[Writer, AddFile]:
    file = add("a")
    return created(file, protocol=features(*BASE, "deletionVectors")), file


def test_a_new_vector_stops_the_drop() -> None:
    first, file = table()
    ours = first.begin("DROP FEATURE")
    rival = rival_of(first)
    rival.append(add("b"))
    rival.commit([remove(file), add("a", vector="v")], name="DELETE")
    with pytest.raises(DeltaConcurrentModificationException, match="a vector of a") as raised:
        ours.commit([features(*BASE)], conflicts_with=uses_vectors)
    assert (raised.value.reason, raised.value.version) == (ConflictReason.RULED_OUT, 2)
    assert rival.table.snapshots.latest().protocol == features(*BASE, "deletionVectors")


def test_commits_that_do_not_use_the_feature_are_stood_behind() -> None:
    first, file = table()
    ours = first.begin("DROP FEATURE")
    rival = rival_of(first)
    rival.append(add("b"))
    rival.commit([remove(file), add("c")], name="UPDATE")
    committed = ours.commit([features(*BASE)], conflicts_with=uses_vectors)
    assert committed.version == 3
    assert committed.snapshot.protocol.writer_features == sorted(BASE)
    lint(first.store)


def test_protection_ends_where_the_drop_lands() -> None:
    """The bound is computed at each attempt; a drop that is committed later protects more."""
    first, _ = table()
    before = first.table.snapshots.latest().metadata
    ours = first.begin("DROP FEATURE")
    rival_of(first).append(add("b"))
    bound = msgspec.structs.replace(before, configuration={PROTECTED_BEFORE: "1"})
    committed = ours.commit([features(*BASE, CHECKPOINT_PROTECTION), bound], conflicts_with=uses_vectors)
    assert committed.version == 2
    assert committed.snapshot.metadata.configuration == {PROTECTED_BEFORE: "2"}
    again = rival_of(first).begin("SET TBLPROPERTIES")
    kept = with_properties(committed.snapshot.metadata, targetFileSize="1mb")
    assert again.commit([kept]).snapshot.properties.checkpoint_protection_version == 2


def test_two_drops_at_once() -> None:
    """The second run starts from the beginning, and then protects the versions that the first left."""
    first, _ = table()
    before = first.table.snapshots.latest().metadata
    bound = msgspec.structs.replace(before, configuration={PROTECTED_BEFORE: "1"})
    ours = first.begin("DROP FEATURE")
    rival_of(first).commit([features(*BASE, CHECKPOINT_PROTECTION), bound], name="DROP FEATURE")
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit([features("appendOnly", "deletionVectors", CHECKPOINT_PROTECTION), bound])


def test_a_change_of_properties_in_between_is_a_conflict() -> None:
    first, _ = table()
    before = first.table.snapshots.latest().metadata
    ours = first.begin("DROP FEATURE")
    rival_of(first).commit([with_properties(before, enableDeletionVectors="true")], name="SET TBLPROPERTIES")
    with pytest.raises(MetadataChangedException):
        ours.commit([features(*BASE), msgspec.structs.replace(metadata(), configuration={PROTECTED_BEFORE: "1"})])


def test_tombstones_may_name_files_of_vectors_and_no_others() -> None:
    first, _ = table()
    name = "ab/deletion_vector_01234567-89ab-cdef-0123-456789abcdef.bin"
    committed = first.commit([RemoveFile(path=name, deletion_timestamp=1, data_change=False)], name="Deletion Vector")
    assert committed.snapshot.files.count == 1
    assert committed.snapshot.tombstones()["path"].to_pylist() == [name]
    lint(first.store)
    for path in ("b", "deletion_vector_1.bin", f"{name}x"):
        with pytest.raises(InvalidCommitError, match="not in version"):
            first.commit([RemoveFile(path=path, deletion_timestamp=1, data_change=False)])
