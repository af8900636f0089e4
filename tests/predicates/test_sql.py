"""Conditions in SQL text mean what Spark takes them for, or are left unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from anabranch.errors.arguments import PredicateSyntaxError
from anabranch.errors.base import DeltaAnalysisError
from anabranch.predicates.expressions import is_exact, is_opaque, references
from anabranch.predicates.sql_predicates import parse_predicate
from anabranch.predicates.sql_tree import parse_condition

SCHEMA = T.StructType(
    [
        T.StructField("Id", T.IntegerType()),
        T.StructField("l", T.LongType()),
        T.StructField("s", T.StringType()),
        T.StructField("dt", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("d", T.DoubleType()),
        T.StructField("f", T.FloatType()),
        T.StructField("dec", T.DecimalType(10, 2)),
        T.StructField("b", T.BooleanType()),
        T.StructField("st", T.StructType([T.StructField("x", T.IntegerType())])),
        T.StructField("a b", T.IntegerType()),
    ]
)


def failure_of(text: str) -> PredicateSyntaxError | None:
    """The syntax error of a condition, if it has one; nothing else may be raised."""
    try:
        str(parse_predicate(text, schema=SCHEMA))
    except PredicateSyntaxError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", "Id = 1"),
        ("5 < ID", "Id > 5"),
        ("t.id >= 5L", "Id >= 5"),
        ("st.x <> 3", "st.x <> 3"),
        ("t.st.x <> 3", "st.x <> 3"),
        ("`a b` = -3", "`a b` = -3"),
        ("not (id = 1 or s = 'x') and b", "NOT (Id = 1 OR s = 'x') AND b = true"),
        ("id is not null and s is null", "NOT (Id IS NULL) AND s IS NULL"),
        ("id <=> null", "Id <=> NULL"),
        ("id is distinct from 3", "NOT (Id <=> 3)"),
        ("id in (1, null, 3)", "Id IN (1, NULL, 3)"),
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
        ("d > 3", "d > 3.0"),
        ("f > 3", "f > 3.0"),
        ("f = 1.1", "f = 1.1"),
        ("d = 1.5e3", "d = 1500.0"),
        ("dec = 1.50", "dec = 1.50"),
        ("true", "true"),
        ("1 = 1 and id = 2", "Id = 2"),
        ("1 = 2", "false"),
        ("(id) == 1 -- so", "Id = 1"),
        ("id = 1 or id = 2 and b", "Id = 1 OR (Id = 2 AND b = true)"),
        ("not id = 1 and b", "NOT (Id = 1) AND b = true"),
        ("! ! b", "b = true"),
        ("id between 1 and 3 and b", "Id >= 1 AND Id <= 3 AND b = true"),
        ("id !> 3", "Id <= 3"),
        ('s = "it\'s"', "s = 'it\\'s'"),
        ("id = - - 3", "Id = 3"),
        ("id = 300S;", "Id = 300"),
        ("dec = CAST('1.5' AS DECIMAL(10, 2))", "dec = 1.5"),
        ("to_date(ts) < DATE'2024-01-01'", "ts < TIMESTAMP(1704096000000000)"),
    ],
)
def test_conditions_are_understood(text: str, expected: str) -> None:
    predicate = parse_predicate(text, schema=SCHEMA, session_time_zone="America/Los_Angeles")
    assert str(predicate) == expected
    assert is_exact(predicate)


@pytest.mark.parametrize(
    "text",
    [
        "nosuch = 3",
        "s = 5",
        "upper(s) = 'A'",
        "id = l",
        "id = 'five'",
        "id = '05'",
        "d = 'NaN'",
        "dt = '2024-1-1'",
        "dt < ts",
        "ts = '2024-11-03 01:30:00'",
        "ts in ('2024-01-01')",
        "id in (1, 2.5)",
        "f = 16777217",
        # What a backslash or a doubled quote means depends on the session and on Spark's version.
        r"s = 'a\tb'",
        "s = 'it''s'",
        "s like 'a_c'",
        r"s like 'a\\%'",
        "st = 1",
        "s rlike 'a.*'",
        "cast(id as string) = '5'",
        "cast(id as array<struct<a: int>>) is null",
        "id = 1 = b",
        "id + 1 = 2",
        "id = 300Y",
        "s like 'a!%' escape '!'",
        "s like any ('a%', 'b%')",
        "case when id = 1 then 'x' else s end = 'x'",
        "dt > DATE'2024-01-01' - INTERVAL 1 DAY",
        "dt > DATE'2024-01-01' - INTERVAL '1-2' YEAR TO MONTH",
        "extract(year from ts) = 2024",
        "trim(both ' ' from s) = 'x'",
        "substring(s from 1 for 2) = 'ab'",
        "exists(array(1, 2), x -> x = id)",
        "array(1, 2)[0] = id",
        "(id, s) in ((1, 'a'))",
        "s::int = 5",
        "s = 'a' 'b'",
        "s = :name",
    ],
)
def test_the_rest_is_unknown(text: str) -> None:
    predicate = parse_predicate(text, schema=SCHEMA, session_time_zone="America/Los_Angeles")
    assert not is_exact(predicate)
    assert not is_opaque(predicate)


@pytest.mark.parametrize(
    "text",
    [
        "rand() < 0.5",
        "id in (select id from t)",
        "exists (select 1 from t)",
        "my_function(id) = 1",
        "dt = current_date()",
        "dt = current_date",
        "count(distinct id) > 1",
        "first(id) over (partition by s order by l) = 1",
        "sum(id) filter (where b) > 1",
        "id = (with u as (select 1) select * from u)",
        "struct(id as a).a = 1",
        "main.upper(s) = 'A'",
    ],
)
def test_what_asks_more_than_the_row_is_opaque(text: str) -> None:
    assert is_opaque(parse_predicate(text, schema=SCHEMA))


def test_names_without_a_schema_stay_as_written() -> None:
    assert references(parse_predicate("Region = 'x' and a.b > 1")) == {("Region",), ("a", "b")}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("extract(year from a) + timestampdiff(day, b, c) > 1", "abc"),
        ("transform(a, (x, i) -> x + i + b)[0] = c.x", "abc.x"),
        ("case a when b then 1 end = 1", "ab"),
        ("map(1, a)[b] = 1", "ab"),
        ("`a`.b = 1", "a.b"),
        ("end = 1 and from = 2 and values = 3", "endfromvalues"),
    ],
)
def test_what_is_not_understood_tells_its_columns(text: str, columns: str) -> None:
    assert "".join(sorted(".".join(path) for path in references(parse_predicate(text)))) == columns


def test_the_table_may_be_called_by_its_alias() -> None:
    schema = T.StructType().add("x", "integer").add("t", T.StructType().add("x", "integer").add("y", "integer"))
    said = {text: str(parse_predicate(text, schema=schema, alias="T")) for text in ("t.x = 1", "t.y = 1", "t.t.x = 1")}
    assert said == {"t.x = 1": "x = 1", "t.y = 1": "t.y = 1", "t.t.x = 1": "t.x = 1"}
    assert str(parse_predicate("t.x = 1", schema=schema)) == "t.x = 1"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a = 1 and", 1, 9),
        ("a = 1;\ndrop table t", 2, 1),
        ("", 1, 1),
        ("a = 'x", 1, 5),
        ("a =\n = 1", 2, 2),
        ("id in ()", 1, 8),
        ("f(a", 1, 3),
    ],
)
def test_a_syntax_error_says_where(text: str, line: int, column: int) -> None:
    with pytest.raises(PredicateSyntaxError) as caught:
        parse_predicate(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert isinstance(caught.value, DeltaAnalysisError)
    assert isinstance(caught.value, ValueError)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["(" * 10_000, "(" * 90 + "a = 1" + ")" * 90, "not " * 20_000 + "a = 1", "a" * (1 << 21)]
)
def test_deep_and_long_texts_end_soon(text: str) -> None:
    failure = failure_of(text)
    assert failure is None or len(str(failure)) < 2000


def test_a_long_chain_is_read() -> None:
    assert is_exact(parse_predicate(" or ".join(f"a = {number}" for number in range(5000))))


_pieces = st.sampled_from(
    [
        "id",
        "s",
        "=",
        "<",
        "'a'",
        "1",
        "and",
        "or",
        "not",
        "(",
        ")",
        "in",
        "null",
        "like",
        "between",
        ",",
        "is",
        "-",
        "''",
        "dt",
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        "(a) = (1)",
        "((a or b)) and not (c)",
        "exists (select 1) and (a[(1)] + 1) in (1)",
        "case (a) when (1) then f((b)) end",
    ],
)
def test_each_piece_stands_for_itself(text: str) -> None:
    for piece in parse_condition(text).walk():
        alone = text[piece.start : piece.end]
        assert [type(each) for each in parse_condition(alone).walk()] == [type(each) for each in piece.walk()], alone


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(_pieces, max_size=12).map(" ".join)))
def test_any_text_is_a_condition_or_a_syntax_error(text: str) -> None:
    failure = failure_of(text)
    assert failure is None or failure.line >= 1
