"""RESTORE that commits first: rows come back in files that ours reads, changes or removes."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from anabranch.errors.commits import ConcurrentAppendException, ConcurrentDeleteDeleteException, InvalidCommitError
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.played_table import Manner
from concurrency.scenes import Scene
from concurrency.statements import Delete, Foreign, Insert, InsertSelect, Optimize, ReplaceWhere, Restore, Statement
from transactions.table_on_memory import add, created, features, remove

UNCOUNTED = Manner(statistics="nothing", whole_files=True)
V_IS_2, V_IS_3 = Where("v", "=", 2), Where("v", "=", 3)


def thinned(level: str, manner: Manner) -> Scene:
    """A table whose one file hides the first of its two rows."""
    scene = Scene(level, [Row(1, 2), Row(1, 3)], manner=manner)
    scene.lands(Delete(V_IS_2))
    return scene


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("manner", [Manner(), Manner(whole_files=True), Manner(statistics="nothing")], ids=str)
def test_a_row_that_came_back_outlives_a_delete_of_all_that_its_file_had_shown(level: str, manner: Manner) -> None:
    scene = thinned(level, manner)
    assert scene.meets(Delete(V_IS_3), Restore()) is None
    assert scene.rows == [Row(1, 2)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_came_back_is_not_taken_with_a_file_of_unknown_length(level: str) -> None:
    """No vector can hide "all but this one" of a file without a row count."""
    scene = Scene(level, [Row(1, 2), Row(1, 3)], manner=UNCOUNTED)
    scene.lands(Foreign(Delete(V_IS_2), counts=False))
    assert isinstance(scene.meets(Delete(V_IS_3), Restore()), ConcurrentDeleteDeleteException)
    assert scene.rows == [Row(1, 2), Row(1, 3)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_file_of_unknown_length_goes_whole_behind_a_restore_of_another(level: str) -> None:
    scene = Scene(level, [Row(1, 3)], [Row(2, 2)], manner=UNCOUNTED)
    scene.lands(Delete(V_IS_2))
    assert scene.meets(Delete(V_IS_3), Restore()) is None
    assert scene.rows == [Row(2, 2)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("ours", "error"),
    [
        (Delete(V_IS_2), ConcurrentDeleteDeleteException),
        (ReplaceWhere(EVERY, (Row(9, 9),)), ConcurrentDeleteDeleteException),
        (InsertSelect(V_IS_2, Change("k", 10, True)), ConcurrentAppendException),
    ],
    ids=["DELETE", "overwrite", "INSERT SELECT"],
)
def test_a_row_that_went_and_came_back_is_another_row(level: str, ours: Statement, error: type[Exception]) -> None:
    """Covers race 62: it looks the same in the same place; still one counts as gone and one as new."""
    scene = Scene(level, [Row(1, 2), Row(1, 3)])
    running = scene.begins(ours)
    scene.lands(Delete(V_IS_2))
    assert scene.hidden() == 1
    scene.lands(Restore())
    assert scene.hidden() == 0
    assert type(scene.ends(running)) is error
    assert scene.rows == [Row(1, 2), Row(1, 3)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_went_and_came_back_is_no_conflict_for_who_did_not_read_it(level: str) -> None:
    scene = Scene(level, [Row(1, 2), Row(1, 3)])
    assert scene.meets(Delete(V_IS_3), Delete(V_IS_2), Restore()) is None
    assert scene.rows == [Row(1, 2)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("optimize", [Optimize(), Optimize(ordered=True, rows_per_file=2)], ids=str)
def test_overwrites_and_restores_follow_an_optimize(level: str, optimize: Optimize) -> None:
    """It left word of where the rows went that they take away."""
    scene = Scene(level, [Row(1, 1), Row(2, 2)], [Row(3, 3)])
    assert scene.meets(ReplaceWhere(EVERY, (Row(9, 9),)), optimize) is None
    assert scene.rows == [Row(9, 9)]
    scene = Scene(level, [Row(1, 1), Row(2, 2)], [Row(3, 3)])
    scene.lands(Insert((Row(8, 8),)))
    assert scene.meets(Restore(), optimize) is None
    assert scene.rows == [Row(1, 1), Row(2, 2), Row(3, 3)]


def test_hiding_rows_of_a_file_that_says_no_count_is_refused() -> None:
    """The protocol demands `numRecords` for every file with a vector."""
    file = add("a", ids=None)
    first = created(file, protocol=features("appendOnly", "invariants", "deletionVectors"))
    hidden = add("a", ids=None, vector="v")
    with pytest.raises(InvalidCommitError, match="does not say how many rows the file has"):
        first.begin("DELETE").commit([remove(file), hidden], deleted_rows={file.key: BitMap64([0])})
    first.begin("RESTORE").commit([remove(file), hidden])
