"""Races C: MERGE. What it read is what its source finds in the table."""

from __future__ import annotations

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
)
from anabranch.predicates.expressions import Unknown
from concurrency.conditions import Change, Row, Where
from concurrency.executor import by_file
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, Update

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]


def key(value: int) -> Where:
    return Where("k", "=", value)


@BOTH_LEVELS
def test_two_upserts_of_one_new_key(level: str) -> None:
    """Covers race 36: the key is there once."""
    scene = Scene(level, SIX)
    assert isinstance(scene.meets(Merge((Row(9, 1),)), Merge((Row(9, 2),))), ConcurrentAppendException)
    assert keys(scene)[9] == 1


def test_a_blind_insert_of_the_key() -> None:
    """Covers race 37: under WriteSerializable the key is there twice, since MERGE is ordered before the INSERT."""
    insert, merge = Insert((Row(9, 1),)), Merge((Row(9, 2),))
    assert isinstance(Scene("Serializable", SIX).meets(merge, insert), ConcurrentAppendException)
    scene = Scene("WriteSerializable", SIX)
    assert scene.meets(merge, insert) is None
    assert keys(scene)[9] == 2


@BOTH_LEVELS
def test_disjoint_keys_in_the_same_files(level: str) -> None:
    """Covers race 38."""
    scene = Scene(level, SIX)
    assert scene.meets(Merge((Row(0, 10), Row(8, 8))), Merge((Row(1, 11), Row(9, 9)))) is None
    assert {(row.k, row.v) for row in scene.rows} >= {(0, 10), (1, 11), (8, 8), (9, 9)}


@BOTH_LEVELS
def test_a_matched_row_is_deleted(level: str) -> None:
    """Covers race 39."""
    assert isinstance(Scene(level, SIX).meets(Merge((Row(3, 9),)), Delete(key(3))), ConcurrentDeleteDeleteException)


@BOTH_LEVELS
def test_a_matched_row_that_was_left_alone_is_changed(level: str) -> None:
    """It was read all the same: its value decided that it was left alone."""
    merge = Merge((Row(3, 1),), matched="update below", inserts=False)
    scene = Scene(level, SIX)
    ours = scene.begins(Merge((Row(3, 1), Row(0, 9)), matched="update below"))
    scene.lands(Update(key(3), Change("v", 0, False)))
    assert scene.ends(ours) is not None
    assert scene.begins(merge).plan.deletes


def test_a_row_for_when_matched_only() -> None:
    """Covers race 40."""
    merge, insert = Merge((Row(9, 2),), inserts=False), Insert((Row(9, 1), Row(8, 1)))
    busy = Merge((Row(9, 2), Row(0, 5)), inserts=False)
    assert isinstance(Scene("Serializable", SIX).meets(busy, insert), ConcurrentAppendException)
    assert Scene("WriteSerializable", SIX).meets(busy, insert) is None
    assert not Scene("Serializable", SIX).begins(merge).actions


def test_a_row_for_when_not_matched_by_source() -> None:
    """Covers race 41."""
    merge = Merge((Row(0, 9),), not_in_source=Where("v", ">=", 5))
    assert isinstance(Scene("Serializable", SIX).meets(merge, Insert((Row(8, 7),))), ConcurrentAppendException)
    assert Scene("Serializable", SIX).meets(merge, Insert((Row(8, 1),))) is None


@BOTH_LEVELS
def test_the_source_is_lost(level: str) -> None:
    """Covers race 42, as far as it shows here: a condition that cannot be evaluated any more is a conflict."""
    scene = Scene(level, SIX)
    ours = scene.begins(Merge((Row(0, 9), Row(8, 8))))
    transaction = scene.played.table.begin(ours.transaction.operation)
    adds = scene.played.version(transaction.snapshot).adds
    transaction.record_scan(
        Unknown("source.k = target.k"),
        files=[add.key for add in adds],
        rows={adds[0].key: by_file([(0, 0)], frozenset({0}))[0]},
        reevaluate=lambda rows: [None for _ in rows],
    )
    scene.lands(Merge((Row(9, 9),)))
    with pytest.raises(ConcurrentAppendException):
        transaction.commit(ours.actions, deleted_rows=ours.deleted_rows)


@BOTH_LEVELS
def test_the_source_reads_the_table(level: str) -> None:
    """Covers race 43: one scan more."""
    scene = Scene(level, SIX)
    ours = scene.begins(Merge((Row(0, 9),)))
    adds = scene.played.version(ours.transaction.snapshot).adds
    five = Where("v", "=", 5)
    ours.transaction.record_scan(
        five.predicate,
        files=[add.key for add in adds],
        rows={adds[0].key: by_file([(0, 5)], frozenset({0}))[0]},
        reevaluate=scene.played.evaluator(five),
    )
    scene.lands(Update(key(5), Change("v", 0, False)))
    with pytest.raises(ConcurrentDeleteReadException) as raised:
        ours.commit()
    assert raised.value.example_keys == ("k = 5, v = 5",)


def test_an_insert_only_merge_is_not_blind() -> None:
    """Covers race 44."""
    scene = Scene("WriteSerializable", SIX)
    scene.lands(Merge((Row(9, 9),)))
    assert scene.commit()[0]["commitInfo"]["isBlindAppend"] is False


@BOTH_LEVELS
def test_duplicate_rows_in_the_target(level: str) -> None:
    """Covers race 45: each is a row of its own."""
    scene = Scene(level, [Row(1, 1), Row(1, 1)], [Row(1, 1)])
    assert scene.meets(Merge((Row(1, 5),)), Delete(Where("v", ">=", 7))) is None
    assert scene.rows == [Row(1, 5)] * 3
    scene = Scene(level, [Row(1, 1), Row(1, 2)], [Row(1, 3)])
    assert scene.meets(Merge((Row(1, 5),)), Delete(Where("v", "=", 2))) is not None
