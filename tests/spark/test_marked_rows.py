"""The rows of a frame as bitmaps: sent to the driver as numbers where they are few, else made by Spark's aggregates."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.rows.cached_rows import numbers_if_small
from anabranch.spark.rows.hidden_rows import mark_rows, marked_positions

pytestmark = pytest.mark.spark

COLUMNS = (FILE_ID_COLUMN, ROW_INDEX_COLUMN, "action")
NUMBERS_MAX = 100_000

Marks = dict[tuple[int | None, int], tuple[set[int], int]]
"""Positions and number of rows, by file id and action."""


def marks(frame: DataFrame) -> Marks:
    return {
        (marked.file_id, marked.group[0]): (set(marked.positions), marked.count)
        for marked in mark_rows(frame, group_by=("action",))
    }


def expected_marks(frame: DataFrame) -> Marks:
    positions: dict[tuple[int | None, int], list[int | None]] = defaultdict(list)
    for file_id, position, action in frame.collect():
        positions[file_id, action].append(position)
    return {key: ({value for value in of_key if value is not None}, len(of_key)) for key, of_key in positions.items()}


def numbered(delta: SparkSession, count: int) -> DataFrame:
    """Rows of three files with two actions, of which one is -1; the last position of each is there twice."""
    file_id = f"CAST(id % 3 AS INT) AS {FILE_ID_COLUMN}"
    position = f"least(id, {count - 7}) DIV 3 AS {ROW_INDEX_COLUMN}"
    return delta.range(0, count, 1, 2).selectExpr(file_id, position, "CAST(id % 2 AS INT) - 1 AS action")


@pytest.mark.parametrize("count", [1000, NUMBERS_MAX, NUMBERS_MAX + 1])
def test_rows_of_a_small_frame(delta: SparkSession, count: int) -> None:
    frame = numbered(delta, count)
    assert marks(frame) == expected_marks(frame)
    assert (numbers_if_small(frame, COLUMNS) is None) == (count > NUMBERS_MAX)


def test_rows_of_a_frame_that_several_tasks_compute(delta: SparkSession) -> None:
    frame = numbered(delta, 70_000).sort("action")
    assert numbers_if_small(frame, COLUMNS) is None
    assert marks(frame) == expected_marks(frame)


def test_first_and_last_positions_of_words_and_blocks(delta: SparkSession) -> None:
    """The last bit of a word is the sign of its number."""
    positions = [0, 63, 64, 127, 447, 448, 511, 512, 575, 1023, 1024, 2**32 - 1, 2**32]
    rows = ", ".join(f"(0, {position}L, 0)" for position in positions)
    frame = delta.sql(f"SELECT * FROM VALUES {rows} AS r({', '.join(COLUMNS)})").sort("action")
    assert numbers_if_small(frame, COLUMNS) is None
    assert marks(frame) == {(0, 0): (set(positions), len(positions))}


def test_rows_that_are_in_no_file(delta: SparkSession) -> None:
    far = 3 * 2**32
    rows = f"(NULL, NULL, 0), (NULL, NULL, 0), (0, 5L, 0), (0, {far}, 0), (0, 5L, 0), (0, 5L, -1), (2, 0L, 0)"
    few = delta.sql(f"SELECT * FROM VALUES {rows} AS r({', '.join(COLUMNS)})")
    assert numbers_if_small(few, COLUMNS) is not None
    for frame in (few, few.sort("action")):
        assert marks(frame) == {
            (None, 0): (set(), 2),
            (0, 0): ({5, far}, 3),
            (0, -1): ({5}, 1),
            (2, 0): ({0}, 1),
        }
        assert {file_id: set(positions) for file_id, positions in marked_positions(frame).items()} == {
            0: {5, far},
            2: {0},
        }
        assert marks(frame.where("action > 5")) == {}
