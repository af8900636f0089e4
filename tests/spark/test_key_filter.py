"""Filters of keys: each key passes, hardly a row with another does, and plans do not show their bytes."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.conditions.key_filter import (
    KeyFilter,
    aggregate_with_filter,
    hash_of,
    is_worth_a_filter,
)

pytestmark = pytest.mark.spark

KEYS = {
    "a number": ["id"],
    "a small number": ["CAST(id % 128 AS TINYINT)", "CAST(id DIV 128 AS INT)"],
    "text": ["concat('é', id)"],
    "a decimal": ["CAST(id AS DECIMAL(38, 6)) / 7"],
    "times": ["date_add(DATE'1970-01-01', CAST(id AS INT))", "timestamp_micros(id * 1000003)"],
    "NULL": ["IF(id % 2 = 0, NULL, id)", "id"],
}


def filter_of(rows: DataFrame, key: list[Column]) -> tuple[int, KeyFilter]:
    values = rows.select(hash_of(key).alias("h"))
    row, made = aggregate_with_filter(values, ["count(*) AS n"], hashes="h")
    return int(row["n"]), made


@pytest.mark.parametrize("title", KEYS)
def test_what_passes(delta: SparkSession, title: str) -> None:
    key = [F.expr(value) for value in KEYS[title]]
    keys = delta.range(0, 60_000, 3, 4)
    count, made = filter_of(keys, key)
    assert count == 20_000
    passing = delta.range(0, 60_000, 1, 4).where(made.may_have(key))
    assert passing.where("id % 3 = 0").count() == 20_000
    assert passing.where("id % 3 <> 0").count() < 40


def test_a_filter_of_no_rows(delta: SparkSession) -> None:
    """Spark makes none, and nothing passes."""
    count, made = filter_of(delta.range(0), [F.col("id")])
    assert count == 0
    assert delta.range(10).where(made.may_have([F.col("id")])).collect() == []


def test_plans_do_not_show_its_bytes(delta: SparkSession) -> None:
    _, made = filter_of(delta.range(1000), [F.col("id")])
    execution = delta.range(10).where(made.may_have([F.col("id")]))._jdf.queryExecution()
    for text in (execution.toString(), execution.simpleString()):
        assert "key filter" in text
        assert len(text) < 5000


def test_rows_that_spark_takes_for_many(delta: SparkSession) -> None:
    assert is_worth_a_filter(delta.range(1000))
    assert not is_worth_a_filter(delta.range(1 << 40))
