"""Filters of keys: each key passes, hardly a row with another does, and plans do not show their bytes."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.conditions.key_filter import KeyFilter

pytestmark = pytest.mark.spark

KEYS = {
    "a number": ["id"],
    "a small number": ["CAST(id % 128 AS TINYINT)", "CAST(id DIV 128 AS INT)"],
    "text": ["concat('é', id)"],
    "a decimal": ["CAST(id AS DECIMAL(38, 6)) / 7"],
    "times": ["date_add(DATE'1970-01-01', CAST(id AS INT))", "timestamp_micros(id * 1000003)"],
    "NULL": ["IF(id % 2 = 0, NULL, id)", "id"],
}


@pytest.mark.parametrize("title", KEYS)
def test_what_passes(delta: SparkSession, title: str) -> None:
    key = [F.expr(value) for value in KEYS[title]]
    key_filter = KeyFilter(delta.range(0, 60_000, 3, 4), key)
    passing = delta.range(0, 60_000, 1, 4).where(key_filter.may_have(key))
    assert passing.where("id % 3 = 0").count() == 20_000
    assert passing.where("id % 3 <> 0").count() < 4


@pytest.mark.parametrize("num_keys", [0, 1, 2, 3, 1000, 100_000])
def test_any_number_of_keys(delta: SparkSession, num_keys: int) -> None:
    """A filter has at least 32 bits for each key, and the bits of a hash are spread over all of them."""
    key = [F.col("id")]
    condition = KeyFilter(delta.range(0, num_keys, 1, 3), key).may_have(key)
    assert delta.range(0, num_keys, 1, 3).where(condition).count() == num_keys
    assert delta.range(num_keys, 1_000_000, 1, 3).where(condition).count() < 10


def passing_without_code(spark: SparkSession, rows: DataFrame, condition: Column) -> list[int]:
    """The rows that pass where Spark sends the expression to executors, instead of code."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        return sorted(row[0] for row in rows.where(condition).collect())
    finally:
        for name in settings:
            spark.conf.unset(name)


@pytest.mark.parametrize("title", KEYS)
def test_the_same_rows_pass_without_generated_code(delta: SparkSession, title: str) -> None:
    key = [F.expr(value) for value in KEYS[title]]
    condition = KeyFilter(delta.range(0, 6000, 60, 2), key).may_have(key)
    rows = delta.range(0, 6000, 1, 2)
    passing = sorted(row[0] for row in rows.where(condition).collect())
    assert set(range(0, 6000, 60)) <= set(passing)
    assert passing_without_code(delta, rows, condition) == passing
    others = passing_without_code(delta, rows, ~condition)
    assert sorted([*passing, *others]) == list(range(6000))


def test_a_wide_row_passes_without_generated_code(delta: SparkSession) -> None:
    """Spark generates no code for more than a hundred columns."""
    wide = delta.range(0, 1000, 1, 2).select("id", *(F.col("id").alias(f"c{number}") for number in range(120)))
    key_filter = KeyFilter(delta.range(0, 1000, 10, 2), [F.col("id")])
    passing = wide.where(key_filter.may_have([F.col("id")]))
    assert sorted(row.id for row in passing.collect()) == list(range(0, 1000, 10))


def test_plans_do_not_show_its_bytes(delta: SparkSession) -> None:
    key_filter = KeyFilter(delta.range(1000), [F.col("id")])
    execution = delta.range(10).where(key_filter.may_have([F.col("id")]))._jdf.queryExecution()
    for text in (execution.toString(), execution.simpleString()):
        assert "key filter" in text
        assert len(text) < 5000
