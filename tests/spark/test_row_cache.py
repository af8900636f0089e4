"""Rows that a statement keeps in Spark's cache as they are, however they look and whatever is read of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.rows.cached_rows import Size, cache_rows, size_of

pytestmark = pytest.mark.spark

VALUES = (
    "id",
    "CAST(id AS BYTE) AS small",
    "IF(id % 3 = 0, NULL, concat('é', id)) AS text",
    "CAST(id AS DECIMAL(30, 5)) / 3 AS number",
    "array(named_struct('a', id, 'b', map('k', CAST(id AS STRING))), NULL) AS nested",
    "IF(id % 50 = 7, repeat('long ', 300000), '') AS long",
    "CAST(repeat('x', CAST(id % 5 AS INT)) AS BINARY) AS bytes",
)


@pytest.fixture
def rows(delta: SparkSession) -> DataFrame:
    """Rows of seven partitions, one of them empty, read from more bytes than the driver computes by itself."""
    numbers = delta.range(0, 900_000, 1, 6).where("id % 10000 = 0").selectExpr("id DIV 10000 AS id")
    assert size_of(numbers) is Size.LARGE
    return numbers.union(delta.range(0)).selectExpr(*VALUES)


@pytest.fixture
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    cached = cache_rows(rows, as_rows=True)
    yield cached.frame
    cached.release()


def test_they_are_the_rows_of_the_frame(rows: DataFrame, kept: DataFrame) -> None:
    expected = rows.collect()
    assert kept.collect() == expected
    # Now from the cache.
    assert kept.collect() == expected
    assert kept.count() == 90


def test_they_are_computed_again_where_they_are_lost(delta: SparkSession, rows: DataFrame) -> None:
    """Covers fault F10, as far as it shows here: a local checkpoint of Spark fails then. A release frees their memory."""
    cached = cache_rows(rows, as_rows=True)
    expected = cached.frame.collect()
    kept = delta.sparkContext._jsc.getPersistentRDDs()
    cached.release()
    assert len(delta.sparkContext._jsc.getPersistentRDDs()) == len(kept) - 1
    assert cached.frame.collect() == expected


@pytest.mark.parametrize("columns", [("text", "id"), ("nested",), ("long", "bytes", "small")])
def test_some_columns_in_any_order(rows: DataFrame, kept: DataFrame, columns: tuple[str, ...]) -> None:
    assert kept.select(*columns).collect() == rows.select(*columns).collect()


def test_operators_that_keep_rows(rows: DataFrame, kept: DataFrame) -> None:
    """Those that are given one object for all rows have to copy them."""
    last = kept.orderBy(F.desc("id")).limit(3)
    assert [row.id for row in last.collect()] == [89, 88, 87]
    pairs = kept.alias("a").join(kept.alias("b"), F.expr("a.id = b.id + 1"))
    assert pairs.selectExpr("sum(a.id)", "count(b.text)").collect() == [(4005, 59)]
    by_text = kept.repartition(5, "text").groupBy("text").agg(F.max("number"))
    assert sorted(by_text.collect(), key=repr) == sorted(rows.groupBy("text").agg(F.max("number")).collect(), key=repr)
