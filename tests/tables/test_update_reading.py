"""How an UPDATE reads many rows: once where it marks them while it writes them, else maybe twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.commands.dml import file_sample, update, update_rows
from anabranch.spark.rows.cached_rows import CachedRows, cache_rows
from anabranch.tables import DeltaTable
from session_kinds import in_this_process
from tables.large_tables import counted_reads

pytestmark = [pytest.mark.spark, in_this_process]

FILES = 20
ROWS_OF_FILE = 3000
FEW = ("id % 100 = 3", FILES * ROWS_OF_FILE // 100)
MANY = ("id % 2 = 1", FILES * ROWS_OF_FILE // 2)


@pytest.fixture(params=["vectors", "no vectors", "change data feed", "row tracking"])
def table(delta: SparkSession, path: str, request: pytest.FixtureRequest) -> str:
    """Twenty files, read by several tasks."""
    properties = {
        "delta.enableDeletionVectors": str(request.param != "no vectors").lower(),
        "delta.enableChangeDataFeed": str(request.param == "change data feed").lower(),
        "delta.enableRowTracking": str(request.param == "row tracking").lower(),
    }
    rows = delta.range(0, FILES * ROWS_OF_FILE, 1, FILES).selectExpr("id", "0L AS n", "concat('w', id) AS word")
    rows.write.format("delta").options(**properties).save(path)
    return f"delta.`{path}`"


@pytest.fixture
def reads() -> Iterator[list[int]]:
    """How many files each read has, in order, of tables that are taken for large."""
    with counted_reads() as numbers:
        yield numbers


@pytest.fixture
def kept() -> Iterator[list[bool]]:
    """How the rows of each UPDATE were kept: as rows or not."""
    kinds: list[bool] = []

    def seen(frame: object, *, as_rows: bool = False) -> CachedRows:
        kinds.append(as_rows)
        return cache_rows(frame, as_rows=as_rows)  # type: ignore[arg-type]  # it is a frame

    with mock.patch.object(update_rows, "cache_rows", seen), mock.patch.object(update_rows, "CACHED_ROWS_MAX", 2000):
        yield kinds


def check(spark: SparkSession, table: str, condition: str, num_rows: int) -> None:
    assert spark.sql(f"UPDATE {table} SET n = n + 1 WHERE {condition}").collect()[0][0] == num_rows
    (counts,) = spark.sql(
        f"SELECT count(*), count(DISTINCT id), sum(n), count_if(n = 1 AND {condition}), count_if(word = concat('w', id)) "
        f"FROM {table}"
    ).collect()
    total = FILES * ROWS_OF_FILE
    assert tuple(counts) == (total, total, num_rows, num_rows, total)
    assert spark._jsparkSession.sparkContext().getPersistentRDDs().size() == 0


def writes_at_once(spark: SparkSession, table: str) -> bool:
    """Whether the table has vectors, and no change data feed."""
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    return properties["delta.enableDeletionVectors"] == "true" and properties["delta.enableChangeDataFeed"] == "false"


def test_few_rows_are_kept(delta: SparkSession, table: str, reads: list[int], kept: list[bool]) -> None:
    """Where they cannot be marked while they are written."""
    check(delta, table, *FEW)
    at_once = writes_at_once(delta, table)
    assert reads == ([FILES] if at_once else [FILES, 1])
    assert kept == ([] if at_once else [True])


def test_many_rows_are_read_once_or_twice(
    delta: SparkSession, path: str, table: str, reads: list[int], kept: list[bool]
) -> None:
    """For a change data feed they are kept, as the old values are needed beside the new ones."""
    has_feed = delta.sql(f"SHOW TBLPROPERTIES {table} ('delta.enableChangeDataFeed')").collect()[0][1] == "true"
    check(delta, table, *MANY)
    assert reads == ([FILES] if writes_at_once(delta, table) else [FILES, 1])
    assert kept == ([True] if has_feed else [])
    if has_feed:
        feed = delta.read.option("readChangeFeed", "true").option("startingVersion", 1).format("delta").load(path)
        feed = feed.groupBy("_change_type").agg({"*": "count", "n": "sum"})
        assert sorted(map(tuple, feed.select("_change_type", "count(1)", "sum(n)").collect())) == [
            ("update_postimage", MANY[1], MANY[1]),
            ("update_preimage", MANY[1], 0),
        ]


@pytest.mark.parametrize("setting", ["maxFields", "hugeMethodLimit"])
def test_rows_that_are_not_marked(
    delta: SparkSession, path: str, table: str, reads: list[int], kept: list[bool], setting: str
) -> None:
    """In the first case that is known before. In the second they are written again, and the first files deleted."""
    files = set(Path(path).glob("*.parquet"))
    at_once = writes_at_once(delta, table)
    delta.conf.set(f"spark.sql.codegen.{setting}", "1")
    try:
        with mock.patch.object(update, "delete_data_files", wraps=update.delete_data_files) as deletes:
            assert delta.sql(f"UPDATE {table} SET n = n + 1 WHERE {FEW[0]}").collect()[0][0] == FEW[1]
    finally:
        delta.conf.unset(f"spark.sql.codegen.{setting}")
    assert delta.sql(f"SELECT count(*), sum(n) FROM {table}").collect() == [(FILES * ROWS_OF_FILE, FEW[1])]
    assert deletes.call_count == (1 if at_once and setting == "hugeMethodLimit" else 0)
    current = {Path(file).name for file in delta.read.format("delta").load(path).inputFiles()}
    assert {file.name for file in set(Path(path).glob("*.parquet")) - files} <= current
    assert kept == [True]


def test_all_rows_are_not_kept(delta: SparkSession, table: str, kept: list[bool]) -> None:
    check(delta, table, "true", FILES * ROWS_OF_FILE)
    assert kept == []


def test_a_coin_is_thrown_once(delta: SparkSession, table: str, reads: list[int], kept: list[bool]) -> None:
    """The rows that are written are those that were found."""
    (changed,) = delta.sql(f"UPDATE {table} SET n = n + 1 WHERE rand() < 0.5").collect()[0]
    assert delta.sql(f"SELECT count(*), count(DISTINCT id), sum(n) FROM {table}").collect() == [
        (FILES * ROWS_OF_FILE, FILES * ROWS_OF_FILE, changed)
    ]
    assert reads == [FILES]
    assert kept == []


def test_a_function_that_is_not_what_it_says(delta: SparkSession, path: str, table: str, reads: list[int]) -> None:
    """Rows are marked while they are written, or read again by their positions, not by a condition that is other by then."""
    coin = F.udf(lambda _: os.urandom(1)[0] < 128, "boolean")
    with mock.patch.object(update_rows, "CACHED_ROWS_MAX", 2000):
        DeltaTable.forPath(delta, path).update(coin("id"), {"n": "n + 1"})
    changed = int(delta.sql(f"DESCRIBE HISTORY {table}").collect()[0].operationMetrics["numUpdatedRows"])
    assert delta.sql(f"SELECT count(*), count(DISTINCT id), sum(n) FROM {table}").collect() == [
        (FILES * ROWS_OF_FILE, FILES * ROWS_OF_FILE, changed)
    ]
    assert reads[:2] == ([FILES] if writes_at_once(delta, table) else [FILES, 1])


def test_of_a_few_files_no_sample_is_taken(delta: SparkSession, table: str, reads: list[int]) -> None:
    with mock.patch.object(file_sample, "FILES_MIN", FILES + 1):
        check(delta, table, *MANY)
    assert reads == [FILES]
