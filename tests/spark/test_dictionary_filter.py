"""Parquet's dictionaries decide for a row group only where they say more than its least and its greatest value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.spark.gateway.jvm_classes import JvmValues

pytestmark = pytest.mark.spark

SETTING = "parquet.filter.dictionary.enabled"


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """One file, of whose values neither 500 nor anything near it is one."""
    rows = delta.range(0, 2000, 1, 1).selectExpr(
        "IF(id % 2 = 0, 1, 1000) AS v", "IF(id = 7, NULL, concat('k', id % 3)) AS s"
    )
    rows.write.format("delta").save(path)
    return f"delta.`{path}`"


@pytest.fixture
def session(delta: SparkSession) -> Iterator[SparkSession]:
    yield delta
    delta.conf.unset(SETTING)


def rows_read(frame: DataFrame) -> int:
    """How many rows the reader has returned, before Spark tests each of them."""
    frame.collect()
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return int(plan.collectLeaves().head().metrics().apply("numOutputRows").value())


@pytest.mark.parametrize(
    "condition", ["v = 500", "v IN (400, 500)", "v <=> 500", "v > 5 AND v = 500", "s = 'k11'", "contains(s, 'x')"]
)
def test_a_dictionary_without_the_value_leaves_the_row_group_out(
    session: SparkSession, table: str, condition: str
) -> None:
    assert rows_read(session.sql(f"SELECT * FROM {table} WHERE {condition}")) == 0


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("v > 400 AND v < 600", 2000),
        ("v <= 0 OR v >= 1000", 2000),
        ("s IS NULL AND v > 5", 2000),
        ("v > 1000", 0),
        ("v < 1 OR v > 1000", 0),
        ("s IS NULL AND v < 1", 0),
    ],
)
def test_bounds_need_no_dictionary(session: SparkSession, table: str, condition: str, read: int) -> None:
    """Parquet tests each bound by itself, of which the least and the greatest value say as much."""
    query = f"SELECT * FROM {table} WHERE {condition}"
    assert rows_read(session.sql(query)) == read
    session.conf.set(SETTING, "true")
    assert rows_read(session.sql(query)) == read


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], "false"),
        ([("GreaterThan", "v", 5), ("IsNotNull", "v")], "false"),
        ([("LessThanOrEqual", "v", 5), ("EqualTo", "v", 5)], None),
        ([("StringContains", "s", "x")], None),
    ],
)
def test_what_tasks_get(delta: SparkSession, filters: Sequence[tuple[Any, ...]], expected: str | None) -> None:
    values = JvmValues(delta)
    sources = values.jvm.org.apache.spark.sql.sources
    pushed = [getattr(sources, name)(*arguments) for name, *arguments in filters]
    schema = values.type(StructType.fromDDL("v INT, s STRING"))
    configuration = values.jvm.org.apache.hadoop.conf.Configuration()
    values.anabranch.MappedParquet(None, False).buildReaderWithPartitionValues(
        delta._jsparkSession,
        schema,
        values.type(StructType()),
        schema,
        values.jvm.scala.jdk.javaapi.CollectionConverters.asScala(pushed).toList(),
        values.jvm.anabranch.PlanFunctions.scalaMap({"returning_batch": "false"}),
        configuration,
    )
    assert configuration.get(SETTING) == expected


def test_the_session_can_forbid_it(session: SparkSession, table: str) -> None:
    session.conf.set(SETTING, "false")
    assert rows_read(session.sql(f"SELECT * FROM {table} WHERE v = 500")) == 2000
