"""INSERT with PARTITION, on every way by which a session knows Delta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MODE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def dynamic(delta: SparkSession) -> Iterator[None]:
    delta.conf.set(MODE, "dynamic")
    yield
    delta.conf.unset(MODE)


def rows(delta: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT * FROM {table}").collect())


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """A table of two partition columns."""
    name = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {name} (v INT, id INT, p INT) USING delta PARTITIONED BY (id, p)")
    delta.sql(f"INSERT INTO {name} VALUES (0, 1, 2), (0, 2, 2), (0, 2, 3)")
    return name


def test_dynamic_overwrite_leaves_partitions_that_get_no_row(delta: SparkSession, table: str, dynamic: None) -> None:
    """Bug B3: where PARTITION gave one of two partition columns, all partitions with its value were replaced."""
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 2) SELECT 9 AS v, 1 AS id")
    assert rows(delta, table) == [(0, 2, 2), (0, 2, 3), (9, 1, 2)]
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 3, id) SELECT 8 AS v, 7 AS id")
    assert rows(delta, table) == [(0, 2, 2), (0, 2, 3), (8, 7, 3), (9, 1, 2)]


def test_dynamic_overwrite_by_no_row_replaces_nothing(delta: SparkSession, table: str, dynamic: None) -> None:
    """It replaces nothing, as with delta-spark, even where PARTITION names one partition."""
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 2, id = 2) SELECT 9 AS v WHERE false")
    assert len(rows(delta, table)) == 3
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 2, id = 2) SELECT 9 AS v")
    assert rows(delta, table) == [(0, 1, 2), (0, 2, 3), (9, 2, 2)]


def test_static_overwrite_replaces_all_that_the_partition_names(delta: SparkSession, table: str) -> None:
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 2) SELECT 9 AS v, 1 AS id")
    assert rows(delta, table) == [(0, 2, 3), (9, 1, 2)]
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (p = 3, id = 2) SELECT 9 AS v WHERE false")
    assert rows(delta, table) == [(9, 1, 2)]


@pytest.mark.parametrize("query", ["VALUES (5, 5, 5)", "SELECT 5, 5, 5", "VALUES (DEFAULT, 5, 5)"])
def test_a_partition_with_a_value_is_no_column_of_the_list(delta: SparkSession, table: str, query: str) -> None:
    """Bug B4: the list's value was lost."""
    for verb in ("INTO", "OVERWRITE"):
        with pytest.raises(AnalysisException, match="STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST") as refused:
            delta.sql(f"INSERT {verb} {table} PARTITION (p = 2) (v, id, P) {query}")
        assert refused.value.getSqlState() == "42713"
    assert len(rows(delta, table)) == 3
