"""Declarative pipelines of Spark, with Delta tables, by Spark's own program and on `anabranch serve`; the catalog is Hive's.

PySpark has pipelines from 4.1 on.
"""

from __future__ import annotations

from typing import Any

import pytest

from serve.pipeline_project import FIRST_RELEASE, RELEASE
from serve.pipeline_runners import PipelineRunner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(RELEASE < FIRST_RELEASE, reason="PySpark has no pipelines"),
]

DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table(format="delta")
def orders():
    return spark.readStream.table("{raw_orders}")


dp.create_streaming_table("all_orders", format="delta")


@dp.append_flow(target="all_orders")
def from_shops():
    return spark.readStream.table("{raw_orders}")


@dp.append_flow(target="all_orders")
def from_phone():
    return spark.readStream.table("{phone_orders}")
"""
VIEW = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view(format="delta")
def totals():
    return spark.read.table("{raw_orders}").groupBy("item").agg(F.sum("pieces").alias("pieces"))
"""
FAILING_VIEW = VIEW.replace(
    'F.sum("pieces")', "F.sum(F.when(F.col('pieces') > 0, F.raise_error(F.lit('no')).cast('int')).otherwise(0))"
)
SQL = "CREATE MATERIALIZED VIEW most_wanted USING delta AS SELECT item FROM totals WHERE pieces >= 4;"
TABLES = {"orders", "all_orders", "totals", "most_wanted"}


def operations(runner: PipelineRunner, table: str) -> list[str]:
    """The operations of a table's history, oldest first, but for properties, which Spark 4.1 resets in each run."""
    history = [str(row[4]) for row in sorted(runner.by.rows(f"DESCRIBE HISTORY {runner.name(table)}"))]
    return [operation for operation in history if not operation.endswith("TBLPROPERTIES")]


def totals(runner: PipelineRunner) -> list[tuple[Any, ...]]:
    return runner.by.rows(f"SELECT item, pieces FROM {runner.name('totals')} ORDER BY item")


def define(runner: PipelineRunner, **definitions: str) -> None:
    """Write the definitions, with the names that the source tables have in this place."""
    names = {table: runner.name(table) for table in ("raw_orders", "phone_orders")}
    runner.project.define(**{file: text.format(**names) for file, text in definitions.items()})


def create_sources(runner: PipelineRunner) -> None:
    for table in ("raw_orders", "phone_orders"):
        runner.by.run(f"CREATE TABLE {runner.name(table)} (id BIGINT, item STRING, pieces INT) USING delta")
    runner.by.run(f"INSERT INTO {runner.name('raw_orders')} VALUES (1, 'tea', 3), (2, 'jam', 1)")
    runner.by.run(f"INSERT INTO {runner.name('phone_orders')} VALUES (10, 'tea', 1)")


def test_streaming_tables_append_flows_and_materialized_views(runner: PipelineRunner) -> None:
    """A dry run makes nothing. A second run reads the new rows alone into streaming tables, and computes the views again,
    each by one commit: a failed flow leaves the rows of the last refresh. A full refresh truncates streaming tables first.
    """
    define(runner, shop=DEFINITIONS, view=VIEW, wanted_sql=SQL)
    create_sources(runner)
    runner.pipeline("dry-run")
    assert not TABLES & runner.tables()

    runner.pipeline("run")
    assert totals(runner) == [("jam", 1), ("tea", 3)]

    runner.by.run(f"INSERT INTO {runner.name('raw_orders')} VALUES (3, 'tea', 2)")
    define(runner, view=FAILING_VIEW)
    assert runner.attempt("run").returncode != 0
    assert totals(runner) == [("jam", 1), ("tea", 3)]

    define(runner, view=VIEW)
    runner.pipeline("run")
    assert totals(runner) == [("jam", 1), ("tea", 5)]
    assert runner.by.rows(f"SELECT item FROM {runner.name('most_wanted')}") == [("tea",)]
    assert runner.by.rows(f"SELECT id FROM {runner.name('all_orders')} ORDER BY id") == [(1,), (2,), (3,), (10,)]
    assert operations(runner, "orders").count("STREAMING UPDATE") == 2
    assert runner.tables() >= TABLES
    assert {runner.by.rows(f"DESCRIBE DETAIL {runner.name(table)}")[0][0] for table in TABLES} == {"delta"}

    runner.pipeline("--full-refresh-all")
    assert totals(runner) == [("jam", 1), ("tea", 5)]
    assert operations(runner, "totals") == ["CREATE TABLE", "WRITE", "WRITE", "WRITE"]
    assert runner.by.rows(f"SELECT id FROM {runner.name('all_orders')} ORDER BY id") == [(1,), (2,), (3,), (10,)]
    assert "TRUNCATE" in operations(runner, "all_orders")
