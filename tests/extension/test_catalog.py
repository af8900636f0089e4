"""Catalogs under other names, and views of the catalog. `spark.catalog` is in `tests/differential/programs/describing.txt`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    """The name of a table that is not there yet."""
    made = f"cataloged_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


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
