"""Tables made and replaced together with their rows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.callbacks import staging_handler
from anabranch.commands import catalog_registration
from anabranch.errors.commits import ProtocolChangedException
from anabranch.errors.tables import (
    LocationNotEmptyError,
    TableAlreadyExistsError,
    TableInLocationError,
)
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

FAILING = "SELECT CAST(raise_error('no') AS INT) AS a, id FROM range(3)"


def rows(delta: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in delta.table(table).collect())


def test_a_table_is_replaced_by_its_own_rows(delta: SparkSession, name: str) -> None:
    with pytest.raises(AnalysisException) as missing:
        delta.sql(f"REPLACE TABLE {name} USING delta AS SELECT 1 AS a")
    assert missing.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT id FROM range(2)")
    delta.sql(f"REPLACE TABLE {name} USING delta AS SELECT id + 10 AS other FROM {name}")
    metrics = delta.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0].operationMetrics
    assert int(metrics["numRemovedFiles"]) > 0
    assert int(metrics["numRemovedBytes"]) > 0
    assert (delta.table(name).columns, rows(delta, name)) == (["other"], [(10,), (11,)])
    delta.sql(f"CREATE OR REPLACE TABLE {name} (a INT) USING delta")
    assert (delta.table(name).columns, rows(delta, name)) == (["a"], [])


def test_rows_that_fail_leave_neither_log_nor_name(delta: SparkSession, name: str) -> None:
    with pytest.raises(Exception, match="no"):
        delta.sql(f"CREATE TABLE {name} USING delta AS {FAILING}")
    assert not delta.catalog.tableExists(name)
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS a")
    with pytest.raises(Exception, match="no"):
        delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS {FAILING}")
    with pytest.raises(Exception, match="no"):
        delta.sql(FAILING).write.format("delta").mode("overwrite").saveAsTable(name)
    assert rows(delta, name) == [(1,)]
    assert DeltaTable.forName(delta, name).history().count() == 1


def test_a_catalog_that_fails_behind_the_log_leaves_a_table_that_can_be_named(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log first, name last: the catalog has no entry of a table that does not exist."""

    def dies(*_: Any, **__: Any) -> None:
        raise ConnectionError("the metastore is gone")

    with monkeypatch.context() as patched:
        patched.setattr(ClassicCatalog, "register", dies)
        with pytest.raises(ConnectionError, match="metastore"):
            delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS a")
    assert not delta.catalog.tableExists(name)
    monkeypatch.setattr(catalog_registration, "REGISTRATION_MS_MAX", 100)
    with pytest.raises(TableInLocationError):
        delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 2 AS a")
    folder = f"{delta.conf.get('spark.sql.warehouse.dir')}/{name}"
    delta.sql(f"CREATE TABLE {name} USING delta LOCATION '{folder}'")
    assert rows(delta, name) == [(1,)]


def test_rows_are_run_once(delta: SparkSession, name: str) -> None:
    seen = delta.sparkContext.accumulator(0)

    def count(value: int) -> int:
        seen.add(1)
        return value

    delta.udf.register("counted", count, "bigint")
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT counted(id) AS id FROM range(5)")
    assert (rows(delta, name), seen.value) == ([(n,) for n in range(5)], 5)


@pytest.mark.parametrize(
    ("winner", "at"),
    [("delta", "before the statement looks"), ("parquet", "before the statement looks"), ("delta", "before its rows")],
)
def test_a_table_that_others_make_meanwhile(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch, winner: str, at: str
) -> None:
    """Their table stays as it is: that is an error, or the result of IF NOT EXISTS."""
    engine, create = DeltaSession.of(delta).engine, staging_handler.create_table_as
    write = engine.write

    def make() -> None:
        monkeypatch.setattr(engine, "write", write)
        monkeypatch.setattr(staging_handler, "create_table_as", create)
        delta.newSession().sql(f"CREATE TABLE {name} USING {winner} AS SELECT 1 AS a")

    def create_later(*arguments: Any, **named: Any) -> None:
        make()
        create(*arguments, **named)

    def write_later(request: WriteRequest) -> WrittenFiles:
        make()
        return write(request)

    def create_beside_another() -> None:
        if at == "before the statement looks":
            monkeypatch.setattr(staging_handler, "create_table_as", create_later)
        else:
            monkeypatch.setattr(engine, "write", write_later)

    create_beside_another()
    with pytest.raises((TableAlreadyExistsError, ProtocolChangedException)):
        delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 2 AS a")
    assert rows(delta, name) == [(1,)]
    delta.sql(f"DROP TABLE {name}")
    create_beside_another()
    delta.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta AS SELECT 2 AS a")
    assert rows(delta, name) == [(1,)]
    delta.sql(f"DROP TABLE {name}")
    create_beside_another()
    delta.sql("SELECT 2 AS a").write.format("delta").mode("ignore").saveAsTable(name)
    assert rows(delta, name) == [(1,)]


def test_files_of_others_who_make_the_table_at_the_same_time(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers bug B77: the first files of the one, not committed yet, were in the other's way."""
    create, folder = staging_handler.create_table_as, f"{delta.conf.get('spark.sql.warehouse.dir')}/{name}"

    def create_later(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(staging_handler, "create_table_as", create)
        delta.range(3).write.mode("append").parquet(folder)
        create(*arguments, **named)

    monkeypatch.setattr(staging_handler, "create_table_as", create_later)
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS a")
    assert rows(delta, name) == [(1,)]
    other = f"{name}_other"
    delta.range(3).write.parquet(f"{folder}_other")
    with pytest.raises(LocationNotEmptyError):
        delta.sql(f"CREATE TABLE {other} USING delta AS SELECT 1 AS a")


def test_tables_by_path(delta: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS SELECT 1 AS a")
    delta.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT a + 1 AS a FROM {table}")
    assert delta.read.format("delta").load(path).collect() == [(2,)]
