"""Statements that Spark's parser does not know, through Spark's parser."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import SqlSyntaxError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession) -> Iterator[str]:
    """Two versions behind its making."""
    name = f"own_{uuid.uuid4().hex[:8]}"
    delta.sql(f"CREATE TABLE {name} (a INT, b STRING) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    delta.sql(f"INSERT INTO {name} VALUES (2, 'y')")
    yield name
    delta.sql(f"DROP TABLE IF EXISTS {name}")


def newest(delta: SparkSession, text: str, args: Any = None) -> Any:
    return delta.sql(text, args).first().version


def test_parameters_have_the_values_of_the_call(delta: SparkSession, table: str) -> None:
    assert newest(delta, "DESCRIBE HISTORY IDENTIFIER(:t) LIMIT 1", {"t": table}) == 2
    assert newest(delta, "DESCRIBE HISTORY IDENTIFIER(?) LIMIT 1", [table]) == 2
    delta.sql("RESTORE IDENTIFIER(:t) TO VERSION AS OF 1", {"t": table, "unused": 5})
    assert delta.table(table).collect() == [(1, "x")]


def test_parameters_are_bound_by_the_older_way_too(delta: SparkSession, table: str) -> None:
    """With that setting Spark wraps the plan of any parser."""
    setting = "spark.sql.legacy.parameterSubstitution.constantsOnly"
    delta.conf.set(setting, "true")
    try:
        assert newest(delta, "DESCRIBE HISTORY IDENTIFIER(:t) LIMIT 1", {"t": table}) == 2
        assert newest(delta, "DESCRIBE HISTORY IDENTIFIER(?) LIMIT 1", [table]) == 2
    finally:
        delta.conf.unset(setting)


def test_a_parameter_without_a_value_is_an_error_of_spark(delta: SparkSession) -> None:
    for args in (None, {"other": "t"}, [], {}):
        with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
            delta.sql("DESCRIBE HISTORY IDENTIFIER(:t)", args)


def test_execute_immediate_runs_them(delta: SparkSession, table: str) -> None:
    assert delta.sql(f"EXECUTE IMMEDIATE 'OPTIMIZE {table}'").first().metrics.numFilesRemoved == 2
    assert newest(delta, f"EXECUTE IMMEDIATE 'DESCRIBE HISTORY IDENTIFIER(:t)' USING '{table}' AS t") == 3
    assert newest(delta, f"EXECUTE IMMEDIATE 'DESCRIBE HISTORY IDENTIFIER(?)' USING '{table}'") == 3


def test_settings_are_put_in_for_variables(delta: SparkSession, table: str) -> None:
    delta.conf.set("own.table", table)
    assert newest(delta, "DESCRIBE HISTORY ${own.table} LIMIT 1") == 2


def test_explain_does_nothing(delta: SparkSession, table: str) -> None:
    plan = delta.sql("EXPLAIN RESTORE IDENTIFIER(:t) TO VERSION AS OF 0", {"t": table}).first().plan
    assert "== Delta ==" in plan
    assert newest(delta, f"DESCRIBE HISTORY {table} LIMIT 1") == 2


def test_columns_are_known_before_rows(delta: SparkSession, table: str) -> None:
    assert delta.sql(f"DESCRIBE HISTORY {table}").columns[:2] == ["version", "timestamp"]
    assert delta.sql(f"OPTIMIZE {table}").columns == ["path", "metrics"]
    assert delta.sql(f"VACUUM {table}").columns == ["path"]


def test_an_error_has_the_position_of_the_mistake(delta: SparkSession, table: str) -> None:
    with pytest.raises(SqlSyntaxError, match="line 2, column 1"):
        delta.sql(f"OPTIMIZE {table}\nWHER a = 1")
    with pytest.raises(ParseException):
        delta.sql("OPTIMISE t")


def test_statements_read_other_tables_through_spark(delta: SparkSession, table: str, tmp_path: Any) -> None:
    delta.createDataFrame([(f"{tmp_path}/no file", 1, False, 0)], "path STRING, length LONG, isDir BOOLEAN, modificationTime LONG").createOrReplaceTempView("inventory")  # fmt: skip
    assert delta.sql(f"VACUUM {table} USING INVENTORY (SELECT * FROM inventory) DRY RUN").collect() == []
    delta.sql(f"CREATE OR REPLACE TEMP VIEW s AS SELECT a, 'new' AS b FROM {table}")
    delta.sql(f"INSERT INTO {table} BY NAME REPLACE WHERE a > 0 SELECT b, a FROM s")
    assert sorted(delta.table(table).collect()) == [(1, "new"), (2, "new")]
