"""Parameters and format fields."""

from __future__ import annotations

import datetime
import decimal

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch
from session.documented import statement

pytestmark = pytest.mark.spark

HOSTILE = "'); DELETE FROM t; -- \\' \" ` ${x} {y} /* \n é"


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    name = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id, CAST(id AS STRING) AS word FROM range(5)")
    return name


def ids(delta: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in delta.sql(f"SELECT id FROM {table}").collect())


@statement("… :name …, … ? … with args")
def test_parameters(delta: SparkSession, table: str) -> None:
    """Parameters are values in queries, conditions and assignments. A value is never parsed as SQL."""
    assert delta.sql(f"DELETE FROM {table} WHERE id = :low OR id >:high", {"low": 0, "high": 3}).first() == (2,)
    assert delta.sql(f"UPDATE {table} SET word = ? WHERE id - ? = 2", [HOSTILE, -1]).first() == (1,)
    assert delta.sql(f"SELECT word FROM {table} WHERE id = 1").first() == (HOSTILE,)
    assert delta.sql(f"SELECT count(*) FROM {table} WHERE word = ?", [HOSTILE]).first() == (1,)
    assert delta.sql(f"DELETE FROM {table} WHERE word = :w", {"w": HOSTILE}).first() == (1,)
    delta.sql(f"INSERT INTO {table} VALUES (?, ?), (?, upper(?))", [7, "x", 8, "y"])
    delta.sql(f"INSERT INTO {table} SELECT :n, :w", {"n": 9, "w": HOSTILE})
    assert ids(delta, table) == [2, 3, 7, 8, 9]
    with pytest.raises(AnalysisException, match="nope"):
        delta.sql(f"DELETE FROM {table} WHERE id = :nope", {"other": 1})
    with pytest.raises(AnalysisException, match=r"number 2|UNBOUND_SQL_PARAMETER"):
        delta.sql(f"DELETE FROM {table} WHERE id = ? OR id = ?", [1])


PLAIN_VALUES = [
    None,
    True,
    -5,
    2**40,
    -(2**63),
    -1.5,
    float("nan"),
    float("-inf"),
    decimal.Decimal("-12.340"),
    "",
    HOSTILE,
    b"\x01'z",
    datetime.date(1824, 3, 1),
    datetime.datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=datetime.UTC),
    datetime.timedelta(days=-2, seconds=5, microseconds=7),
]


def test_a_value_is_what_spark_takes_it_for(delta: SparkSession, table: str) -> None:
    """What a condition or an assignment gets for a parameter equals what a query gets for it."""
    columns = [
        F.array(F.lit(1), F.lit(-2)),
        F.struct(F.lit("it's"), F.lit(2.5)),
        F.create_map(F.lit("k"), F.lit(decimal.Decimal("1.5"))),
    ]
    values = {f"v{number}": value for number, value in enumerate([*PLAIN_VALUES, *columns])}
    expression = (
        "concat_ws('|', "
        + ", ".join(f"coalesce(CAST(:{name} AS STRING), 'NULL'), typeof(:{name})" for name in values)
        + ")"
    )
    delta.sql(f"UPDATE {table} SET word = {expression} WHERE id = 1", values)
    assert (
        delta.sql(f"SELECT word FROM {table} WHERE id = 1").first() == delta.sql(f"SELECT {expression}", values).first()
    )


@statement("… {field} … with keyword arguments")
def test_format_fields(delta: SparkSession, table: str) -> None:
    """Fields refer to DataFrames, columns and values, as in PySpark. Write braces that belong to the text twice."""
    few = delta.range(2)
    assert delta.sql(
        "DELETE FROM " + table + " WHERE id IN (SELECT id FROM {few}) OR word = '{{}}'", few=few
    ).first() == (2,)
    delta.sql("UPDATE " + table + " SET word = {word} WHERE id = {n}", word="it's {odd}", n=2)
    assert delta.sql(f"SELECT word FROM {table} WHERE id = 2").first() == ("it's {odd}",)
    more = delta.range(10, 12)
    delta.sql("INSERT INTO " + table + " SELECT id, 'more' FROM {more} WHERE id > :n", {"n": 10}, more=more)
    assert ids(delta, table) == [2, 3, 4, 11]


@statement("IDENTIFIER(expression) in the place of a name")
def test_identifier_clause(delta: SparkSession, name: str) -> None:
    """The name of the statement's table is the value of a constant expression."""
    delta.sql("CREATE TABLE IDENTIFIER(:name) USING delta AS SELECT 1 AS id", {"name": name})
    assert delta.sql("DELETE FROM IDENTIFIER(lower(:name)) WHERE id = :id", {"name": name, "id": 1}).first() == (1,)
    assert delta.sql(f"DESCRIBE HISTORY IDENTIFIER('{name}')").count() == 2


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark's grammar has no markers there")
def test_time_travel_takes_parameters(delta: SparkSession, table: str) -> None:
    delta.sql(f"DELETE FROM {table}")
    assert delta.sql(f"SELECT count(*) FROM {table} VERSION AS OF :v", {"v": 0}).first() == (5,)
    query = f"SELECT count(*) + ? FROM {table} VERSION AS OF ? WHERE id < ?"
    assert delta.sql(query, [100, 0, 3]).first() == (103,)
    first = delta.sql(f"DESCRIBE HISTORY {table}").collect()[-1].timestamp
    later = first + datetime.timedelta(hours=1)
    at_first = f"SELECT count(*) FROM {table} TIMESTAMP AS OF :later - INTERVAL 1 HOUR"
    assert delta.sql(at_first, {"later": later}).first() == (5,)


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark reads a quote twice as the end of a name and a string")
@statement('"a name" with spark.sql.ansi.doubleQuotedIdentifiers')
def test_names_in_double_quotes(native: SparkSession, path: str) -> None:
    """If the session reads text in double quotes as a name, so does every statement."""
    delta = native.newSession()
    anabranch.enable(delta).conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    delta.conf.set("spark.sql.ansi.enabled", "true")
    table = f'delta."{path}"'
    delta.sql(
        f'CREATE TABLE {table} ("a b" INT, "c""d" STRING, CHECK ("a b" > 0)) USING delta '
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    delta.sql(f'INSERT INTO {table} ("a b", "c""d") VALUES (1, \'it is "x"\'), (2, \'y\')')
    assert delta.sql(f'DELETE FROM {table} WHERE "a b" = :n', {"n": 2}).first() == (1,)
    assert [tuple(row) for row in delta.sql(f'SELECT "c""d" FROM {table}').collect()] == [('it is "x"',)]
