"""Rows that a commit moved without word of where to: another engine's compaction, or one that orders rows."""

from __future__ import annotations

import random

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
)
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.random_histories import Mix, random_history, random_statement
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, InsertSelect, Optimize, Statement, Update

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]
FOREIGN = Optimize(leaves_word=False)
ZORDER = Optimize(leaves_word=False, ordered=True, rows_per_file=2)
COMPACTIONS = pytest.mark.parametrize(
    "compactions", [[FOREIGN], [ZORDER], [FOREIGN, ZORDER], [Optimize(), ZORDER, FOREIGN]]
)
RAISES_LOW = Merge((Row(1, 9), Row(4, 2), Row(7, 7)), matched="update below", tells_changes=True)
"""Changes row 1, reads row 4 and leaves it alone, and inserts row 7."""


def key(value: int) -> Where:
    return Where("k", "=", value)


def set_v(value: int) -> Change:
    return Change("v", value, False)


@BOTH_LEVELS
@COMPACTIONS
@pytest.mark.parametrize(
    "ours",
    [
        Delete(Where("v", ">=", 4)),
        Delete(EVERY),
        Update(key(2), Change("k", 6, True)),
        InsertSelect(key(4), Change("k", 4, True)),
        RAISES_LOW,
        Merge((Row(0, 9), Row(8, 8)), not_in_source=Where("v", ">=", 4), orphans="update"),
        Merge((Row(3, 9),), matched="delete", not_in_source=key(5), tells_changes=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("manner", [Manner(), Manner(statistics="counts"), Manner(whole_files=True)], ids=str)
def test_no_reason_to_refuse(level: str, compactions: list[Statement], ours: Statement, manner: Manner) -> None:
    """No row has changed, so no statement conflicts: after one compaction, and after several."""
    alone = Scene(level, SIX[:3], SIX[3:], manner=manner)
    alone.lands(ours)
    scene = Scene(level, SIX[:3], SIX[3:], manner=manner)
    assert scene.meets(ours, *compactions) is None
    assert scene.rows == alone.rows


@pytest.mark.parametrize("seed", range(150))
def test_compactions_alone_conflict_with_no_statement(seed: int) -> None:
    """Any statement with repeatable conditions, after compactions of every kind and no other winners."""
    rng = random.Random(seed)
    changes = Mix(kinds={"delete": 1, "update": 1, "guarded": 1, "insert select": 1, "merge": 2})
    moves = Mix(kinds={"foreign": 2, "zorder": 1, "optimize": 1, "purge": 1})
    files = random_history(rng).files
    ours = random_statement(rng, changes)
    while isinstance(ours, Merge) and ours.matched == "update below" and not ours.tells_changes:
        ours = random_statement(rng, changes)
    scene = Scene(rng.choice(LEVELS), *files, manner=Manner(statistics="counts"))
    running = scene.begins(ours)
    scene.lands(*(random_statement(rng, moves) for _ in range(rng.randint(1, 3))))
    assert scene.ends(running) is None


@BOTH_LEVELS
@COMPACTIONS
def test_a_row_that_was_read_and_left_alone(level: str, compactions: list[Statement]) -> None:
    """It is followed too: who changes it behind the compaction is in the way, who changes another row is not."""
    cases: list[tuple[Statement, type[Exception], str]] = [
        (Update(key(4), set_v(0)), ConcurrentAppendException, "k = 4, v = 0"),
        (Delete(key(4)), ConcurrentDeleteReadException, "k = 4, v = 4"),
    ]
    for winner, kind, row in cases:
        error = Scene(level, SIX[:3], SIX[3:]).meets(RAISES_LOW, *compactions, winner)
        assert type(error) is kind
        assert error.reason is ConflictReason.ROW_LEVEL_CHANGES
        assert error.example_keys == (row,)
    assert Scene(level, SIX[:3], SIX[3:]).meets(RAISES_LOW, *compactions, Delete(key(5))) is None


@BOTH_LEVELS
@COMPACTIONS
def test_a_row_that_ours_changes(level: str, compactions: list[Statement]) -> None:
    error = Scene(level, SIX[:3], SIX[3:]).meets(RAISES_LOW, *compactions, Delete(key(1)))
    assert type(error) is ConcurrentDeleteDeleteException
    assert error.example_keys == ("k = 1, v = 1",)


@BOTH_LEVELS
@COMPACTIONS
def test_a_file_that_goes_whole(level: str, compactions: list[Statement]) -> None:
    """The condition is evaluated for its rows, to find whether ours had read one of them."""
    reader = InsertSelect(key(4), set_v(0))
    for winner, refused in ((Delete(Where("k", ">=", 4)), True), (Delete(Where("k", "<", 2)), False)):
        error = Scene(level, SIX[:3], SIX[3:]).meets(reader, *compactions, winner)
        assert (type(error) is ConcurrentDeleteReadException) is refused


@BOTH_LEVELS
def test_a_row_that_moves_into_the_condition(level: str) -> None:
    error = Scene(level, SIX[:3], SIX[3:]).meets(RAISES_LOW, ZORDER, Update(key(0), Change("k", 4, False)))
    assert type(error) is ConcurrentAppendException


@BOTH_LEVELS
def test_rows_that_came_later_and_were_moved(level: str) -> None:
    """Covers race 57: the condition might find them too, so ours is refused, also behind another compaction."""
    for compactions in ([FOREIGN], [FOREIGN, ZORDER], [FOREIGN, Optimize(), ZORDER]):
        error = Scene(level, SIX[:3], SIX[3:]).meets(Delete(Where("v", ">=", 4)), Merge((Row(9, 0),)), *compactions)
        assert type(error) is ConcurrentDeleteDeleteException
        assert error.reason is ConflictReason.UNMAPPED_REWRITE


def test_an_append_that_ours_precedes_and_that_was_moved() -> None:
    """Ours only reads: the append stays unread, and what ours did read is looked for among all that went."""
    scene = Scene("WriteSerializable", SIX[:3], SIX[3:])
    ours, other = scene.begins(InsertSelect(key(4), Change("k", 5, True))), scene.begins(InsertSelect(key(0), set_v(9)))
    scene.lands(Insert((Row(4, 0),)), FOREIGN)
    assert scene.ends(other) is None
    assert scene.ends(ours) is None
    assert keys(scene) == {0: 2, 1: 1, 2: 1, 3: 1, 4: 2, 5: 1, 9: 1}


@BOTH_LEVELS
def test_a_condition_that_cannot_be_evaluated_again(level: str) -> None:
    """Any row of a file that another engine has written may be one that ours had read."""
    manner = Manner(reevaluates=False)
    reader = InsertSelect(key(4), set_v(0))
    assert Scene(level, SIX[:3], SIX[3:], manner=manner).meets(reader, FOREIGN) is None
    error = Scene(level, SIX[:3], SIX[3:], manner=manner).meets(reader, FOREIGN, Delete(key(0)))
    assert type(error) is ConcurrentDeleteReadException


@BOTH_LEVELS
def test_scans_without_rows(level: str) -> None:
    """A reader that did not record its rows, with a repeatable condition: only the rows that satisfy it count."""
    manner = Manner(names_rows=False)
    reader = InsertSelect(key(4), set_v(0))
    assert Scene(level, SIX, manner=manner).meets(reader, Delete(key(3))) is None
    error = Scene(level, SIX, manner=manner).meets(reader, Delete(Where("k", ">=", 3)))
    assert type(error) is ConcurrentDeleteReadException
    assert error.example_keys == ("k = 4, v = 4",)
