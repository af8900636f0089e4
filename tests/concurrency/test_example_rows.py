"""A conflict shows a few of its rows by their values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
    RowValues,
)
from anabranch.errors.environment import FileMissingError
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import DescribeRows, RowsOfFile
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.scenes import Scene
from concurrency.statements import Delete, InsertSelect, Optimize, Statement, Update
from transactions.table_on_memory import add, created, id_is, rival_of

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]
HIGH = Where("v", ">=", 2)


def key(value: int) -> Where:
    return Where("k", "=", value)


def set_v(value: int) -> Change:
    return Change("v", value, False)


@BOTH_LEVELS
@pytest.mark.parametrize(
    ("ours", "winners", "kind", "rows"),
    [
        (Delete(key(3)), [Delete(key(3))], ConcurrentDeleteDeleteException, ["k = 3, v = 3"]),
        (Delete(key(3)), [Update(key(3), set_v(9))], ConcurrentAppendException, ["k = 3, v = 9"]),
        (InsertSelect(key(3), set_v(0)), [Delete(key(3))], ConcurrentDeleteReadException, ["k = 3, v = 3"]),
        (Delete(HIGH), [Update(key(0), set_v(9))], ConcurrentAppendException, ["k = 0, v = 9"]),
        (Update(HIGH, set_v(0)), [Merge((Row(8, 8), Row(9, 9)))], ConcurrentAppendException, ["k = 8, v = 8", "k = 9, v = 9"]),
        (Delete(HIGH), [Optimize(), Delete(key(4))], ConcurrentDeleteDeleteException, ["k = 4, v = 4"]),
    ],
    ids=["deleted twice", "changed", "read", "came in", "inserted", "behind OPTIMIZE"],
)  # fmt: skip
def test_rows_by_their_values(
    level: str, ours: Statement, winners: Sequence[Statement], kind: type[Exception], rows: list[str]
) -> None:
    error = Scene(level, SIX[:3], SIX[3:]).meets(ours, *winners)
    assert type(error) is kind
    assert error.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert list(error.example_keys) == rows
    assert f"For example {'; '.join(rows)}." in str(error)


@BOTH_LEVELS
def test_no_more_than_three_of_all_files(level: str) -> None:
    """They come from as many files as it takes."""
    files = [[Row(0, 1), Row(1, 1), Row(2, 0)], [Row(3, 1), Row(4, 1), Row(5, 0)]]
    error = Scene(level, *files).meets(Delete(Where("v", "<", 9)), Delete(Where("v", "=", 1)))
    assert error is not None
    assert error.example_keys == ("k = 0, v = 1", "k = 1, v = 1", "k = 3, v = 1")
    assert error.where == "file f0.parquet"


@BOTH_LEVELS
def test_a_file_that_went_whole(level: str) -> None:
    """Which of its rows ours knows is known all the same."""
    error = Scene(level, SIX[:3], SIX[3:]).meets(Delete(key(4)), Delete(Where("k", ">=", 3)))
    assert isinstance(error, ConcurrentDeleteDeleteException)
    assert error.example_keys == ("k = 4, v = 4",)


def fails(rows: Sequence[RowsOfFile]) -> list[RowValues]:
    raise FileMissingError(root="memory:/table", path=rows[0].file.path)


@pytest.mark.parametrize(
    ("describe", "texts"),
    [
        (None, ("row 3 of f0.parquet",)),
        (fails, ("row 3 of f0.parquet",)),
        (lambda rows: [], ("row 3 of f0.parquet",)),
        (lambda rows: [(("k", "x" * 10_000),)], ("k = " + "x" * 295 + "…",)),
        (lambda rows: [(("k", value),) for value in "abcd"], ("k = a", "k = b", "k = c")),
    ],
    ids=["no function", "files are gone", "no text", "too long", "too many"],
)
def test_the_conflict_is_raised_also_if_its_rows_cannot_be_read(
    describe: DescribeRows | None, texts: tuple[str, ...]
) -> None:
    scene = Scene("Serializable", SIX)
    ours = scene.begins(Delete(key(3)))
    ours.transaction.describe_rows = describe
    scene.lands(Delete(key(3)))
    with pytest.raises(ConcurrentDeleteDeleteException) as raised:
        ours.commit()
    assert raised.value.example_keys == texts
    assert all(len(value) <= 300 for row in raised.value.example_rows for _, value in row)


def test_rows_are_read_once_and_only_for_a_conflict() -> None:
    """Rows are described once after three winners, in three files; and never for a commit without a conflict."""
    calls: list[Sequence[RowsOfFile]] = []
    scene = Scene("Serializable", SIX[:2], SIX[2:4], SIX[4:])

    def describe(rows: Sequence[RowsOfFile]) -> list[RowValues]:
        calls.append(rows)
        return [(("k", "1"),)]

    lands, loses = scene.begins(Delete(key(0))), scene.begins(Delete(Where("v", ">=", 1)))
    lands.transaction.describe_rows = loses.transaction.describe_rows = describe
    scene.lands(Update(key(1), set_v(0)), Update(key(3), set_v(0)), Update(key(5), set_v(0)))
    lands.commit()
    assert calls == []
    with pytest.raises(ConcurrentDeleteDeleteException):
        loses.commit()
    ((rows,),) = calls
    assert (rows.file.path, list(rows.positions or ())) == ("f0.parquet", [1])


def test_describe_rows_is_an_argument_of_begin() -> None:
    transaction = Scene("Serializable", SIX).played.table.begin(Operation(name="DELETE"), describe_rows=fails)
    assert transaction.describe_rows is fails


def test_no_rows_where_files_decide() -> None:
    """Which row was meant is not known, so none is shown."""
    first = created(add("a"))
    ours, winner = rival_of(first), rival_of(first, seed=3)
    transaction = ours.read(id_is(3), add("a"))
    transaction.describe_rows = lambda rows: pytest.fail("there is no row to describe")
    winner.rewrite(add("a"), add("b"), where=id_is(3))
    with pytest.raises(ConcurrentAppendException) as raised:
        transaction.commit([add("c", ids=(50, 60))])
    assert raised.value.example_keys == ()


@BOTH_LEVELS
def test_rows_that_were_moved_without_a_row_map(level: str) -> None:
    """Another engine moved them: those that ours wanted to change are shown by their old positions."""
    scene = Scene(level, SIX[:3], SIX[3:], manner=Manner(reevaluates=False))
    error = scene.meets(Delete(key(4)), Optimize(leaves_word=False))
    assert isinstance(error, ConcurrentDeleteDeleteException)
    assert error.reason is ConflictReason.UNMAPPED_REWRITE
    assert error.example_keys == ("k = 4, v = 4",)
