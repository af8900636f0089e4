"""Statements that change rows through views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import HistoricalTargetError, PartialTargetError, UnchangeableTargetError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    delta.sql(f"CREATE TABLE {name} (key INT, value INT) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (0, 3), (1, 2)")
    return name


@pytest.fixture(params=["of SQL", "of a DataFrame"])
def view(delta: SparkSession, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes a temporary view of a query."""

    def make(query: str) -> str:
        if request.param == "of SQL":
            delta.sql(f"CREATE OR REPLACE TEMP VIEW a_view AS {query}")
        else:
            delta.sql(query).createOrReplaceTempView("a_view")
        return "a_view"

    yield make
    delta.catalog.dropTempView("a_view")


def rows(delta: SparkSession, table: str) -> list[Any]:
    return sorted(tuple(row) for row in delta.table(table).collect())


def test_a_view_with_more_columns_is_written_as_its_table(delta: SparkSession, table: str, view: Any) -> None:
    """Views of the table's columns alone are in `tests/differential/programs/conditions.txt`."""
    made = view(f"SELECT key, value, 1 AS k FROM {table}")
    updated = delta.sql(f"UPDATE {made} SET value = key + value, key = key + 1 WHERE key >= 1 AND value < 3")
    assert updated.first() == (1,)
    assert rows(delta, table) == [(0, 3), (2, 3)]
    delta.sql(
        f"""MERGE INTO {made} USING (SELECT * FROM VALUES (2, 9), (5, 5) AS v(a, b)) AS src ON src.a = {made}.key
            WHEN MATCHED THEN UPDATE SET {made}.value = src.b
            WHEN NOT MATCHED THEN INSERT (key, value) VALUES (src.a, src.b)"""
    )
    assert rows(delta, table) == [(0, 3), (2, 9), (5, 5)]
    assert delta.sql(f"DELETE FROM {made} WHERE key = 5").first() == (1,)
    assert [row.key for row in delta.table(made).collect()] in ([0, 2], [2, 0])


def test_a_view_that_renames_columns_names_them(delta: SparkSession, table: str, view: Any) -> None:
    made = view(f"SELECT value AS key, key AS value FROM {table}")
    delta.sql(f"UPDATE {made} SET value = key + value, key = key + 1 WHERE key >= 1 AND value < 1")
    assert rows(delta, table) == [(1, 2), (3, 4)]
    delta.sql(
        f"MERGE INTO {made} v USING (SELECT 4 AS key, 8 AS value) s ON v.key = s.key WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(delta, table) == [(1, 2), (8, 4)]
    assert delta.sql(f"DELETE FROM {made} WHERE key IN (SELECT max(key) FROM {made})").first() == (1,)
    assert rows(delta, table) == [(1, 2)]


def test_a_view_shows_no_more_than_its_columns_and_rows(delta: SparkSession, table: str, view: Any) -> None:
    made = view(f"SELECT key FROM {table} WHERE value > 2")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        delta.sql(f"UPDATE {made} SET value = 1")
    assert delta.sql(f"UPDATE {made} SET key = 7").first() == (1,)
    assert rows(delta, table) == [(1, 2), (7, 3)]
    assert delta.sql(f"DELETE FROM {made}").first() == (1,)
    assert rows(delta, table) == [(1, 2)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT key, max(value) AS value FROM {t} GROUP BY key",
        "SELECT a.key, a.value FROM {t} a JOIN {t} b ON a.key = b.key",
        "SELECT * FROM {t} LIMIT 1",
        "SELECT * FROM {t} VERSION AS OF 1",
    ],
)
def test_views_of_anything_else_are_refused(delta: SparkSession, table: str, view: Any, query: str) -> None:
    made = view(query.format(t=table))
    for text in (
        f"DELETE FROM {made} WHERE key = 1",
        f"UPDATE {made} SET key = 1",
        f"MERGE INTO {made} v USING (SELECT 1 AS a) s ON v.key = s.a WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(UnchangeableTargetError, match=text.split()[0]):
            delta.sql(text)
    assert rows(delta, table) == [(0, 3), (1, 2)]


def test_merge_wants_all_rows_of_its_target(delta: SparkSession, table: str, view: Any) -> None:
    """As in delta-spark: what it inserts may be nothing that a filtered view shows."""
    merge = "MERGE INTO {} shown USING (SELECT 0 AS a) s ON shown.key = s.a WHEN MATCHED THEN DELETE"
    for query in (f"SELECT * FROM {table} WHERE value <> 0", f"SELECT key FROM (SELECT * FROM {table} WHERE key < 9)"):
        with pytest.raises(PartialTargetError, match="some of the table's rows") as refused:
            delta.sql(merge.format(view(query)))
        assert refused.value.getCondition() == "DELTA_UNEXPECTED_PARTIAL_SCAN"
    with pytest.raises(HistoricalTargetError, match="version 1"):
        delta.sql(merge.format(view(f"SELECT * FROM {table} VERSION AS OF 1")))
    assert rows(delta, table) == [(0, 3), (1, 2)]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        delta.sql(merge.format(view(f"SELECT value FROM {table}")))
    assert delta.sql(merge.format(view(f"SELECT key FROM {table}"))).first()[0] == 1
    assert rows(delta, table) == [(1, 2)]


def test_computed_columns_of_a_view_are_not_set(delta: SparkSession, table: str, view: Any) -> None:
    made = view(f"SELECT key, value + 1 AS more FROM {table}")
    with pytest.raises(AnalysisException, match="cannot be set"):
        delta.sql(f"UPDATE {made} SET more = 1")
    assert delta.sql(f"UPDATE {made} SET key = more WHERE more = 4").first() == (1,)
    assert rows(delta, table) == [(1, 2), (4, 3)]


def test_views_of_the_catalog_are_refused(delta: SparkSession, table: str) -> None:
    delta.sql(f"CREATE VIEW {table}_view AS SELECT * FROM {table}")
    try:
        for text in (f"DELETE FROM {table}_view", f"UPDATE {table}_view SET key = 1"):
            with pytest.raises(AnalysisException, match="view"):
                delta.sql(text)
    finally:
        delta.sql(f"DROP VIEW {table}_view")
    assert rows(delta, table) == [(0, 3), (1, 2)]
