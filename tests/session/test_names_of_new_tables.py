"""Names that a new table cannot have, and folders that are not free for one: nothing is written, and nothing taken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.tables import InvalidTableNameError, TableInLocationError
from anabranch.tables import DeltaTable
from session_kinds import in_this_process

pytestmark = pytest.mark.spark


def warehouse(delta: SparkSession) -> Path:
    return Path(delta.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))


def creations(delta: SparkSession, name: str, source: str) -> dict[str, Callable[[], object]]:
    """Ways to make a table of that name, none of which replaces one."""
    rows = delta.range(3)
    quoted = f"`{name}`"
    return {
        "CREATE": lambda: delta.sql(f"CREATE TABLE {quoted} (id BIGINT) USING delta"),
        "IF NOT EXISTS": lambda: delta.sql(f"CREATE TABLE IF NOT EXISTS {quoted} (id BIGINT) USING delta"),
        "AS": lambda: delta.sql(f"CREATE TABLE {quoted} USING delta AS SELECT 1L AS id"),
        "IF NOT EXISTS AS": lambda: delta.sql(f"CREATE TABLE IF NOT EXISTS {quoted} USING delta AS SELECT 1L AS id"),
        "LIKE": lambda: delta.sql(f"CREATE TABLE {quoted} LIKE delta.`{source}` USING delta"),
        "CLONE": lambda: delta.sql(f"CREATE TABLE {quoted} SHALLOW CLONE delta.`{source}`"),
        "IF NOT EXISTS CLONE": lambda: delta.sql(f"CREATE TABLE IF NOT EXISTS {quoted} SHALLOW CLONE delta.`{source}`"),
        "saveAsTable": lambda: rows.write.format("delta").saveAsTable(quoted),
        "append": lambda: rows.write.format("delta").mode("append").saveAsTable(quoted),
        "writeTo": lambda: rows.writeTo(quoted).using("delta").create(),
        "builder": lambda: DeltaTable.create(delta).tableName(quoted).addColumn("id", "LONG").execute(),
        "createIfNotExists": (
            lambda: DeltaTable.createIfNotExists(delta).tableName(quoted).addColumn("id", "LONG").execute()
        ),
        "createTable": lambda: delta.catalog.createTable(quoted, source="delta", schema=rows.schema),
    }


def test_a_name_that_the_catalog_refuses_leaves_nothing_behind(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Covers bug B64: the log was written, even outside the warehouse, and the name refused behind it."""
    delta.range(1).write.format("delta").save(path)
    there = set(warehouse(delta).parent.rglob("_delta_log"))
    for name in ("../outside", "a-b", "%2e%2e", "é"):
        located = f"CREATE TABLE `{name}` (id INT) USING delta LOCATION '{tmp_path}/located'"
        replaced = f"CREATE OR REPLACE TABLE `{name}` USING delta AS SELECT 1"
        statements = creations(delta, name, path) if name == "../outside" else {}
        statements |= {text: lambda sql=text: delta.sql(sql) for text in (located, replaced)}  # type: ignore[misc]
        for statement in statements.values():
            with pytest.raises(InvalidTableNameError, match="cannot be the name of a table"):
                statement()
    assert set(warehouse(delta).parent.rglob("_delta_log")) == there
    assert not (tmp_path / "located").exists()


def test_a_table_in_the_folder_of_a_new_name_is_not_taken_over(delta: SparkSession, name: str, path: str) -> None:
    """Covers bug B63: a managed table had the rows of the files that were in its folder, and DROP deleted them."""
    delta.range(1).write.format("delta").save(path)
    folder = warehouse(delta) / name
    delta.range(5).write.format("delta").save(str(folder))
    replaces = {"OR REPLACE": lambda: delta.sql(f"CREATE OR REPLACE TABLE {name} (id BIGINT) USING delta")}
    for statement in {**creations(delta, name, path), **replaces}.values():
        with pytest.raises(TableInLocationError, match=r"LOCATION '.*'") as raised:
            statement()
        assert isinstance(raised.value, AnalysisException)
        assert raised.value.getCondition() == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
        assert not delta.catalog.tableExists(name)
    with pytest.raises(TableInLocationError):
        delta.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}' AS SELECT 1L AS id")
    assert DeltaTable.forPath(delta, str(folder)).history().count() == 1
    delta.sql(f"CREATE TABLE {name} USING delta LOCATION '{folder}'")
    assert delta.table(name).count() == 5
    delta.sql(f"DROP TABLE {name}")
    delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT 1L AS id")
    assert delta.table(name).collect() == [(1,)]


@in_this_process
def test_a_write_over_parquet_files_says_so(delta: SparkSession, path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Covers bug B66: their rows were no longer visible, without a warning."""
    delta.range(3).write.parquet(path)
    with caplog.at_level(logging.WARNING, "anabranch.commit"):
        delta.range(1).write.format("delta").mode("append").save(path)
        assert [record for record in caplog.messages if "CONVERT TO DELTA" in record and path in record]
        caplog.clear()
        delta.range(1).write.format("delta").mode("append").save(path)
        delta.range(1).write.format("delta").save(f"{path}-new")
    assert caplog.messages == []
