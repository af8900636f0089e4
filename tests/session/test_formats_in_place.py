"""Writes of another format, or of none, where a Delta table is: refused with the way out, or reported by a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.tables import LocationNotEmptyError
from anabranch.tables import DeltaTable
from session_kinds import in_this_process

pytestmark = pytest.mark.spark


def test_an_error_of_a_write_without_format_says_so(delta: SparkSession, name: str, path: str) -> None:
    """Covers bug B107: Spark's message spoke of `DefaultSource` and `ParquetDataSourceV2`, or of a schema `delta`."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1L AS id")
    delta.range(1).write.format("delta").save(path)
    rows, at_path = delta.range(3), f"delta.`{path}`"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: rows.write.mode("append").saveAsTable(name), "DELTA_TABLE_FORMAT_MISMATCH"),
        (lambda: rows.write.format("csv").mode("append").saveAsTable(name), "DELTA_TABLE_FORMAT_MISMATCH"),
        (lambda: rows.write.mode("append").saveAsTable(at_path), "SCHEMA_NOT_FOUND"),
        (lambda: rows.write.mode("overwrite").saveAsTable(at_path), "SCHEMA_NOT_FOUND"),
        (lambda: rows.writeTo(at_path).createOrReplace(), "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        (lambda: delta.sql(f"CREATE TABLE delta.`{path}-new` (id INT)"), "INVALID_SCHEMA_OR_RELATION_NAME"),
        (lambda: rows.writeTo(name).createOrReplace(), "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        (lambda: rows.writeTo(name).replace(), "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        (lambda: delta.sql(f"CREATE OR REPLACE TABLE {name} (id INT)"), "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        (
            lambda: delta.sql(f"CREATE OR REPLACE TABLE {name} USING parquet AS SELECT 1 AS id"),
            "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        ),
    ]
    refusals = []
    for call, _ in calls:
        with pytest.raises(AnalysisException) as raised:
            call()
        refusals.append((raised.value.getCondition(), str(raised.value)))
    assert [condition for condition, _ in refusals] == [expected for _, expected in calls]
    for condition, text in refusals:
        ways = ("USING delta", '.using("delta")') if condition.startswith("UNSUPPORTED") else ('.format("delta")',)
        assert [way for way in ways if way not in text] == []
        assert "csv" in text or "USING parquet" in text or "spark.sql.sources.default" in text or "parquet" in text
    assert "doesn't match the specified format" in refusals[0][1]
    assert "spark.sql.sources.default, which is parquet, to delta" in refusals[0][1]
    assert DeltaTable.forName(delta, name).history().count() == 1
    rows.writeTo(name).append()
    rows.write.insertInto(name)
    assert delta.table(name).count() == 7


@in_this_process
def test_a_session_made_later_says_the_same_in_its_first_statement(delta: SparkSession, name: str) -> None:
    """Spark refused a REPLACE before our rule saw it: it adds the rules of extensions last."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1L AS id")
    calls: list[Callable[[SparkSession], Any]] = [
        lambda session: session.range(3).writeTo(name).createOrReplace(),
        lambda session: session.sql(f"CREATE OR REPLACE TABLE {name} (id INT)"),
    ]
    for call in calls:
        with pytest.raises(AnalysisException, match="USING delta"):
            call(delta.newSession())


@in_this_process
def test_a_table_of_another_format_that_replaces_it_is_warned_of(
    delta: SparkSession, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Covers bug B107: a Delta table became one of Parquet without a warning."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1L AS id")
    delta.sql(f"CREATE TABLE {name}_parquet USING parquet AS SELECT 1L AS id")
    rows = delta.range(3)
    with caplog.at_level(logging.WARNING, "anabranch.commit"):
        rows.write.format("delta").mode("overwrite").saveAsTable(name)
        rows.write.mode("overwrite").saveAsTable(f"{name}_parquet")
        delta.sql(f"DROP TABLE {name}_parquet")
        assert caplog.messages == []
        rows.write.mode("overwrite").saveAsTable(name)
    (message,) = caplog.messages
    assert f"drops the Delta table default.{name}" in message
    assert 'write .format("delta")' in message
    assert "spark.sql.sources.default is parquet" in message
    assert delta.table(name).count() == 3


@in_this_process
def test_files_of_other_formats_in_a_tables_folder_are_warned_of(
    delta: SparkSession, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Covers bug B66: rows that no reader of the table shows, and in mode overwrite a table that is gone."""
    delta.sql(f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (k) AS SELECT 1 AS k, 1L AS id")
    rows = delta.range(3)
    with caplog.at_level(logging.WARNING, "anabranch.commit"):
        rows.write.mode("append").parquet(f"{path}-parquet")
        rows.write.mode("overwrite").parquet(f"{path}-parquet")
        rows.selectExpr("1 AS k", "id").write.format("delta").mode("append").save(path)
        assert caplog.messages == []
        for _ in range(2):
            rows.write.mode("append").parquet(path)
            rows.write.mode("append").parquet(f"{path}/k=1")
        rows.write.mode("append").json(path)
        assert [message.partition(" files")[0] for message in caplog.messages] == ["Parquet", "JSON"]
        assert all(path in message and '.format("delta")' in message for message in caplog.messages)
        caplog.clear()
        delta.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1")
        assert [message for message in caplog.messages if "deletes the Delta table" in message and path in message]


def test_a_table_is_not_made_over_parquet_files(delta: SparkSession, name: str, path: str) -> None:
    """Covers bug B66: by name it was refused without the way out, by path their rows were gone from view."""
    delta.range(3).write.parquet(path)
    columns = "(id BIGINT) USING delta"
    for statement in (
        f"CREATE TABLE {name} {columns} LOCATION '{path}'",
        f"CREATE TABLE {name} USING delta LOCATION '{path}' AS SELECT 1L AS id",
        f"CREATE TABLE delta.`{path}` {columns}",
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` {columns}",
        f"CREATE TABLE delta.`{path}` USING delta AS SELECT 1L AS id",
    ):
        with pytest.raises(LocationNotEmptyError, match="CONVERT TO DELTA parquet") as raised:
            delta.sql(statement)
        assert raised.value.getCondition() == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    delta.sql(f"CONVERT TO DELTA parquet.`{path}`")
    delta.sql(f"CREATE TABLE {name} {columns} LOCATION '{path}'")
    assert delta.table(name).count() == 3
