"""Which pairs of operations conflict: the matrix of the concurrency page, cell by cell, in both orders."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
)
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.scenes import Scene
from concurrency.statements import Delete, Insert, InsertSelect, Optimize, Statement, Update

FILES = ([Row(0, 0), Row(1, 1), Row(2, 2)], [Row(3, 3), Row(4, 4), Row(5, 5)])
OURS, SAME_FILE, OTHER_FILE, NEW = 1, 2, 4, 9
"""Keys: of the row that ours changes, of another row in its file, of one in the other file, of none."""
ROW_CONFLICTS = (ConcurrentAppendException, ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)

CHANGES: dict[str, Callable[[int], Statement]] = {
    "UPDATE": lambda k: Update(Where("k", "=", k), Change("v", 7, False)),
    "DELETE": lambda k: Delete(Where("k", "=", k)),
    "MERGE": lambda k: Merge((Row(k, 7),)),
}
REARRANGEMENTS: dict[str, Statement] = {
    "OPTIMIZE": Optimize(),
    "OPTIMIZE of one file": Optimize((0,)),
    "OPTIMIZE ZORDER": Optimize(ordered=True, rows_per_file=2),
    "OPTIMIZE ZORDER without word": Optimize(ordered=True, leaves_word=False),
    "REORG PURGE": Optimize(purges=True),
}
INSERTS: dict[str, Callable[[int], Statement]] = {
    "INSERT": lambda k: Insert((Row(k, 1),)),
}


def conflict(level: str, ours: Statement, winner: Statement, *, vectors: bool = True) -> type[Exception] | None:
    """The conflict of ours with the winner. Every file hides a row where it can, so that there is something to purge."""
    scene = Scene(level, *FILES, manner=Manner(vectors=vectors))
    if vectors:
        scene.lands(Delete(Where("k", "=", 0)), Delete(Where("k", "=", 5)))
    error = scene.meets(ours, winner)
    assert error is None or isinstance(error, ROW_CONFLICTS)
    return None if error is None else type(error)


BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
WITH_AND_WITHOUT = pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])


@BOTH_LEVELS
@WITH_AND_WITHOUT
@pytest.mark.parametrize("key", [OURS, NEW])
def test_insert_beside_insert(level: str, vectors: bool, key: int) -> None:
    """Never."""
    assert conflict(level, INSERTS["INSERT"](OURS), INSERTS["INSERT"](key), vectors=vectors) is None


@BOTH_LEVELS
@WITH_AND_WITHOUT
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [OURS, SAME_FILE, OTHER_FILE, NEW])
def test_insert_behind_a_change(level: str, vectors: bool, change: str, key: int) -> None:
    """Never: it has read nothing."""
    assert conflict(level, INSERTS["INSERT"](OURS), CHANGES[change](key), vectors=vectors) is None


@BOTH_LEVELS
@WITH_AND_WITHOUT
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [OURS, SAME_FILE, OTHER_FILE, NEW])
def test_a_change_behind_an_insert(level: str, vectors: bool, change: str, key: int) -> None:
    """WriteSerializable: never. Serializable: over the same row; without vectors, where statistics do not exclude it."""
    error = conflict(level, CHANGES[change](OURS), INSERTS["INSERT"](key), vectors=vectors)
    # A MERGE searches for the keys of its source, which bounds of files do not exclude.
    may_be_the_same_row = key == OURS or (change == "MERGE" and not vectors)
    refused = level == "Serializable" and may_be_the_same_row
    assert error is (ConcurrentAppendException if refused else None)


@BOTH_LEVELS
@pytest.mark.parametrize(("ours", "winner"), list(itertools.product(CHANGES, CHANGES)))
@pytest.mark.parametrize("key", [OURS, SAME_FILE, OTHER_FILE, NEW])
def test_changes_of_rows(level: str, ours: str, winner: str, key: int) -> None:
    """Only over the same row. A MERGE that inserts the key of a row that is not there is no such case."""
    error = conflict(level, CHANGES[ours](OURS), CHANGES[winner](key))
    # Rows that the winner added are reported before rows that it deleted.
    expected = ConcurrentDeleteDeleteException if winner == "DELETE" else ConcurrentAppendException
    assert error is (expected if key == OURS else None)


@BOTH_LEVELS
def test_a_row_that_one_changes_and_the_other_reads(level: str) -> None:
    """It counts as the same row, be it in the condition before or after the change."""
    reader = InsertSelect(Where("v", ">=", 4), Change("k", 9, True))
    assert conflict(level, reader, CHANGES["DELETE"](OTHER_FILE)) is ConcurrentDeleteReadException
    assert conflict(level, reader, CHANGES["UPDATE"](OTHER_FILE)) is ConcurrentAppendException
    assert conflict(level, reader, CHANGES["UPDATE"](OURS)) is ConcurrentAppendException
    assert conflict(level, reader, CHANGES["DELETE"](OURS)) is None


@BOTH_LEVELS
@pytest.mark.parametrize(("ours", "winner"), list(itertools.product(["UPDATE", "DELETE"], ["UPDATE", "DELETE"])))
@pytest.mark.parametrize("key", [OURS, SAME_FILE, OTHER_FILE])
def test_changes_of_files(level: str, ours: str, winner: str, key: int) -> None:
    """A conflict without vectors is over the same files, unless statistics exclude it."""
    error = conflict(level, CHANGES[ours](OURS), CHANGES[winner](key), vectors=False)
    assert error is (None if key == OTHER_FILE else ConcurrentAppendException)


@BOTH_LEVELS
@pytest.mark.parametrize("key", [OURS, SAME_FILE])
@pytest.mark.parametrize("pair", [("MERGE", "UPDATE"), ("UPDATE", "MERGE"), ("MERGE", "MERGE")], ids=" behind ".join)
def test_merges_of_files(level: str, key: int, pair: tuple[str, str]) -> None:
    ours, winner = pair
    error = conflict(level, CHANGES[ours](OURS), CHANGES[winner](key), vectors=False)
    assert error is ConcurrentAppendException


@BOTH_LEVELS
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rearrangement", REARRANGEMENTS)
@pytest.mark.parametrize("key", [OURS, OTHER_FILE, NEW])
def test_rearrangements_beside_changes(level: str, change: str, rearrangement: str, key: int) -> None:
    """They never conflict, in either order."""
    assert conflict(level, CHANGES[change](key), REARRANGEMENTS[rearrangement]) is None
    assert conflict(level, REARRANGEMENTS[rearrangement], CHANGES[change](key)) is None


@BOTH_LEVELS
@pytest.mark.parametrize(("ours", "winner"), list(itertools.product(REARRANGEMENTS, REARRANGEMENTS)))
def test_rearrangements_beside_one_another(level: str, ours: str, winner: str) -> None:
    """Never: what one has taken the other leaves."""
    assert conflict(level, REARRANGEMENTS[ours], REARRANGEMENTS[winner]) is None


@BOTH_LEVELS
@WITH_AND_WITHOUT
@pytest.mark.parametrize("rearrangement", ["OPTIMIZE", "OPTIMIZE of one file", "OPTIMIZE ZORDER"])
def test_rearrangements_beside_inserts(level: str, vectors: bool, rearrangement: str) -> None:
    """They never conflict, in either order."""
    insert, optimize = INSERTS["INSERT"](OURS), REARRANGEMENTS[rearrangement]
    assert conflict(level, insert, optimize, vectors=vectors) is None
    assert conflict(level, optimize, insert, vectors=vectors) is None


@BOTH_LEVELS
@pytest.mark.parametrize("change", CHANGES)
def test_optimize_of_files(level: str, change: str) -> None:
    """Without vectors a change loses to an OPTIMIZE of the same files. The OPTIMIZE itself leaves out what it lost."""
    optimize = REARRANGEMENTS["OPTIMIZE of one file"]
    assert conflict(level, CHANGES[change](OURS), optimize, vectors=False) is ConcurrentDeleteReadException
    assert conflict(level, optimize, CHANGES[change](OURS), vectors=False) is None
    assert conflict(level, optimize, REARRANGEMENTS["OPTIMIZE"], vectors=False) is None
    if change != "MERGE":
        assert conflict(level, CHANGES[change](OTHER_FILE), optimize, vectors=False) is None
