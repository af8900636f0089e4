"""Where statements name tables."""

from __future__ import annotations

from typing import Any, cast

import pyspark
import pytest
from hypothesis import given

from anabranch.connect.sql.table_reads import DeltaRead, with_placeholders
from anabranch.connect.sql.table_references import table_references
from anabranch.spark.session.table_identifiers import PathIdentifier
from sql.random_texts import TEXTS


def names(text: str) -> list[str]:
    return [".".join(reference.parts) for reference in table_references(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM delta.`/data/a b`", ["delta./data/a b"]),
        ("select * from s.t a, u as b JOIN `w x`.`y` USING (id)", ["s.t", "u", "w x.y"]),
        ("SELECT a FROM t WHERE x IN (SELECT y FROM u), v", ["t", "u"]),
        ("SELECT extract(YEAR FROM d), trim(BOTH 'x' FROM n) FROM t", ["t"]),
        ("SELECT a IS DISTINCT FROM b FROM t", ["t"]),
        ("SELECT a, b FROM (SELECT * FROM t) x, u LEFT OUTER JOIN v ON x.a = v.a", ["t", "u", "v"]),
        ("SELECT * FROM (t JOIN u ON t.a = u.a)", ["t", "u"]),
        ("SELECT * FROM range(10), t", ["t"]),
        ("SELECT * FROM t LATERAL VIEW explode(xs) e AS a, b", ["t"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH a AS (SELECT * FROM t), b(x) AS (SELECT * FROM a) SELECT * FROM b JOIN c", ["t", "c"]),
        ("SELECT * FROM t -- FROM u\n WHERE s = 'FROM v' /* FROM w */", ["t"]),
        ("TABLE t", ["t"]),
        ("FROM t SELECT a", ["t"]),
        ("EXPLAIN SELECT * FROM t", ["t"]),
        ("INSERT INTO x SELECT * FROM t", ["t"]),
        ("SELECT 1", []),
        ("TABLE t UNION ALL TABLE u", ["t", "u"]),
        ("SELECT * FROM f(TABLE t, x => TABLE u)", ["t", "u"]),
        ("SELECT * FROM t |> WHERE a > 1 |> JOIN u ON t.a = u.a |> SELECT a, b", ["t", "u"]),
        ("SELECT r'FROM v\\' FROM t", ["t"]),
        ("SELECT 'it''s FROM v' FROM t /* /* FROM */ w */", ["t"]),
        ("SELECT * FROM VALUES (1), (2)", []),
        ("SELECT * FROM a UNION ALL SELECT b, c FROM d", ["a", "d"]),
        ("SELECT * FROM a CROSS JOIN b NATURAL JOIN c", ["a", "b", "c"]),
        ("not sql at all ' unbalanced", []),
    ],
)
def test_names_stand_after_from_and_join(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.skipif(pyspark.__version__.startswith("4.0"), reason="its grammar has no word for streams")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM STREAM t", [("t", "STREAM t")]),
        ("SELECT * FROM stream(s.`t 1`) AS x, u", [("s.t 1", "stream(s.`t 1`)"), ("u", "u")]),
        ("SELECT * FROM u JOIN STREAM t USING (id)", [("u", "u"), ("t", "STREAM t")]),
        ("SELECT * FROM STREAM t WITH (a = 1) WHERE id = 1", [("t", "STREAM t WITH (a = 1)")]),
        ("SELECT * FROM STREAM (t WITH (a = 1))", [("t", "STREAM (t WITH (a = 1))")]),
        ("SELECT * FROM stream WHERE id = 1", [("stream", "stream")]),
        ("SELECT * FROM stream AS s JOIN t", [("stream", "stream"), ("t", "t")]),
        ("SELECT * FROM stream, t", [("stream", "stream"), ("t", "t")]),
        ("SELECT * FROM stream", [("stream", "stream")]),
        ("SELECT * FROM stream(1), t", [("t", "t")]),
        ("WITH stream AS (SELECT 1) SELECT * FROM stream", []),
    ],
)
def test_streams_have_a_word_before_their_names(text: str, found: list[tuple[str, str]]) -> None:
    references = table_references(text)
    assert [(".".join(each.parts), text[each.start : each.end]) for each in references] == found
    assert [each.is_stream for each in references] == [" " in words or "(" in words for _, words in found]
    assert [each.has_options for each in references] == ["WITH (" in words for _, words in found]


@pytest.mark.parametrize(
    ("clause", "version", "timestamp"),
    [
        ("VERSION AS OF 3", "3", None),
        ("FOR VERSION AS OF '3'", "3", None),
        ("TIMESTAMP AS OF '2024-01-01'", None, "'2024-01-01'"),
        ("TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", None, "current_timestamp() - INTERVAL 1 DAY"),
        ("TIMESTAMP AS OF date_sub(current_date(), 1)", None, "date_sub(current_date(), 1)"),
        ("FOR SYSTEM_TIME AS OF CAST('2024-01-01' AS TIMESTAMP)", None, "CAST('2024-01-01' AS TIMESTAMP)"),
        ("TIMESTAMP AS OF TIMESTAMP '2024-01-01 00:00:00'", None, "TIMESTAMP '2024-01-01 00:00:00'"),
    ],
)
@pytest.mark.parametrize("rest", ["", " x", " AS x WHERE x.a = 1", ", u", " JOIN u ON true"])
def test_time_travel_belongs_to_the_name(clause: str, version: str | None, timestamp: str | None, rest: str) -> None:
    text = f"SELECT * FROM s.t {clause}{rest}"
    reference = table_references(text)[0]
    assert (reference.version, reference.timestamp_sql) == (version, timestamp)
    assert text[reference.start : reference.end] == f"s.t {clause}"
    assert reference.has_alias == (" x" in rest)


def test_versions_behind_unquoted_names() -> None:
    assert names("SELECT * FROM s.t@v3 a, u@20240131093000000") == ["s.t@v3", "u@20240131093000000"]
    assert names("SELECT * FROM t @v3") == ["t"]


def test_expressions_read_tables_in_subqueries_alone() -> None:
    text = "a IS DISTINCT FROM b AND x IN (SELECT y FROM t) AND EXISTS (SELECT 1 FROM u, v)"
    assert [".".join(each.parts) for each in table_references(text, is_expression=True)] == ["t", "u", "v"]
    assert table_references("extract(YEAR FROM d) > 1, a FROM b", is_expression=True) == []


def test_an_alias_goes_behind_a_sample() -> None:
    text = "SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1) WHERE t.a = 1"
    (reference,) = table_references(text)
    assert text[reference.end : reference.alias_at] == " TABLESAMPLE (10 PERCENT) REPEATABLE (1)"
    assert not reference.has_alias
    (aliased,) = table_references("SELECT * FROM t TABLESAMPLE (5 ROWS) x")
    assert aliased.has_alias


def test_time_travel_by_parameters() -> None:
    (reference,) = table_references("SELECT * FROM t VERSION AS OF :v x")
    assert (reference.version, reference.has_alias) == (":v", True)
    (reference,) = table_references("SELECT * FROM t TIMESTAMP AS OF :at - INTERVAL 1 DAY AS x")
    assert reference.timestamp_sql == ":at - INTERVAL 1 DAY"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TABLE t", True),
        ("SELECT * FROM f(TABLE t)", True),
        ("FOR x AS SELECT * FROM t DO SELECT 1; END FOR", False),
        ("SELECT * FROM t", False),
    ],
)
def test_where_no_alias_goes(text: str, expected: bool) -> None:
    (reference,) = table_references(text)
    assert reference.has_alias == expected


def test_a_name_that_an_expression_tells() -> None:
    text = "SELECT * FROM IDENTIFIER(:a || 't') VERSION AS OF 3 AS x JOIN identifier('u')"
    first, second = table_references(text)
    assert (first.name_sql, first.parts, first.version, first.has_alias) == (":a || 't'", (), "3", True)
    assert (text[first.start : first.end], second.name_sql) == ("IDENTIFIER(:a || 't') VERSION AS OF 3", "'u'")


@given(TEXTS, TEXTS)
def test_all_but_tables_reaches_spark_as_written(before: str, after: str) -> None:
    """With the words of the tables in the places of their fields, the text is the one that was given."""
    text = f"SELECT {before} FROM t {after} JOIN delta.`/x` VERSION AS OF 3"
    found = table_references(text)
    reads = [DeltaRead(reference=each, identifier=PathIdentifier("/x"), frame=cast("Any", object())) for each in found]
    rewritten, frames = with_placeholders(text, reads, has_fields=False)
    names = {read.frame: text[read.reference.start : read.reference.end] for read in reads}
    assert rewritten.format(**{field: names[frame] for field, frame in frames.items()}) == text
