"""`DeltaTable.update`."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.dml import update_rows
from anabranch.errors.constraints import CastOverflowError, LengthLimitError, NotNullViolationError
from anabranch.errors.schema import MissingFieldsError
from anabranch.tables import DeltaTable
from tables.made_tables import make_table

pytestmark = pytest.mark.spark


def rows(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


def numbers(delta: SparkSession, count: int = 6) -> DataFrame:
    return delta.range(0, count, 1, 2).select("id", (F.col("id") * 10).cast("int").alias("n"), F.lit("w").alias("word"))


def test_metrics(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, numbers(delta))
    table.update("id >= 2", {"n": "0"})
    recorded = table.history(1).collect()[0].operationMetrics
    assert recorded["numUpdatedRows"] == "4"
    assert (recorded["numDeletionVectorsAdded"], recorded["numRemovedFiles"], recorded["numCopiedRows"]) == (
        "1",
        "1",
        "0",
    )
    assert int(recorded["numAddedFiles"]) >= 1
    assert re.search(r"id >= .*2\b", table.history(1).collect()[0].operationParameters["predicate"])
    assert {"executionTimeMs", "scanTimeMs", "rewriteTimeMs", "numAddedBytes", "numRemovedBytes"} <= recorded.keys()


def test_metrics_of_copy_on_write(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, numbers(delta), enableDeletionVectors="false")
    table.update("id = 2", {"n": "0"})
    recorded = table.history(1).collect()[0].operationMetrics
    assert (recorded["numUpdatedRows"], recorded["numCopiedRows"], recorded["numRemovedFiles"]) == ("1", "2", "1")


def test_values_that_do_not_fit_are_refused(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, numbers(delta))
    with pytest.raises(CastOverflowError, match=r"n of .* is int"):
        table.update("id = 1", {"n": "'seven'"})
    with pytest.raises(CastOverflowError):
        table.update("id = 1", {"n": "id + 3000000000"})
    assert table.history().count() == 1


def test_rules_of_columns_hold(delta: SparkSession, path: str) -> None:
    DeltaTable.create(delta).location(path).addColumn("id", "INT", nullable=False).addColumn(
        "code", "VARCHAR(3)"
    ).execute()
    delta.createDataFrame([(1, "abc")], "id int, code string").write.format("delta").mode("append").save(path)
    table = DeltaTable.forPath(delta, path)
    with pytest.raises(NotNullViolationError, match="id"):
        table.update(set={"id": "NULL"})
    with pytest.raises(LengthLimitError, match="code"):
        table.update(set={"code": "'abcd'"})
    assert rows(table) == [(1, "abc")]


@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_struct_that_lacks_a_field_is_refused(delta: SparkSession, path: str, setting: str) -> None:
    """The schema never evolves in an UPDATE, even if the session lets MERGE evolve it."""
    table = make_table(delta, path, delta.sql("SELECT 1 AS id, named_struct('x', 1, 'y', 2) AS s"))
    delta.conf.set("spark.databricks.delta.schema.autoMerge.enabled", setting)
    try:
        with pytest.raises(MissingFieldsError, match=r"lacks s\.y") as caught:
            table.update(set={"s": "named_struct('x', 5)"})
    finally:
        delta.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert caught.value.getCondition() == "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    table.update(set={"s": "named_struct('y', 5, 'x', 6L)"})
    assert rows(table) == [(1, (6, 5))]


def test_random_values_are_computed_once(delta: SparkSession, path: str, vectors: str) -> None:
    table = make_table(delta, path, numbers(delta, 50), enableDeletionVectors=vectors)
    table.update("rand() < 0.5", {"n": "-1"})
    assert table.toDF().count() == 50
    changed = int(table.history(1).collect()[0].operationMetrics["numUpdatedRows"])
    assert table.toDF().where("n = -1").count() == changed


@pytest.mark.long
def test_rows_of_a_cache_that_is_lost_are_not_chosen_again(
    delta: SparkSession, path: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers fault F10: with an executor goes what it has cached, between the job that finds rows and the one that writes."""
    table = make_table(delta, path, numbers(delta, 50), enableDeletionVectors=vectors)
    find = update_rows.rows_of_frame

    def find_and_lose_the_cache(*arguments: Any) -> Any:
        rows = find(*arguments)
        delta.catalog.clearCache()
        return rows

    monkeypatch.setattr(update_rows, "rows_of_frame", find_and_lose_the_cache)
    coin = F.udf(lambda _: os.urandom(1)[0] < 128, "boolean").asNondeterministic()
    table.update(coin("id"), {"n": F.lit(-1)})
    assert [row[0] for row in rows(table)] == list(range(50))
    changed = int(table.history(1).collect()[0].operationMetrics["numUpdatedRows"])
    assert table.toDF().where("n = -1").count() == changed


def test_bad_arguments(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, numbers(delta))
    with pytest.raises(ValueError, match="set cannot be None"):
        table.update("id = 1")
    with pytest.raises(TypeError, match="dict"):
        table.update("id = 1", "n = 1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Values of dict in set"):
        table.update("id = 1", {"n": 1})  # type: ignore[dict-item]
    with pytest.raises(AnalysisException, match="nope"):
        table.update("id = 1", {"n": "nope + 1"})
