"""Declarative pipelines of Spark, with Delta tables, on `anabranch serve`, whose catalog is Hive's.

PySpark has pipelines from 4.1 on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serve.pipeline_project import FIRST_RELEASE, RELEASE, Project
from serve.served import Client, client, served

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
    return spark.readStream.table("raw_orders")


dp.create_streaming_table("all_orders", format="delta")


@dp.append_flow(target="all_orders")
def from_shops():
    return spark.readStream.table("raw_orders")


@dp.append_flow(target="all_orders")
def from_phone():
    return spark.readStream.table("phone_orders")
"""
VIEW = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view(format="delta")
def totals():
    return spark.read.table("raw_orders").groupBy("item").agg(F.sum("pieces").alias("pieces"))
"""
FAILING_VIEW = VIEW.replace(
    'F.sum("pieces")', "F.sum(F.when(F.col('pieces') > 0, F.raise_error(F.lit('no')).cast('int')).otherwise(0))"
)
SQL = "CREATE MATERIALIZED VIEW most_wanted USING delta AS SELECT item FROM totals WHERE pieces >= 4;"
TABLES = {"orders", "all_orders", "totals", "most_wanted"}


def operations(by: Client, table: str) -> list[str]:
    """The operations of a table's history, oldest first, but for properties, which Spark 4.1 resets in each run."""
    history = [str(row[4]) for row in sorted(by.rows(f"DESCRIBE HISTORY {table}"))]
    return [operation for operation in history if not operation.endswith("TBLPROPERTIES")]


def totals(by: Client, version: str = "") -> list[tuple[Any, ...]]:
    return by.rows(f"SELECT item, pieces FROM totals{version} ORDER BY item")


def create_sources(by: Client) -> None:
    for table in ("raw_orders", "phone_orders"):
        by.run(f"CREATE TABLE {table} (id BIGINT, item STRING, pieces INT) USING delta")
    by.run("INSERT INTO raw_orders VALUES (1, 'tea', 3), (2, 'jam', 1)")
    by.run("INSERT INTO phone_orders VALUES (10, 'tea', 1)")


def test_streaming_tables_append_flows_and_materialized_views(tmp_path: Path) -> None:
    """A dry run makes nothing. A second run reads the new rows alone into streaming tables, and computes the views again."""
    project = Project(tmp_path / "shop")
    project.define(shop=DEFINITIONS, view=VIEW, wanted_sql=SQL)
    with served(tmp_path / "warehouse") as server, client(server, "connect") as by:
        create_sources(by)
        project.run("dry-run", SPARK_REMOTE=server.connect_url)
        assert not TABLES & {row[1] for row in by.rows("SHOW TABLES")}

        project.run(SPARK_REMOTE=server.connect_url)
        assert totals(by) == [("jam", 1), ("tea", 3)]

        by.run("INSERT INTO raw_orders VALUES (3, 'tea', 2)")
        project.run(SPARK_REMOTE=server.connect_url)
        assert totals(by) == [("jam", 1), ("tea", 5)]
        assert by.rows("SELECT item FROM most_wanted") == [("tea",)]
        assert by.rows("SELECT id FROM all_orders ORDER BY id") == [(1,), (2,), (3,), (10,)]
        assert operations(by, "orders").count("STREAMING UPDATE") == 2
        assert {by.rows(f"DESCRIBE DETAIL {name}")[0][0] for name in TABLES} == {"delta"}


def test_a_view_is_refreshed_by_one_commit(tmp_path: Path) -> None:
    """A failed flow leaves the rows of the last refresh. A streaming table that is made again is truncated first."""
    project = Project(tmp_path / "shop")
    project.define(shop=DEFINITIONS, view=VIEW)
    with served(tmp_path / "warehouse") as server, client(server, "connect") as by:
        create_sources(by)
        project.run(SPARK_REMOTE=server.connect_url)
        by.run("INSERT INTO raw_orders VALUES (3, 'tea', 2)")

        project.define(view=FAILING_VIEW)
        failed = project.attempt("run", environment={"SPARK_REMOTE": server.connect_url})
        assert failed.returncode != 0
        assert totals(by) == [("jam", 1), ("tea", 3)]

        project.define(view=VIEW)
        project.run("--full-refresh-all", SPARK_REMOTE=server.connect_url)
        assert totals(by) == [("jam", 1), ("tea", 5)]
        assert operations(by, "totals") == ["CREATE TABLE", "WRITE", "WRITE"]
        assert by.rows("SELECT id FROM all_orders ORDER BY id") == [(1,), (2,), (3,), (10,)]
        assert "TRUNCATE" in operations(by, "all_orders")
