"""Small plans that the driver executes itself: they have the rows of a job, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from extension.test_driver_writes import COLUMNS, VALUES, jobs_of

pytestmark = pytest.mark.spark

INTERPRETED_ROWS, COMPILED_ROWS = 3_000, 200_000
"""Rows of `id` and a random number: files of less, and of more, than 512 KiB."""

CONDITIONS = {
    "a value": "id % 100 = 7",
    "beside hidden rows": "id < 40 OR id IS NULL",
    "a partition": "p = 'b' AND id < 50",
    "a column that the first files lack": "late IS NULL AND id BETWEEN 20 AND 30",
    "functions": "upper(concat(p, '-', id)) IN ('A-15', 'B-16', 'B-17') AND size(array(id, NULL)) = 2",
    "positions": "_metadata.row_index BETWEEN 3 AND 12",
    "random numbers of a seed": "rand(7) < 0.01",
    "no row": "v = 7 AND id = -1",
}


@pytest.fixture(params=[INTERPRETED_ROWS, COMPILED_ROWS])
def table(request: pytest.FixtureRequest, delta: SparkSession, path: str) -> str:
    """A table with two partitions, hidden rows, renamed columns, and a column that the first files do not have."""
    table = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {table} (id LONG, x DOUBLE, p STRING) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    rows = f"SELECT id, rand(3), IF(id % 5 = 0, 'a', 'b') FROM range(0, {request.param}, 1, 1)"
    delta.sql(f"INSERT INTO {table} {rows}")
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN x TO v")
    delta.sql(f"ALTER TABLE {table} ADD COLUMN late STRING")
    delta.sql(f"INSERT INTO {table} VALUES (NULL, NULL, NULL, 'x'), (8, 1, 'b', 'y')")
    delta.sql(f"DELETE FROM {table} WHERE id % 7 = 3")
    size = sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))
    assert (size > 512 << 10) == (request.param == COMPILED_ROWS)
    assert size < 4 << 20
    return table


@pytest.mark.parametrize("title", CONDITIONS)
def test_the_rows_are_those_of_a_query(delta: SparkSession, table: str, title: str) -> None:
    """The query is executed by jobs, with generated code."""
    condition = CONDITIONS[title]
    columns = "id, v + 1 AS v, p, coalesce(late, p) AS late"
    if title == "random numbers of a seed":
        with jobs_of(delta, 0):
            assert delta.sql(f"DELETE FROM {table} WHERE {condition}").collect()[0][0] > 0
        return
    chosen = {tuple(row) for row in delta.sql(f"SELECT {columns} FROM {table} WHERE {condition}").collect()}
    others = {
        tuple(row) for row in delta.sql(f"SELECT * FROM {table} WHERE NOT coalesce({condition}, false)").collect()
    }
    with jobs_of(delta, 0):
        updated = delta.sql(f"UPDATE {table} SET v = v + 1, late = coalesce(late, p) WHERE {condition}").collect()
    assert updated == [(len(chosen),)]
    assert {tuple(row) for row in delta.table(table).collect()} == chosen | others
    assert (title == "no row") == (not chosen)


def test_values_of_all_types(delta: SparkSession, path: str) -> None:
    """Rows that are read, kept and written again without generated code are what they were."""
    delta.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}, m MAP<STRING, INT>, st STRUCT<a: INT, b: STRING>) USING delta")
    rows = f"SELECT *, map('k', col1, 'n', NULL), IF(col1 = 2, NULL, struct(col1, col2)) FROM {VALUES}"
    delta.sql(f"INSERT INTO delta.`{path}` {rows}")
    before = delta.table(f"delta.`{path}`").orderBy("id").drop("id").collect()
    with jobs_of(delta, 0):
        delta.sql(f"UPDATE delta.`{path}` SET id = id + 100")
    assert repr(delta.table(f"delta.`{path}`").orderBy("id").drop("id").collect()) == repr(before)


def test_rows_of_a_delete(delta: SparkSession, table: str) -> None:
    before = {row.id for row in delta.table(table).collect()}
    with jobs_of(delta, 0):
        delta.sql(f"DELETE FROM {table} WHERE id % 50 = 1 OR id IS NULL")
    assert {row.id for row in delta.table(table).collect()} == {id_ for id_ in before if id_ and id_ % 50 != 1} | {0}


FAILING = {
    "a division": ("DELETE FROM {table} WHERE 1 / (id - 8) > 0", "DIVIDE_BY_ZERO"),
    "a file that is gone": ("UPDATE {table} SET v = 1 WHERE late = 'x'", "DELTA_FILE_NOT_FOUND_DETAILED"),
}


@pytest.mark.parametrize("title", FAILING)
def test_a_task_that_fails_is_reported_by_a_job(delta: SparkSession, table: str, path: str, title: str) -> None:
    """The error is that of any other statement, with the stage that failed."""
    statement, condition = FAILING[title]
    if title == "a file that is gone":
        for file in Path(path).rglob("*.parquet"):
            file.unlink()
    with pytest.raises(PySparkException) as failed:
        delta.sql(statement.format(table=table)).collect()
    assert condition in str(failed.value)
    jvm: Any = delta._jvm
    assert jvm.org.apache.spark.TaskContext.get() is None


def test_rows_of_several_files_in_one_task(delta: SparkSession, path: str) -> None:
    """More bytes than Spark puts into one task by itself."""
    delta.range(0, 400, 1, 4).write.format("delta").save(path)
    before = delta.conf.get("spark.sql.files.maxPartitionBytes")
    delta.conf.set("spark.sql.files.maxPartitionBytes", "100")
    try:
        assert delta.read.format("delta").load(path).rdd.getNumPartitions() > 4
        with jobs_of(delta, 0):
            delta.sql(f"DELETE FROM delta.`{path}` WHERE id % 100 = 7")
        assert delta.read.format("delta").load(path).count() == 396
    finally:
        delta.conf.set("spark.sql.files.maxPartitionBytes", str(before))


def test_settings_of_the_session_hold_in_the_task(delta: SparkSession, path: str) -> None:
    """Code that a task executes reads them, such as the time zone and how an overflow ends."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, t STRING) USING delta")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, '2024-01-01 12:00:00'), (2, 'no time')")
    before = {key: delta.conf.get(key) for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    try:
        delta.conf.set("spark.sql.ansi.enabled", "false")
        delta.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        with jobs_of(delta, 0):
            delta.sql(f"DELETE FROM delta.`{path}` WHERE unix_seconds(CAST(t AS TIMESTAMP)) = 1704078000")
        assert [row.id for row in delta.table(f"delta.`{path}`").collect()] == [2]
    finally:
        for key, value in before.items():
            delta.conf.set(key, str(value))
