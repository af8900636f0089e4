"""MERGE of a large table: a filter of the source's keys changes how many rows are joined, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest import mock

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from anabranch.commands.dml import file_sample
from anabranch.commands.merge import merge_rows, merge_source
from anabranch.spark.conditions.key_filter import KeyFilter
from anabranch.spark.conditions.user_condition import JoinScope
from session_kinds import in_this_process
from tables.large_tables import every_table_is_large

pytestmark = [pytest.mark.spark, in_this_process]

UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
ON = {
    "two keys": "t.a = s.a AND t.b = s.b",
    "NULL equals NULL": "t.a <=> s.a AND t.b = s.b",
    "a column and an expression": "t.a = s.a AND concat(t.b, '!') = concat(s.b, '!')",
    "more than keys": "t.a = s.a AND t.b = s.b AND t.v < s.v",
}


@pytest.fixture
def filters() -> Iterator[list[int]]:
    """How many columns the key of each filter has, of tables that are taken for large."""
    sizes: list[int] = []
    may_have = KeyFilter.may_have

    def counted(made: KeyFilter, key: Sequence[Column]) -> Column:
        sizes.append(len(key))
        return may_have(made, key)

    with mock.patch.object(KeyFilter, "may_have", counted), every_table_is_large():
        yield sizes


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """Twelve files, and a source in two tasks: keys that are there, new ones, and NULL."""
    rows = delta.range(0, 1200, 1, 12).selectExpr(
        "IF(id % 50 = 0, NULL, id) AS a", "CAST(id % 7 AS STRING) AS b", "id AS v"
    )
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    source = delta.sparkContext.parallelize(
        [*((key, str(key % 7), 5000 + key) for key in range(3, 1500, 11)), (None, "1", 9000), (4, None, 9001)], 2
    )
    delta.createDataFrame(source, "a long, b string, v long").createOrReplaceTempView("changes")
    return f"delta.`{path}`"


@pytest.mark.parametrize("title", ON)
def test_the_same_rows_as_without(delta: SparkSession, table: str, filters: list[int], title: str) -> None:
    merge = f"MERGE INTO {table} AS t USING changes AS s ON {ON[title]} {UPSERT}"
    counts = delta.sql(merge).collect()
    rows = sorted(delta.sql(f"SELECT * FROM {table}").collect(), key=repr)
    assert filters == [1 if "expression" in title else 2]
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    with mock.patch.object(file_sample, "SAMPLED_BYTES_MIN", 1 << 40):
        assert delta.sql(merge).collect() == counts
    assert len(filters) == 1
    assert sorted(delta.sql(f"SELECT * FROM {table}").collect(), key=repr) == rows


def test_bounds_of_the_keys_are_asked_first(delta: SparkSession, table: str, filters: list[int]) -> None:
    """To compare a key with two others takes less time than to look it up in the filter."""
    plans: list[str] = []
    where = JoinScope.where

    def planned(scope: JoinScope, rows: DataFrame, conditions: Sequence[Column]) -> DataFrame:
        filtered = where(scope, rows, conditions)
        plans.append(filtered._jdf.queryExecution().optimizedPlan().toString())
        return filtered

    with mock.patch.object(JoinScope, "where", planned):
        delta.sql(f"MERGE INTO {table} AS t USING changes AS s ON t.a = s.a WHEN MATCHED THEN DELETE").collect()
    (plan,) = plans
    assert plan.index(">= 3") < plan.index("<= 1499") < plan.index("key filter")
    assert filters == [1]


def test_clauses_for_unmatched_rows_of_the_table_need_all_of_them(
    delta: SparkSession, table: str, filters: list[int]
) -> None:
    merge = f"MERGE INTO {table} AS t USING changes AS s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN DELETE"
    (row,) = delta.sql(merge).collect()
    assert row.num_deleted_rows == 1199 - len([key for key in range(3, 1200, 11) if key % 50])
    assert filters == []


def test_more_rows_than_a_filter_is_good_for(delta: SparkSession, table: str, filters: list[int]) -> None:
    with mock.patch.object(merge_source, "KEYS_MAX", 100):
        (row,) = delta.sql(
            f"MERGE INTO {table} AS t USING changes AS s ON t.a = s.a WHEN MATCHED THEN DELETE"
        ).collect()
    assert row.num_deleted_rows == 1 + len([key for key in range(3, 1200, 11) if key % 50])
    assert filters == []


def test_a_merge_that_seems_to_update_all_rows_makes_none(delta: SparkSession, table: str, filters: list[int]) -> None:
    """It joins all rows at once."""
    delta.range(0, 1300, 1, 2).selectExpr("id AS a", "id + 5000 AS v").createOrReplaceTempView("refresh")
    with mock.patch.object(merge_rows, "CACHED_ROWS_MAX", 0):
        (row,) = delta.sql(
            f"MERGE INTO {table} AS t USING refresh AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET v = s.v"
        ).collect()
    assert row.num_updated_rows == 1200 - 24
    assert filters == []
