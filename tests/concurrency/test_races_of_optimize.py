"""Races D: commits that change no row, beside commits that do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyroaring import BitMap64

from anabranch.errors.commits import ConcurrentAppendException, ConcurrentDeleteDeleteException, ConflictReason
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from anabranch.transactions.rows.row_map import MOVED_TO_TAG
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, InsertSelect, Optimize, Update
from transactions.table_on_memory import add, created, date_is, features, metadata, remove, rival_of

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]
FOREIGN = Optimize(leaves_word=False)
VECTORS = features("deletionVectors", "appendOnly", "invariants")


def key(value: int) -> Where:
    return Where("k", "=", value)


@BOTH_LEVELS
@pytest.mark.parametrize("rows_per_file", [100, 4, 1])
def test_delete_loses_to_optimize(level: str, rows_per_file: int) -> None:
    """Covers race 47: the marks follow the rows."""
    scene = Scene(level, SIX[:3], SIX[3:])
    ours = scene.begins(Delete(Where("v", ">=", 2)))
    scene.lands(Optimize(rows_per_file=rows_per_file))
    assert scene.ends(ours) is None
    assert set(keys(scene)) == {0, 1}


@BOTH_LEVELS
@pytest.mark.parametrize("rows_per_file", [100, 4])
def test_optimize_loses_to_delete(level: str, rows_per_file: int) -> None:
    """Covers races 48 and 60: the output hides what was deleted meanwhile."""
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Optimize(rows_per_file=rows_per_file), Delete(key(1)), Delete(key(4))) is None
    assert set(keys(scene)) == {0, 2, 3, 5}
    names = [action["add"]["path"] for action in scene.commit() if "add" in action]
    assert len(names) == (1 if rows_per_file == 100 else 2)
    assert scene.commit()[0]["commitInfo"]["isolationLevel"] == "SnapshotIsolation"


@BOTH_LEVELS
def test_the_sources_hid_rows_already(level: str) -> None:
    """Covers race 49: positions in the output count shown rows only."""
    scene = Scene(level, SIX[:4], SIX[4:])
    scene.lands(Delete(key(1)), Delete(key(4)))
    delete, optimize = scene.begins(Delete(key(3))), scene.begins(Optimize())
    scene.lands(Update(key(2), Change("v", 9, False)))
    assert scene.ends(optimize) is None
    assert scene.ends(delete) is None
    assert set(keys(scene)) == {0, 2, 5}


@BOTH_LEVELS
def test_a_source_is_gone(level: str) -> None:
    """Covers race 50: the bin is dropped, and nothing is raised."""
    scene = Scene(level, SIX[:3], SIX[3:])
    ours = scene.begins(Optimize())
    scene.lands(Delete(Where("k", "<", 3)))
    assert ours.commit() is None
    assert scene.version == 1


@BOTH_LEVELS
def test_two_optimizes_of_overlapping_files(level: str) -> None:
    """Covers race 51: every row is there once, and who came second leaves its bin alone."""
    scene = Scene(level, SIX[:2], SIX[2:4], SIX[4:])
    second = scene.begins(Optimize((1, 2)))
    scene.lands(Optimize((0, 1)))
    assert scene.ends(second) is None
    assert scene.rows == SIX
    assert scene.version == 1


@BOTH_LEVELS
def test_only_the_bins_in_the_way_are_dropped(level: str) -> None:
    """The bins of an OPTIMIZE that are left are committed, and the others returned."""
    scene = Scene(level, SIX[:2], SIX[2:4], SIX[4:])
    one, two = scene.begins(Optimize((0,))), scene.begins(Optimize((1, 2)))
    transaction = scene.played.table.begin(Operation(name="OPTIMIZE"))
    scene.lands(Delete(Where("k", "<", 2)))
    landed = transaction.commit_bins((*one.actions, *two.actions), (*one.bins, *two.bins))
    assert landed is not None
    assert landed.dropped_bins == one.bins
    assert scene.rows == SIX[2:]
    assert len([action for action in scene.commit() if "remove" in action]) == 2


@BOTH_LEVELS
def test_two_optimizes_after_one_another(level: str) -> None:
    """Covers race 52: marks go through both."""
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Delete(key(4)), Optimize(rows_per_file=2), Optimize((0, 2), rows_per_file=3)) is None
    assert set(keys(scene)) == {0, 1, 2, 3, 5}


@BOTH_LEVELS
def test_deletes_and_optimizes_in_turns(level: str) -> None:
    """Covers race 53: DELETE, OPTIMIZE, DELETE, OPTIMIZE, and then ours."""
    winners = (Delete(key(0)), Optimize(rows_per_file=4), Update(key(3), Change("v", 3, False)), Optimize())
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Delete(key(4)), *winners) is None
    assert set(keys(scene)) == {1, 2, 3, 5}
    assert Scene(level, SIX[:3], SIX[3:]).meets(Delete(key(3)), *winners) is not None


def test_optimize_swallows_an_append() -> None:
    """Covers race 54: a DELETE that is ordered before the append deletes none of its rows."""
    for optimize in (Optimize(rows_per_file=7), FOREIGN):
        scene = Scene("WriteSerializable", SIX)
        error = scene.meets(Delete(Where("v", ">=", 4)), Insert((Row(8, 8), Row(9, 9))), optimize)
        if optimize.leaves_word:
            assert error is None
            assert set(keys(scene)) == {0, 1, 2, 3, 8, 9}
        else:
            assert isinstance(error, ConcurrentDeleteDeleteException)
            assert error.reason is ConflictReason.UNMAPPED_REWRITE


@BOTH_LEVELS
def test_a_bin_without_a_row_map(level: str) -> None:
    """Covers race 55, without row ids: ZORDER BY drops the bin."""
    scene = Scene(level, SIX[:3], SIX[3:])
    ours = scene.begins(FOREIGN)
    scene.lands(Delete(key(1)))
    assert ours.commit() is None
    assert set(keys(scene)) == {0, 2, 3, 4, 5}


@BOTH_LEVELS
def test_purge_and_delete_of_one_file(level: str) -> None:
    """Covers race 56: REORG … APPLY (PURGE) is an OPTIMIZE of files that hide rows."""
    for purge_first in (True, False):
        scene = Scene(level, SIX)
        scene.lands(Delete(key(1)))
        purge, delete = Optimize((0,)), Delete(key(3))
        ours, winner = (delete, purge) if purge_first else (purge, delete)
        assert scene.meets(ours, winner) is None
        assert set(keys(scene)) == {0, 2, 4, 5}


@BOTH_LEVELS
def test_another_engines_compaction(level: str) -> None:
    """Covers race 57: the condition finds the rows again, if the new files hold nothing but what ours had seen."""
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(Delete(Where("v", ">=", 4)), FOREIGN) is None
    assert set(keys(scene)) == {0, 1, 2, 3}
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(InsertSelect(key(4), Change("k", 4, True)), FOREIGN) is None
    scene = Scene(level, SIX[:3], SIX[3:])
    error = scene.meets(Delete(Where("v", ">=", 4)), Merge((Row(9, 0),)), FOREIGN)
    assert isinstance(error, ConcurrentDeleteDeleteException)
    assert error.reason is ConflictReason.UNMAPPED_REWRITE
    scene = Scene(level, SIX[:3], SIX[3:], manner=Manner(reevaluates=False))
    assert scene.meets(Delete(Where("v", ">=", 4)), FOREIGN) is not None


FORGED = {
    "no JSON": "{",
    "another shape": '{"path": 1}',
    "too few rows": '[["f2.parquet",0,2]]',
    "too many rows": '[["f2.parquet",0,4]]',
    "negative": '[["f2.parquet",-1,3]]',
    "overlapping": '[["f2.parquet",0,2],["f2.parquet",1,1]]',
    "beyond the end": '[["f2.parquet",4,3]]',
    "another file": '[["f1.parquet",0,3]]',
    "outside the table": '[["../../etc/passwd",0,3]]',
    "huge": '[["f2.parquet",0,99999999999999]]',
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_word_of_where_rows_went(forged: str) -> None:
    """Covers race 58, fault F56's second part: it is not believed, and what it would move counts as gone."""
    scene = Scene("Serializable", SIX[:3], SIX[3:])
    ours = scene.begins(Delete(key(1)))
    scene.lands(Optimize())

    def forge(kind: str, fields: dict[str, Any]) -> None:
        if kind == "remove" and fields["path"] == "f0.parquet":
            assert json.loads(fields["tags"][MOVED_TO_TAG]) == [["f2.parquet", 0, 3]]
            fields["tags"][MOVED_TO_TAG] = forged

    scene.rewrites(1, forge)
    error = scene.ends(ours)
    assert isinstance(error, ConcurrentDeleteDeleteException)
    assert error.reason is ConflictReason.UNMAPPED_REWRITE


def test_a_commit_that_claims_to_move_rows_and_changes_some() -> None:
    """Covers race 59: one file that changes data, and the whole commit is taken to do so."""
    scene = Scene("Serializable", SIX[:3], SIX[3:])
    ours = scene.begins(Delete(key(1)))
    scene.lands(Optimize())

    def mix(kind: str, fields: dict[str, Any]) -> None:
        if kind == "remove" and fields["path"] == "f1.parquet":
            fields["dataChange"] = True

    scene.rewrites(1, mix)
    with pytest.raises(ConcurrentAppendException):
        ours.commit()


def test_partitioned_table() -> None:
    """Covers race 61: rows of one file in one partition, as on any other table."""
    file = add("date=a/file", date="a", rows=10)
    first = created(file, protocol=VECTORS, described=metadata(partition_by=["date"]))

    def deleting(position: int, seed: int) -> Any:
        transaction = rival_of(first, seed=seed).begin("DELETE")
        rows = BitMap64([position])
        transaction.record_scan(
            date_is("a"), files=[file.key], rows={file.key: rows}, reevaluate=lambda rows_of_files: [None]
        )
        actions = hide_rows([RowsOfFile(file=file, positions=rows)], transaction.vectors, removed_at_ms=0)
        return lambda: transaction.commit(actions, deleted_rows={file.key: rows})

    one, other, again = deleting(1, 5), deleting(2, 6), deleting(2, 7)
    one()
    other()
    with pytest.raises(ConcurrentDeleteDeleteException) as raised:
        again()
    assert raised.value.where == "partition date=a"
    (live,) = first.table.snapshots.latest().files.to_actions()
    assert live.deletion_vector is not None
    assert live.deletion_vector.cardinality == 2


@BOTH_LEVELS
def test_restore_brings_rows_back(level: str) -> None:
    """Covers race 62: rows that are back are new rows."""
    for condition, conflicts in ((Where("v", ">=", 4), True), (key(0), False)):
        scene = Scene(level, SIX)
        scene.lands(Delete(key(5)))
        ours = scene.begins(Delete(condition))
        restore = scene.played.table.begin(Operation(name="RESTORE"))
        assert restore.snapshot is not None
        restore.record_whole_table()
        (live,) = restore.snapshot.files.to_actions()
        (before,) = scene.played.table.snapshots.at_version(0).files.to_actions(data_change=True)
        restore.commit([remove(live), before])
        if conflicts:
            with pytest.raises(ConcurrentAppendException):
                ours.commit()
        else:
            ours.commit()
            assert set(keys(scene)) == {1, 2, 3, 4, 5}


@BOTH_LEVELS
def test_row_ids_stay_with_the_file(level: str) -> None:
    """Covers race 83: a rebased file keeps its row ids and commit version, also where rows were moved."""
    scene = Scene(level, SIX[:3], SIX[3:], manner=Manner(tracks_rows=True))
    ours = scene.begins(Delete(key(4)))
    scene.lands(Delete(key(3)), Optimize())
    (output,) = [action["add"] for action in scene.commit() if "add" in action]
    assert scene.ends(ours) is None
    (merged,) = [action["add"] for action in scene.commit() if "add" in action]
    assert merged["path"] == output["path"]
    assert (merged["baseRowId"], merged["defaultRowCommitVersion"]) == (output["baseRowId"], 2)
