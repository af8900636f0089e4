"""Rows that are marked while a job computes them for another purpose."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.rows.row_marks import RowMarks
from session_kinds import in_this_process

pytestmark = [pytest.mark.spark, in_this_process]

Row = tuple[int | None, int | None, int | None]


def frame_of(delta: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Rows with file, group and position, which the driver does not have."""
    schema = f"{FILE_ID_COLUMN} INT, g INT, {ROW_INDEX_COLUMN} BIGINT"
    return delta.createDataFrame(delta.sparkContext.parallelize(rows, 4), schema)


def marked(marks: RowMarks) -> dict[tuple[int | None, tuple[int, ...]], tuple[set[int], int]]:
    """Positions and numbers of rows by file and group, as the marks have them."""
    rows: dict[tuple[int | None, tuple[int, ...]], tuple[set[int], int]] = {}
    for mark in marks.marks() or []:
        positions, count = rows.get((mark.file_id, mark.group), (set(), 0))
        assert not positions & set(mark.positions)
        rows[mark.file_id, mark.group] = (positions | set(mark.positions), count + mark.count)
    return rows


def expected(rows: Sequence[Row]) -> dict[tuple[int | None, tuple[int, ...]], tuple[set[int], int]]:
    counts = Counter((file, () if group is None else (group,)) for file, group, _ in rows)
    return {
        key: (
            {
                position
                for file, group, position in rows
                if position is not None and key == (file, () if group is None else (group,))
            },
            count,
        )
        for key, count in counts.items()
    }


@pytest.mark.parametrize("partitions", [1, 4, 7], ids=["one task", "four", "behind a shuffle"])
def test_all_rows_are_marked(delta: SparkSession, partitions: int) -> None:
    """Of two rows with one position both count. Those for which the condition is false or NULL are marked, too."""
    draw = random.Random(7)
    rows: list[Row] = [
        (None, draw.choice([0, 1, None]), None)
        if draw.random() < 0.1
        else (draw.randrange(5), draw.choice([-1, 0, 300, None]), draw.choice([0, 3, 2**31, 2**32 + 3, 2**40]) + i // 2)
        for i in range(2000)
    ]
    marks = RowMarks(frame_of(delta, rows), group_by="g", condition="g > 0")
    assert marks.marks() == []
    computed = marks.rows.repartition(partitions) if partitions == 7 else marks.rows.coalesce(partitions)
    assert computed.count() == sum(group is not None and group > 0 for _, group, _ in rows)
    assert marked(marks) == expected(rows)


def test_no_row(delta: SparkSession) -> None:
    marks = RowMarks(frame_of(delta, []), group_by="g", condition="true")
    assert marks.rows.count() == 0
    assert marks.marks() == []


def test_rows_that_later_operators_leave_out(delta: SparkSession) -> None:
    """Spark must not filter rows before they are marked, whatever is above, nor mark rows of a join's side twice."""
    rows: list[Row] = [(0, i % 3, i) for i in range(100)]
    marks = RowMarks(frame_of(delta, rows), group_by="g", condition=f"{ROW_INDEX_COLUMN} >= 10")
    above = marks.rows.where("g = 1").where(f"{ROW_INDEX_COLUMN} % 2 = 0").selectExpr("g + 1 AS h").where("h = 2")
    assert above.count() == sum(i % 3 == 1 and i % 2 == 0 for i in range(10, 100))
    assert marked(marks) == expected(rows)


def test_rows_that_the_driver_has(delta: SparkSession) -> None:
    """Spark filters them when it optimizes the plan, each time that it does."""
    rows: list[Row] = [(0, 1, 7), (0, 2, 8), (1, 1, 7), (None, 1, None)]
    values = ", ".join(f"({', '.join('NULL' if value is None else str(value) for value in row)})" for row in rows)
    frame = delta.sql(
        f"SELECT CAST(f AS INT) AS {FILE_ID_COLUMN}, CAST(g AS INT) AS g, CAST(p AS BIGINT) AS {ROW_INDEX_COLUMN}"
        f" FROM VALUES {values} AS v (f, g, p)"
    )
    marks = RowMarks(frame, group_by="g", condition="g = 1")
    assert marks.rows.count() == 3
    assert len(marks.rows.collect()) == 3
    assert marked(marks) == expected(rows)


@pytest.mark.parametrize("setting", ["maxFields", "hugeMethodLimit", "wholeStage"])
def test_without_generated_code(delta: SparkSession, setting: str) -> None:
    """Executors have none of our classes: they filter the rows, and nobody has marked them."""
    delta.conf.set(f"spark.sql.codegen.{setting}", "false" if setting == "wholeStage" else "1")
    try:
        marks = RowMarks(frame_of(delta, [(0, 0, i) for i in range(10)]), group_by="g", condition="g = 0")
        assert marks.rows.where(f"{ROW_INDEX_COLUMN} > 3").count() == 6
    finally:
        delta.conf.unset(f"spark.sql.codegen.{setting}")
    assert marks.marks() is None
