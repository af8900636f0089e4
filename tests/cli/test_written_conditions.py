"""Conditions of the command line mean the same as in Spark, or are left unknown."""

from __future__ import annotations

import zoneinfo

import pytest
from pyspark.sql import types as T

from anabranch.cli.rows.local_time_zone import PythonTimeZone
from anabranch.errors.arguments import PredicateSyntaxError
from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.predicates.expressions import is_exact, references
from cli.columns_of_schema import parsed

SCHEMA = T.StructType(
    [
        T.StructField("Id", T.IntegerType()),
        T.StructField("l", T.LongType()),
        T.StructField("s", T.StringType()),
        T.StructField("ci", T.StringType("UTF8_LCASE")),
        T.StructField("dt", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("d", T.DoubleType()),
        T.StructField("f", T.FloatType()),
        T.StructField("dec", T.DecimalType(10, 2)),
        T.StructField("b", T.BooleanType()),
        T.StructField("bin", T.BinaryType()),
        T.StructField("st", T.StructType([T.StructField("x", T.IntegerType())])),
        T.StructField("a b", T.IntegerType()),
    ]
)

LOS_ANGELES = PythonTimeZone(zoneinfo.ZoneInfo("America/Los_Angeles"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", "Id = 1"),
        ("5 < ID", "Id > 5"),
        ("t.id >= 5L", "Id >= 5"),
        ("st.x <> 3", "st.x <> 3"),
        ("t.st.x != 3", "st.x <> 3"),
        ("`a b` = -3", "`a b` = -3"),
        ("not (id = 1 or s = 'x') and b", "NOT (Id = 1 OR s = 'x') AND b = true"),
        ("id is not null and s is null", "NOT (Id IS NULL) AND s IS NULL"),
        ("id <=> null", "Id <=> NULL"),
        ("id is distinct from 3", "NOT (Id <=> 3)"),
        ("id in (1, null, -3)", "Id IN (1, NULL, -3)"),
        ("id not in (1)", "NOT (Id IN (1))"),
        ("id in (1, 2.5)", "Id IN (1, 2.5)"),
        ("id not between 1 and 3", "NOT (Id >= 1 AND Id <= 3)"),
        ("id = '5'", "Id = 5"),
        ("s like 'ab%'", "startswith(s, 'ab')"),
        ("s like 'ab'", "s = 'ab'"),
        ("startswith(s, 'ab')", "startswith(s, 'ab')"),
        ("dt = '2024-01-01'", "dt = DATE(19723)"),
        ("dt >= DATE'2024-01-01'", "dt >= DATE(19723)"),
        ("ts > '2024-01-01'", "ts > TIMESTAMP(1704096000000000)"),
        ("ts > TIMESTAMP'2024-01-01 00:00:00.5Z'", "ts > TIMESTAMP(1704067200500000)"),
        ("ts >= DATE'2024-01-01'", "ts >= TIMESTAMP(1704096000000000)"),
        ("ntz < '2024-01-01 00:00:01'", "ntz < TIMESTAMP_NTZ(1704067201000000)"),
        ("year(dt) = 2024", "dt >= DATE(19723) AND dt < DATE(20089)"),
        ("date(ts) < '2024-01-01'", "ts < TIMESTAMP(1704096000000000)"),
        ("to_date(ts) < DATE'2024-01-01'", "ts < TIMESTAMP(1704096000000000)"),
        ("d > 3", "d > 3.0"),
        ("f > 3", "f > 3.0"),
        ("d = 1.5e3", "d = 1500.0"),
        ("dec = 1.50", "dec = 1.50"),
        ("bin = X'01FF'", "bin = X'01ff'"),
        ("true", "true"),
        ("(id) == 1 -- so", "Id = 1"),
        ("id = 1 or id = 2 and b", "Id = 1 OR (Id = 2 AND b = true)"),
        ("! ! b", "NOT (NOT (b = true))"),
        ("id between 1 and 3 and b", "Id >= 1 AND Id <= 3 AND b = true"),
        ('s = "it\'s"', "s = 'it\\'s'"),
        ("id = - - 3", "Id = 3"),
        ("id = 300S", "Id = 300"),
    ],
)
def test_conditions_are_understood(text: str, expected: str) -> None:
    predicate = parsed(text, SCHEMA, time_zone=LOS_ANGELES)
    assert str(predicate) == expected
    assert is_exact(predicate)


@pytest.mark.parametrize(
    "text",
    [
        "upper(s) = 'A'",
        "id = l",
        "id = 'five'",
        "ci = 'a'",
        "ci like 'a%'",
        "dt = '2024-1-1'",
        "dt < ts",
        "ts = '2024-11-03 01:30:00'",
        "id in (select 1)",
        "f = 16777217",
        "s = 'it''s'",
        "s like 'a_c'",
        "s like '%a'",
        "st = 1",
        "s rlike 'a.*'",
        "cast(id as string) = '5'",
        "id + 1 = 2",
        "rand() < 0.5",
        "dt = current_date()",
        "case when id = 1 then 'x' else s end = 'x'",
    ],
)
def test_what_only_spark_can_evaluate_is_unknown(text: str) -> None:
    assert not is_exact(parsed(text, SCHEMA, time_zone=LOS_ANGELES))


def test_an_unknown_part_names_its_columns() -> None:
    assert references(parsed("id = 1 and length(s) > st.x", SCHEMA)) == {("Id",), ("s",), ("st", "x")}


def test_a_column_that_is_not_there_is_an_error() -> None:
    for text in ("nosuch = 3", "length(nosuch) > 3", "st.y = 1"):
        with pytest.raises(ColumnNotFoundError):
            parsed(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "line"),
    [("id = 1 and", 1), ("id = 1;\ndrop table t", 2), ("", 1), ("s = 'x", 1), ("f(id", 1), ("select 1", 1)],
)
def test_a_syntax_error_says_where(text: str, line: int) -> None:
    with pytest.raises(PredicateSyntaxError) as caught:
        parsed(text, SCHEMA)
    assert caught.value.line == line
    assert isinstance(caught.value, DeltaAnalysisError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "text", ["(" * 10_000, "(" * 900 + "id = 1" + ")" * 900, "not " * 20_000 + "b", "a" * (1 << 21)]
)
def test_deep_and_long_texts_end_soon(text: str) -> None:
    with pytest.raises(PredicateSyntaxError) as caught:
        parsed(text, SCHEMA)
    assert len(str(caught.value)) < 2000


def test_a_long_chain_is_read() -> None:
    assert is_exact(parsed(" or ".join(f"id = {number}" for number in range(5000)), SCHEMA))
