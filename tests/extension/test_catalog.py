"""`spark.catalog`, views, and catalogs under other names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    """The name of a table that is not there yet."""
    made = f"cataloged_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


def test_create_table_makes_a_log(delta: SparkSession, name: str, path: str) -> None:
    schema = delta.createDataFrame([], "a INT COMMENT 'c', b STRING").schema
    made = delta.catalog.createTable(name, source="delta", schema=schema, description="what it is")
    assert (made.columns, delta.sql(f"DESCRIBE HISTORY {name}").first().operation) == (["a", "b"], "CREATE TABLE")
    assert delta.sql(f"DESCRIBE DETAIL {name}").first().description == "what it is"
    delta.sql(f"DROP TABLE {name}")
    delta.catalog.createTable(name, path=path, source="delta", schema=schema)
    assert Path(path, "_delta_log").is_dir()
    delta.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    delta.sql(f"DROP TABLE {name}")
    assert delta.catalog.createExternalTable(name, path=path, source="delta").collect() == [(1, "x")]


def test_get_table_returns_kind_and_description(delta: SparkSession, name: str, path: str) -> None:
    """Bug B39."""
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta COMMENT 'old'")
    delta.sql(f"COMMENT ON TABLE {name} IS 'new'")
    table = delta.catalog.getTable(name)
    assert (table.description, table.tableType) == ("new", "MANAGED")
    delta.sql(f"DROP TABLE {name}")
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta LOCATION '{path}'")
    assert delta.catalog.getTable(name).tableType == "EXTERNAL"


def test_details_name_a_table_with_its_catalog(delta: SparkSession, name: str) -> None:
    """Bug B39."""
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    assert delta.sql(f"DESCRIBE DETAIL {name}").first().name == f"spark_catalog.default.{name}"


def test_list_columns_marks_partition_columns(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} (a INT COMMENT 'x', p DATE) USING delta PARTITIONED BY (p)")
    columns = [(column.name, column.description, column.isPartition) for column in delta.catalog.listColumns(name)]
    assert columns == [("a", "x", False), ("p", None, True)]


def test_table_exists(delta: SparkSession, name: str, path: str) -> None:
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    for spelling in (name, f"default.{name}", f"spark_catalog.default.{name}"):
        assert delta.catalog.tableExists(spelling)
    assert not delta.catalog.tableExists(f"{name}_2")


def test_a_catalog_under_another_name_has_the_tables_of_the_session(delta: SparkSession, name: str) -> None:
    delta.conf.set("spark.sql.catalog.elsewhere", "delta.DeltaCatalog")
    delta.sql(f"CREATE TABLE elsewhere.default.{name} (a INT) USING delta")
    delta.sql(f"INSERT INTO elsewhere.default.{name} VALUES (1)")
    assert delta.table(name).collect() == [(1,)]
    assert delta.sql(f"DESCRIBE HISTORY elsewhere.default.{name}").count() == 2
    delta.sql("USE elsewhere.default")
    try:
        delta.sql(f"DELETE FROM {name}")
        assert delta.sql(f"OPTIMIZE {name}").count() == 1
    finally:
        delta.sql("USE spark_catalog.default")
    assert delta.table(name).count() == 0


def test_views_follow_their_tables(delta: SparkSession, name: str) -> None:
    """Persistent, temporary and global ones."""
    delta.sql(f"CREATE TABLE {name} (a INT, b STRING) USING delta")
    delta.sql(f"CREATE VIEW {name}_view AS SELECT b, count(*) AS n FROM {name} GROUP BY b")
    try:
        delta.sql(f"CREATE OR REPLACE TEMP VIEW following AS SELECT * FROM {name}")
        delta.sql(f"CREATE OR REPLACE GLOBAL TEMP VIEW following AS SELECT a FROM {name}")
        delta.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'x')")
        assert delta.table(f"{name}_view").collect() == [("x", 2)]
        assert delta.table("following").count() == 2
        assert delta.newSession().table("global_temp.following").count() == 2
    finally:
        delta.sql(f"DROP VIEW {name}_view")


def test_a_view_of_the_catalog_may_name_a_version(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"INSERT INTO {name} VALUES (2)")
    delta.sql(f"CREATE VIEW {name}_view AS SELECT * FROM {name}@v1")
    try:
        assert delta.table(f"{name}_view").collect() == [(1,)]
        assert delta.newSession().table(f"{name}_view").collect() == [(1,)]
    finally:
        delta.sql(f"DROP VIEW {name}_view")
