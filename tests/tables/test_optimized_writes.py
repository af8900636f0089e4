"""Optimized writes: a shuffle before the write, so that it makes few files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.arguments import InvalidOptionError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

ENABLED = "spark.databricks.delta.optimizeWrite.enabled"
BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"
PARALLEL = "spark.sql.adaptive.coalescePartitions.parallelismFirst"
PROPERTY = "delta.autoOptimize.optimizeWrite"


@contextmanager
def settings(delta: SparkSession, **values: str) -> Iterator[None]:
    named = {
        {"enabled": ENABLED, "bin_size": BIN_SIZE, "adaptive": "spark.sql.adaptive.enabled", "parallel": PARALLEL}[
            name
        ]: value
        for name, value in values.items()
    }
    before = {name: delta.conf.get(name, None) for name in named}
    for name, value in named.items():
        delta.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            delta.conf.unset(name) if value is None else delta.conf.set(name, value)


def many_tasks(delta: SparkSession) -> DataFrame:
    """Four tasks with rows of both partitions each."""
    return delta.range(0, 400, 1, 4).selectExpr("id", "CAST(id % 2 AS INT) AS p")


def files(path: str) -> int:
    return len([file for file in Path(path).rglob("*.parquet") if "_delta_log" not in file.parts])


def ids(delta: SparkSession, path: str) -> list[int]:
    return sorted(row[0] for row in delta.read.format("delta").load(path).select("id").collect())


def test_a_write_makes_one_file_a_partition(delta: SparkSession, path: str, tmp_path: Path) -> None:
    plain, parted = f"{path}-plain", str(tmp_path / "by `p`")
    with settings(delta, adaptive="true"):
        for folder, columns in ((plain, []), (parted, ["p"])):
            writer = many_tasks(delta).write.format("delta").option("optimizeWrite", "true")
            (writer.partitionBy(*columns) if columns else writer).save(folder)
    assert files(plain) == 1
    assert files(parted) == 2
    assert ids(delta, plain) == ids(delta, parted) == list(range(400))


@pytest.mark.parametrize(
    ("option", "setting", "wanted", "few"),
    [
        (None, None, None, False),
        (None, None, "true", True),
        (None, "true", None, True),
        (None, "false", "true", False),
        ("true", "false", "false", True),
        ("false", "true", "true", False),
    ],
)
def test_the_option_goes_before_the_session_and_that_before_the_table(
    delta: SparkSession, path: str, option: str | None, setting: str | None, wanted: str | None, few: bool
) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta")
    if wanted is not None:
        delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{PROPERTY}' = '{wanted}')")
    options = {} if option is None else {"optimizeWrite": option}
    of_session = {} if setting is None else {"enabled": setting}
    with settings(delta, adaptive="true", **of_session):
        many_tasks(delta).write.format("delta").mode("append").options(**options).save(path)
    assert files(path) == (1 if few else 4)


def test_files_are_as_large_as_the_session_says(delta: SparkSession, path: str) -> None:
    rows = delta.range(0, 60_000, 1, 4).selectExpr("id", "CAST(0 AS INT) AS p", "sha2(CAST(id AS STRING), 512) AS text")
    with settings(delta, adaptive="true", enabled="true", bin_size="2m"):
        rows.write.format("delta").save(path)
    few = files(path)
    assert few > 1
    with settings(delta, adaptive="true", enabled="true", bin_size="1g", parallel="false"):
        rows.write.format("delta").mode("append").save(path)
    assert files(path) == few + 1


def test_rows_that_a_statement_changes_are_brought_together_too(delta: SparkSession, path: str) -> None:
    properties = f"'{PROPERTY}' = 'true', 'delta.enableDeletionVectors' = 'true'"
    delta.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta TBLPROPERTIES ({properties})")
    with settings(delta, adaptive="true"):
        many_tasks(delta).write.format("delta").mode("append").save(path)
        source = "SELECT /*+ REPARTITION(4) */ id + 399 AS id, 7 AS p FROM range(100)"
        before = files(path)
        delta.sql(
            f"MERGE INTO delta.`{path}` t USING ({source}) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    assert files(path) == before + 1
    assert ids(delta, path) == list(range(499))
    assert DeltaTable.forPath(delta, path).toDF().where("p = 7").count() == 100


def test_without_adaptive_execution_rows_are_written_where_they_are(delta: SparkSession, path: str) -> None:
    with settings(delta, adaptive="false", enabled="true"):
        many_tasks(delta).write.format("delta").save(path)
    assert files(path) == 4


def test_words_that_mean_nothing_are_refused_before_anything_is_written(delta: SparkSession, path: str) -> None:
    writer = many_tasks(delta).write.format("delta")
    with settings(delta, adaptive="true"), pytest.raises(InvalidOptionError, match="optimizeWrite"):
        writer.option("optimizeWrite", "perhaps").save(path)
    for values in ({"enabled": "perhaps"}, {"enabled": "true", "bin_size": "large"}):
        with settings(delta, adaptive="true", **values), pytest.raises(InvalidOptionError, match="optimizeWrite"):
            many_tasks(delta).write.format("delta").save(path)
    assert files(path) == 0
