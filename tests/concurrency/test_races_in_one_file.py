"""Races A: statements that change rows of one file."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import ConcurrentAppendException, ConcurrentDeleteDeleteException, ConflictReason
from anabranch.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Statement, Update
from transactions.table_on_memory import add, created, features, id_is, rival_of

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]


def key(value: int) -> Where:
    return Where("k", "=", value)


def set_v(value: int) -> Change:
    return Change("v", value, False)


@BOTH_LEVELS
def test_deletes_of_different_rows(level: str) -> None:
    """Covers race 1: both commit, and the vector is the union."""
    scene = Scene(level, SIX)
    assert scene.meets(Delete(key(0)), Delete(key(1))) is None
    assert set(keys(scene)) == {2, 3, 4, 5}
    assert scene.hidden() == 2


@BOTH_LEVELS
def test_the_same_row_deleted_twice(level: str) -> None:
    """Covers race 2."""
    error = Scene(level, SIX).meets(Delete(key(0)), Delete(key(0)))
    assert isinstance(error, ConcurrentDeleteDeleteException)
    assert error.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert error.example_keys == ("k = 0, v = 0",)
    assert (error.version, error.read_version, error.operation) == (1, 0, "DELETE")


@BOTH_LEVELS
def test_updates_of_different_rows(level: str) -> None:
    """Covers race 3: two new images."""
    scene = Scene(level, SIX)
    assert scene.meets(Update(key(0), set_v(10)), Update(key(1), set_v(11))) is None
    assert {row.v for row in scene.rows} == {10, 11, 2, 3, 4, 5}


@BOTH_LEVELS
def test_updates_of_one_row_in_different_columns(level: str) -> None:
    """Covers race 4: no update is lost."""
    error = Scene(level, SIX).meets(Update(key(0), set_v(10)), Update(Where("v", "=", 0), Change("k", 9, False)))
    assert isinstance(error, ConcurrentDeleteDeleteException)


@BOTH_LEVELS
@pytest.mark.parametrize("swapped", [False, True])
def test_update_and_delete_of_one_row(level: str, swapped: bool) -> None:
    """Covers race 5. Rows that an UPDATE added are reported before rows that it deleted."""
    pair: list[Statement] = [Update(key(2), set_v(10)), Delete(key(2))]
    ours, winner = reversed(pair) if swapped else pair
    kind = ConcurrentAppendException if swapped else ConcurrentDeleteDeleteException
    assert isinstance(Scene(level, SIX).meets(ours, winner), kind)


@BOTH_LEVELS
def test_rows_hidden_before_both_began(level: str) -> None:
    """Covers race 6: what both found hidden is no overlap."""
    scene = Scene(level, SIX)
    scene.lands(Delete(key(0)))
    assert scene.meets(Delete(Where("k", "<", 2)), Delete(key(3))) is None
    assert set(keys(scene)) == {2, 4, 5}
    assert scene.meets(Delete(key(4)), Delete(Where("k", ">=", 4))) is not None


@BOTH_LEVELS
def test_three_winners(level: str) -> None:
    """Covers race 7: the vector holds the rows of each, once."""
    scene = Scene(level, SIX)
    assert scene.meets(Delete(key(0)), Delete(key(1)), Delete(key(2)), Delete(key(3))) is None
    assert set(keys(scene)) == {4, 5}
    assert scene.hidden() == 4


@BOTH_LEVELS
def test_the_third_of_three_winners_overlaps(level: str) -> None:
    """Covers race 8."""
    error = Scene(level, SIX).meets(Delete(key(0)), Delete(key(1)), Delete(key(2)), Delete(Where("k", "<", 1)))
    assert error is not None
    assert error.version == 3


@BOTH_LEVELS
def test_one_of_three_files_in_conflict(level: str) -> None:
    """Covers race 9: nothing of the loser is in the table."""
    scene = Scene(level, SIX[:2], SIX[2:4], SIX[4:])
    error = scene.meets(Update(Where("v", ">=", 1), set_v(7)), Delete(key(2)))
    assert error is not None
    assert error.where == "file f1.parquet"
    assert scene.rows == [row for row in SIX if row.k != 2]
    assert scene.version == 1


@BOTH_LEVELS
def test_a_file_that_a_winner_empties(level: str) -> None:
    """Covers race 10: only who changed rows of it is in the way."""
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Delete(key(1)), Delete(Where("k", "<", 3))) is not None
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Delete(Where("v", "=", 4, is_predicate=False)), Delete(Where("k", "<", 3))) is None
    assert set(keys(scene)) == {3, 5}


@BOTH_LEVELS
def test_together_they_empty_a_file(level: str) -> None:
    """Covers race 11: a remove, and no add with a vector of all rows."""
    scene = Scene(level, SIX)
    assert scene.meets(Delete(Where("k", "<", 3)), Delete(Where("k", ">=", 3))) is None
    assert [kind for action in scene.commit() for kind in action] == ["commitInfo", "remove"]
    assert scene.rows == []


@BOTH_LEVELS
def test_a_union_too_large_for_the_log(level: str) -> None:
    """Covers race 12: both vectors are in the log, their union in a file."""
    rows = [Row(number, number * 7919 % 40) for number in range(4_000)]
    scene = Scene(level, rows)
    running = scene.begins(Delete(Where("v", "=", 1)))
    scene.lands(Delete(Where("v", "=", 2)))
    assert [action["add"]["deletionVector"]["storageType"] for action in scene.commit() if "add" in action] == ["i"]
    assert scene.ends(running) is None
    (vector,) = [action["add"]["deletionVector"] for action in scene.commit() if "add" in action]
    assert (vector["storageType"], vector["cardinality"]) == ("u", 200)
    assert len(scene.rows) == 3_800


def test_positions_beyond_two_billion() -> None:
    """Covers race 13."""
    huge = add("huge", rows=5_000_000_000)
    first = created(huge, protocol=features("deletionVectors", "appendOnly", "invariants"))
    for landed, positions in enumerate([BitMap64([2**31 + 5]), BitMap64([2**32 + 7]), BitMap64([2**31 + 5])]):
        ours = rival_of(first, seed=landed + 2).table.begin_at(
            first.begin("DELETE").operation, snapshot=first.table.snapshots.at_version(0)
        )
        ours.record_scan(id_is(5), files=[huge.key], rows={huge.key: positions})
        actions = hide_rows([RowsOfFile(file=huge, positions=positions)], ours.vectors, removed_at_ms=0)
        if landed < 2:
            ours.commit(actions, deleted_rows={huge.key: positions})
        else:
            with pytest.raises(ConcurrentDeleteDeleteException) as raised:
                ours.commit(actions, deleted_rows={huge.key: positions})
            assert raised.value.example_keys == ("row 2147483653 of huge",)
    (live,) = first.table.snapshots.latest().files.to_actions()
    assert ours.vectors.hidden([live]) == [BitMap64([2**31 + 5, 2**32 + 7])]


@BOTH_LEVELS
def test_vectors_of_attempts_that_lost(level: str) -> None:
    """Covers race 86 in memory: their files are left over, and no commit names them."""
    scene = Scene(level, [Row(number, number * 7919 % 20) for number in range(3_000)])
    running = scene.begins(Delete(Where("v", "<", 4)))
    winners = [Delete(Where("v", "=", value)) for value in (9, 8, 7)]
    assert scene.ends_late(running, *winners) is None
    assert scene.version == 4
    files = [file.path for file in scene.played.store.list_tree() if "deletion_vector" in file.path]
    log = b"".join(scene.played.store.read(commit_path(version)) for version in range(5))
    named = {vector.path_or_inline_dv for vector in _vectors_of(log) if vector.storage_type == "u"}
    assert len(files) == 7, "one of each winner, and of ours one when it was begun and one for each attempt after it"
    assert len(named) == 4
    assert scene.hidden() == 1_050


def _vectors_of(log: bytes) -> list[DeletionVectorDescriptor]:
    return [
        action.deletion_vector
        for action in parse_actions(log)
        if isinstance(action, AddFile) and action.deletion_vector is not None
    ]


@BOTH_LEVELS
def test_change_files_of_a_commit_that_was_rebased(level: str) -> None:
    """Covers race 82 in memory: they describe the rows of ours, and do not depend on the winner."""
    scene = Scene(level, SIX)
    running = scene.begins(Delete(key(0)))
    scene.lands(Delete(key(1)))
    change = AddCDCFile(path="_change_data/ours", partition_values={}, size=1, data_change=False)
    running.transaction.commit([*running.actions, change], deleted_rows=running.deleted_rows)
    assert [action["cdc"] for action in scene.commit() if "cdc" in action] == [
        {"path": "_change_data/ours", "partitionValues": {}, "size": 1, "dataChange": False}
    ]
    assert scene.hidden() == 2


@BOTH_LEVELS
def test_a_vector_of_a_winner_that_cannot_be_read(level: str) -> None:
    """Covers race 14: an error, and never "no conflict"."""
    scene = Scene(level, [Row(number, number * 7919 % 3) for number in range(3_000)])
    running = scene.begins(Delete(Where("v", "=", 1)))
    scene.lands(Delete(Where("v", "=", 2)))
    for file in scene.played.store.list_tree():
        if "deletion_vector" in file.path:
            data = bytearray(scene.played.store.read(file.path))
            data[len(data) // 2] ^= 1
            scene.played.store.put(file.path, bytes(data))
    with pytest.raises(DeltaError, match="vector"):
        running.commit()
    assert scene.played.store.head("_delta_log/00000000000000000002.json") is None
