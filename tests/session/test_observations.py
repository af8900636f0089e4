"""`df.observe` of rows that are written."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = [pytest.mark.spark, classic]
WAITED_S = 20.0


def counted(delta: SparkSession, write: Callable[[DataFrame], object]) -> object:
    """What the observation of three rows has counted; None where no job completes it."""
    observation = Observation()
    write(delta.range(3).withColumn("k", F.col("id") % 2).observe(observation, F.count(F.lit(1)).alias("rows")))
    results: list[object] = []
    waiting = threading.Thread(target=lambda: results.append(observation.get), daemon=True)
    waiting.start()
    waiting.join(WAITED_S)
    return results[0] if results else None


def test_observations_of_writes_are_completed(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B68: they were empty for rows of a new table, and those of MERGE never came."""

    def save(mode: str, **options: str) -> Callable[[DataFrame], object]:
        return lambda rows: rows.write.format("delta").mode(mode).options(**options).partitionBy("k").save(path)

    def named(mode: str, **options: str) -> Callable[[DataFrame], object]:
        return lambda rows: rows.write.format("delta").mode(mode).options(**options).saveAsTable(name)

    def by_sql(statement: str) -> Callable[[DataFrame], object]:
        def run(rows: DataFrame) -> None:
            rows.createOrReplaceTempView("observed")
            delta.sql(statement)

        return run

    def merge(rows: DataFrame) -> None:
        target = DeltaTable.forName(delta, name).alias("t")
        target.merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    writes = {
        "save": save("append"),
        "dynamic": save("overwrite", partitionOverwriteMode="dynamic"),
        "replaceWhere": save("overwrite", replaceWhere="id < 10"),
        "overwriteSchema": save("overwrite", overwriteSchema="true"),
        "saveAsTable": named("errorifexists"),
        "append": named("append"),
        "overwrite": named("overwrite"),
        "replaces the schema": named("overwrite", overwriteSchema="true"),
        "create or replace": lambda rows: rows.writeTo(name).using("delta").createOrReplace(),
        "replace": lambda rows: rows.writeTo(name).using("delta").replace(),
        "overwrites by name": lambda rows: rows.writeTo(name).overwrite(F.col("id") < 5),
        "partitions by name": lambda rows: rows.writeTo(name).overwritePartitions(),
        "AS SELECT": by_sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT * FROM observed"),
        "INSERT": by_sql(f"INSERT INTO {name} REPLACE WHERE id < 10 SELECT * FROM observed"),
        "replaceUsing": named("overwrite", replaceUsing="id"),
    }
    assert [name for name, write in writes.items() if counted(delta, write) != {"rows": 3}] == []
    merges = {
        "MERGE": by_sql(f"MERGE INTO {name} t USING observed s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"),
        "merge": merge,
    }
    assert [name for name, write in merges.items() if counted(delta, write) != {"rows": 0}] == []
