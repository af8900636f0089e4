"""What the parser makes of INSERT."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.statement_grammar import header_of


def parsed(text: str) -> Any:
    header = header_of(text)
    assert header is not None
    statement: Any = header.parse()
    assert statement.table.parts == header.table.parts
    return statement


def text_of(fragment: Fragment | None) -> str | None:
    return None if fragment is None else fragment.text


def refused(text: str) -> SqlSyntaxError:
    header = header_of(text)
    assert header is not None
    with pytest.raises(SqlSyntaxError) as raised:
        header.parse()
    return raised.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO t VALUES (1, 'a')", {"query": "VALUES (1, 'a')"}),
        ("INSERT INTO TABLE t SELECT 1", {"query": "SELECT 1"}),
        ("INSERT OVERWRITE t TABLE u", {"overwrite": True, "query": "TABLE u"}),
        ("INSERT OVERWRITE TABLE t FROM u SELECT a", {"overwrite": True, "query": "FROM u SELECT a"}),
        ("INSERT INTO t (a, `b c`) VALUES (1, 2)", {"columns": ("a", "b c"), "query": "VALUES (1, 2)"}),
        ("INSERT INTO t (map, `from`) SELECT 1, 2", {"columns": ("map", "from"), "query": "SELECT 1, 2"}),
        ("INSERT INTO t (SELECT a FROM u)", {"columns": None, "query": "(SELECT a FROM u)"}),
        ("INSERT INTO t ((SELECT 1) UNION (SELECT 2))", {"query": "((SELECT 1) UNION (SELECT 2))"}),
        ("INSERT INTO t BY NAME SELECT 1 AS a", {"by_name": True, "query": "SELECT 1 AS a"}),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1 AS n", {"evolves": True, "query": "SELECT 1 AS n"}),
        ("INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q", {"query": "WITH q AS (SELECT 1) SELECT * FROM q"}),
        ("INSERT INTO t REPLACE WHERE a = 1 SELECT 2", {"replace_where": "a = 1", "query": "SELECT 2"}),
        (
            "INSERT INTO t REPLACE WHERE a IN (SELECT 1) AND (b IS DISTINCT FROM 2) (SELECT 3)",
            {"replace_where": "a IN (SELECT 1) AND (b IS DISTINCT FROM 2)", "query": "(SELECT 3)"},
        ),
        ("INSERT INTO t REPLACE WHERE a IS DISTINCT FROM 3 VALUES (1)", {"replace_where": "a IS DISTINCT FROM 3"}),
        ("INSERT INTO t BY NAME REPLACE WHERE a = 1 SELECT 1 AS a", {"by_name": True, "replace_where": "a = 1"}),
        ("INSERT INTO t REPLACE USING (a, b) SELECT 1, 2", {"replace_using": ("a", "b"), "query": "SELECT 1, 2"}),
        (
            "INSERT INTO t AS x BY NAME REPLACE ON x.a = s.a SELECT 1",
            {"alias": "x", "by_name": True, "replace_on": "x.a = s.a", "query": "SELECT 1", "query_alias": None},
        ),
        (
            "INSERT INTO t REPLACE ON a IN (SELECT 1) (SELECT 2 AS a) AS s",
            {"replace_on": "a IN (SELECT 1)", "query": "(SELECT 2 AS a)", "query_alias": "s"},
        ),
        (
            "INSERT INTO t x REPLACE ON x.a = b (SELECT 2 AS b) UNION (SELECT 3)",
            {"query": "(SELECT 2 AS b) UNION (SELECT 3)", "query_alias": None},
        ),
        ("INSERT OVERWRITE t PARTITION (a = 1) IF NOT EXISTS SELECT 2", {"if_not_exists": True}),
    ],
)
def test_insert(text: str, expected: dict[str, Any]) -> None:
    statement = parsed(text)
    assert isinstance(statement, Insert)
    for name, value in expected.items():
        actual = getattr(statement, name)
        assert (actual.text if isinstance(actual, Fragment) else actual) == value


def test_insert_into_partitions() -> None:
    statement = parsed("INSERT OVERWRITE t PARTITION (day = DATE'2026-01-01', `hour of`) (a) SELECT 1")
    assert [(value.column, text_of(value.value)) for value in statement.partition] == [
        ("day", "DATE'2026-01-01'"),
        ("hour of", None),
    ]
    assert statement.columns == ("a",)


def test_rows_that_say_default() -> None:
    statement = parsed("INSERT INTO t VALUES (1, DEFAULT), (default, concat('DEFAULT', 'x')), DEFAULT")
    assert [tuple(map(text_of, row)) for row in statement.rows] == [
        ("1", None),
        (None, "concat('DEFAULT', 'x')"),
        (None,),
    ]
    assert parsed("INSERT INTO t VALUES (1), ('DEFAULT')").rows is None
    assert parsed("INSERT INTO t SELECT `DEFAULT` FROM u").rows is None
    assert parsed("INSERT INTO t VALUES (DEFAULT) AS x(a)").rows is None


@pytest.mark.parametrize(
    ("text", "line", "column", "expected", "there"),
    [
        ("INSERT INTO t", 1, 14, "a query", "the end"),
        ("INSERT INTO t (a b) VALUES (1)", 1, 18, ")", "b"),
        ("INSERT INTO t SELECT 1; DROP TABLE t", 1, 23, "the end of the statement", ";"),
    ],
)
def test_a_mistake_is_named_with_its_position(text: str, line: int, column: int, expected: str, there: str) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert expected in error.expected
    assert there in error.found
    assert error.statement == "INSERT"
