"""Declarative pipelines of Spark, with Delta tables, on `anabranch serve`.

PySpark has pipelines from 4.1 on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from serve.served import Served, client, served

FIRST_RELEASE = (4, 1)
pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < FIRST_RELEASE, reason="PySpark has no pipelines"
    ),
]

DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(format="delta")
def orders():
    return spark.readStream.table("raw_orders")


@dp.materialized_view(format="delta")
def totals():
    return spark.read.table("orders").groupBy("item").agg(F.sum("pieces").alias("pieces"))
"""
SQL = "CREATE MATERIALIZED VIEW most_wanted USING delta AS SELECT item FROM totals WHERE pieces >= 4;"


def run(project: Path, server: Served) -> None:
    environment = {**os.environ, "SPARK_REMOTE": server.connect_url}
    command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(project / "spark-pipeline.yml")]
    outcome = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300, cwd=project
    )
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-4000:]


def test_a_pipeline_of_streaming_tables_and_materialized_views(tmp_path: Path) -> None:
    """A second run reads the new rows alone into the streaming table, and computes the views again."""
    project = tmp_path / "shop"
    (project / "definitions").mkdir(parents=True)
    (project / "definitions" / "shop.py").write_text(DEFINITIONS)
    (project / "definitions" / "wanted.sql").write_text(SQL)
    libraries = [{"glob": {"include": "definitions/**"}}]
    # JSON is YAML too.
    spec = {"name": "shop", "storage": (tmp_path / "storage").as_uri(), "libraries": libraries}
    (project / "spark-pipeline.yml").write_text(json.dumps(spec))
    with served(tmp_path / "warehouse") as server, client(server, "connect") as by:
        by.run("CREATE TABLE raw_orders (id BIGINT, item STRING, pieces INT) USING delta")
        by.run("INSERT INTO raw_orders VALUES (1, 'tea', 3), (2, 'jam', 1)")
        run(project, server)
        assert by.rows("SELECT item, pieces FROM totals ORDER BY item") == [("jam", 1), ("tea", 3)]

        by.run("INSERT INTO raw_orders VALUES (3, 'tea', 2)")
        run(project, server)
        assert by.rows("SELECT item, pieces FROM totals ORDER BY item") == [("jam", 1), ("tea", 5)]
        assert by.rows("SELECT item FROM most_wanted") == [("tea",)]
        history = by.rows("DESCRIBE HISTORY orders")
        assert [row[4] for row in history].count("STREAMING UPDATE") == 2
        assert {by.rows(f"DESCRIBE DETAIL {name}")[0][0] for name in ("orders", "totals", "most_wanted")} == {"delta"}
