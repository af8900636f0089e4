"""Declarative pipelines in an environment that is switched on: Spark's own command starts the server in its own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from serve.pipeline_project import FIRST_RELEASE, FIRST_WITH_AUTO_CDC, RELEASE, Project

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.usefixtures("connect_port"),
    pytest.mark.skipif(RELEASE < FIRST_RELEASE, reason="PySpark has no pipelines"),
]

ORDERS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(format="delta")
def events():
    return spark.readStream.format("delta").load({source!r})


@dp.materialized_view(format="delta")
def names():
    return spark.read.table("events").groupBy("id").agg(F.max_by("name", "seq").alias("name"))
"""
CUSTOMERS = """
dp.create_streaming_table("customers", format="delta")
dp.create_auto_cdc_flow(
    target="customers",
    source="events",
    keys=["id"],
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    except_column_list=["op", "seq"],
)
"""


def test_pipelines_in_an_environment_that_is_switched_on(
    delta: SparkSession, python: Callable[..., Any], environment: Any, tmp_path: Path
) -> None:
    """Two runs, each a driver of its own over one catalog of Hive's."""
    source, warehouse, settings = str(tmp_path / "source"), tmp_path / "warehouse", tmp_path / "conf"
    settings.mkdir()
    metastore = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    (settings / "spark-defaults.conf").write_text(
        f"spark.sql.warehouse.dir {warehouse}\nspark.sql.catalogImplementation hive\nspark.ui.enabled false\n"
        f"spark.hadoop.javax.jdo.option.ConnectionURL {metastore}\nspark.sql.shuffle.partitions 2\n"
    )
    assert python("-m", "anabranch", "auto", "on", executable=environment.python).returncode == 0
    project = Project(tmp_path / "shop")
    follows = RELEASE >= FIRST_WITH_AUTO_CDC
    project.define(shop=ORDERS.format(source=source) + (CUSTOMERS if follows else ""))
    command = (str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"),)
    variables = {
        "PYSPARK_PYTHON": str(environment.python),
        "SPARK_CONF_DIR": str(settings),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
        frame = delta.read.format("delta").load(str(warehouse / table))
        return [tuple(row) for row in frame.selectExpr(*columns.split()).sort("id").collect()]

    for events, names, customers in (
        ("(1, 'Ada', 'U', 1), (2, 'Bea', 'U', 1)", [(1, "Ada"), (2, "Bea")], [(1, "Ada"), (2, "Bea")]),
        ("(1, 'Ann', 'U', 2), (2, NULL, 'D', 2)", [(1, "Ann"), (2, None)], [(1, "Ann")]),
    ):
        delta.sql(f"SELECT * FROM VALUES {events} AS (id, name, op, seq)").write.format("delta").mode("append").save(
            source
        )
        project.run("run", program=command, **variables)
        assert rows("names", "id name") == names
        if follows:
            assert rows("customers", "id name") == customers
