"""Races B: winners that change which rows a condition finds."""

from __future__ import annotations

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
)
from anabranch.predicates.expressions import Unknown
from anabranch.transactions.proposed_commit import Operation
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, InsertSelect, Update
from transactions.table_on_memory import TestClock

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]
FIVE_OR_MORE = Where("v", ">=", 5)


def key(value: int) -> Where:
    return Where("k", "=", value)


def set_v(value: int) -> Change:
    return Change("v", value, False)


@BOTH_LEVELS
def test_an_update_moves_a_row_into_the_condition(level: str) -> None:
    """Covers race 15."""
    error = Scene(level, SIX).meets(Delete(FIVE_OR_MORE), Update(key(0), set_v(9)))
    assert isinstance(error, ConcurrentAppendException)
    assert error.reason is ConflictReason.ROW_LEVEL_CHANGES


@BOTH_LEVELS
def test_an_update_moves_a_row_out_of_the_condition(level: str) -> None:
    """Covers race 16: for one who changes the row, and for one who only reads it."""
    winner = Update(key(5), set_v(0))
    assert isinstance(Scene(level, SIX).meets(Delete(FIVE_OR_MORE), winner), ConcurrentDeleteDeleteException)
    reader = InsertSelect(FIVE_OR_MORE, set_v(-1))
    assert isinstance(Scene(level, SIX).meets(reader, winner), ConcurrentDeleteReadException)


@BOTH_LEVELS
def test_a_row_that_was_looked_at_and_does_not_match(level: str) -> None:
    """Covers race 17."""
    scene = Scene(level, SIX)
    assert scene.meets(Delete(FIVE_OR_MORE), Update(key(0), set_v(1))) is None
    assert scene.rows == [Row(0, 1), *SIX[1:5]]


def test_a_matching_insert() -> None:
    """Covers race 18: the row survives under WriteSerializable."""
    winner = Insert((Row(9, 9),))
    error = Scene("Serializable", SIX).meets(Delete(FIVE_OR_MORE), winner)
    assert isinstance(error, ConcurrentAppendException)
    scene = Scene("WriteSerializable", SIX)
    assert scene.meets(Delete(FIVE_OR_MORE), winner) is None
    assert set(keys(scene)) == {0, 1, 2, 3, 4, 9}


@BOTH_LEVELS
@pytest.mark.parametrize("manner", [Manner(), Manner(statistics="counts"), Manner(reevaluates=False)], ids=str)
def test_an_insert_that_does_not_match(level: str, manner: Manner) -> None:
    """Covers races 19 and 33: statistics decide, or the condition for the new rows."""
    scene = Scene(level, SIX, manner=manner)
    assert scene.meets(Delete(FIVE_OR_MORE), Insert((Row(9, 0),))) is None


def test_neither_statistics_nor_a_repeatable_condition() -> None:
    """Covers race 33: in doubt there is a conflict."""
    blind = Manner(statistics="counts", reevaluates=False)
    error = Scene("Serializable", SIX, manner=blind).meets(Delete(FIVE_OR_MORE), Insert((Row(9, 0),)))
    assert error is not None
    assert error.reason is ConflictReason.WITHOUT_HINT


@BOTH_LEVELS
@pytest.mark.parametrize(
    "winner", [InsertSelect(key(5), Change("k", 3, True)), Merge((Row(8, 8),))], ids=["INSERT SELECT", "MERGE"]
)
def test_an_insert_that_read_the_table_first(level: str, winner: InsertSelect | Merge) -> None:
    """Covers races 20 and 21: not blind, so ours may not be ordered before it."""
    assert isinstance(Scene(level, SIX).meets(Update(FIVE_OR_MORE, set_v(0)), winner), ConcurrentAppendException)


def test_delete_of_every_row() -> None:
    """Covers race 22."""
    blind, update = Insert((Row(9, 9),)), Update(key(0), set_v(1))
    assert Scene("WriteSerializable", SIX).meets(Delete(EVERY), blind) is None
    error = Scene("Serializable", SIX).meets(Delete(EVERY), blind)
    assert error is not None
    for level in LEVELS:
        assert isinstance(Scene(level, SIX).meets(Delete(EVERY), update), ConcurrentAppendException)


@BOTH_LEVELS
def test_a_condition_that_is_null_for_the_new_row(level: str) -> None:
    """Covers race 23."""
    assert Scene(level, SIX).meets(Delete(FIVE_OR_MORE), Insert((Row(9, None),))) is None


@BOTH_LEVELS
def test_a_condition_over_other_rows(level: str) -> None:
    """Covers race 24: `NOT IN (SELECT … FROM the table)` is not of one row, so every new row counts."""
    scene = Scene(level, SIX)
    ours = scene.begins(Delete(key(0)))
    ours.transaction.record_scan(Unknown("v NOT IN (SELECT v FROM t)", opaque=True))
    scene.lands(InsertSelect(key(1), Change("v", 5, True)))
    error = scene.ends(ours)
    assert isinstance(error, ConcurrentAppendException)
    assert error.reason is ConflictReason.WHOLE_TABLE_READ


@BOTH_LEVELS
def test_write_skew(level: str) -> None:
    """Covers race 25: two doctors leave, each because the other one stays."""
    doctors = [Row(0, 0), Row(1, 0)]
    leave = [Update(key(doctor), set_v(1), unless=Where("v", "=", 1)) for doctor in (0, 1)]
    assert Scene(level, doctors).meets(*leave) is not None


@BOTH_LEVELS
def test_write_skew_of_three(level: str) -> None:
    """Covers race 26: each of three depends on the next."""
    ring = [Update(key(index), set_v(10 + index), unless=Where("v", "=", 10 + (index + 1) % 3)) for index in range(3)]
    scene = Scene(level, SIX[:1], SIX[1:2], SIX[2:3])
    first, second, third = map(scene.begins, ring)
    assert scene.ends(first) is None
    assert scene.ends(second) is None
    assert isinstance(scene.ends(third), ConcurrentAppendException)


@BOTH_LEVELS
def test_changed_away_and_back(level: str) -> None:
    """Covers race 27: the row looks the same and is another, so this is a conflict, though a needless one."""
    assert Scene(level, SIX).meets(Delete(key(5)), Update(key(5), set_v(0)), Update(key(5), set_v(5))) is not None


@BOTH_LEVELS
def test_a_phantom_that_came_and_went(level: str) -> None:
    """Covers race 28: only what is there in the end counts."""
    phantom = Insert((Row(9, 9),))
    assert Scene(level, SIX).meets(Delete(FIVE_OR_MORE), phantom, Delete(key(9))) is None
    beside = Insert((Row(8, 0), Row(9, 9)))
    assert Scene(level, SIX).meets(Delete(FIVE_OR_MORE), beside, Delete(key(9))) is None


@BOTH_LEVELS
def test_a_condition_that_is_not_deterministic(level: str) -> None:
    """Covers race 29: every change in the files that it opened is a conflict, as without vectors."""
    files_only = Manner(names_rows=False, reevaluates=False)
    scene = Scene(level, SIX, manner=files_only)
    ours = scene.begins(Delete(Where("k", "=", 0, is_predicate=False)))
    scene.lands(Delete(key(5)))
    assert isinstance(scene.ends(ours), ConcurrentDeleteReadException)


@BOTH_LEVELS
def test_bounds_of_a_file_with_a_vector(level: str) -> None:
    """Covers race 34: they still include a hidden row; the condition is evaluated for the rows that are left."""
    scene = Scene(level, SIX)
    ours = scene.begins(Delete(FIVE_OR_MORE))
    scene.lands(Merge((Row(8, 0), Row(9, 9))), Delete(key(9)))
    assert scene.ends(ours) is None
    assert set(keys(scene)) == {0, 1, 2, 3, 4, 8}


def test_telling_takes_too_long() -> None:
    """Covers race 88, fault F34: a conflict with that reason, and nothing is written."""
    scene = Scene("Serializable", SIX)
    ours = scene.begins(Delete(FIVE_OR_MORE))
    scene.lands(Update(key(0), set_v(9)))
    clock: TestClock = scene.played.clock
    calls = iter(range(1_000_000))
    clock.now_ms = lambda: 10**13 + next(calls) * 700_000  # type: ignore[method-assign]
    error = scene.ends(ours)
    assert error is not None
    assert error.reason is ConflictReason.ALLOTTED_TIME_EXCEEDED
    assert scene.version == 1


def test_operation_names() -> None:
    """The log says who won, in Delta's words."""
    scene = Scene("Serializable", SIX)
    error = scene.meets(Delete(FIVE_OR_MORE), Merge((Row(9, 9),)))
    assert error is not None
    assert error.operation == Operation(name="MERGE").name
