"""CREATE VIEW, CACHE TABLE, EXECUTE IMMEDIATE, and names that WITH gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from anabranch.connect.sql.grammar.connect_statement_grammar import header_of
from anabranch.connect.sql.grammar.script_grammar import parse_immediate
from anabranch.connect.sql.grammar.view_grammar import CreateViewUsing
from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.grammar.insert_grammar import named_queries
from sql.random_texts import TEXTS


def parsed(text: str) -> Any:
    opening = header_of(text)
    assert opening is not None
    return opening.parse()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW v AS SELECT 1", {"is_temporary": False, "replaces": False, "columns": (), "query": "SELECT 1"}),
        (
            "CREATE OR REPLACE GLOBAL TEMPORARY VIEW s.v (a COMMENT 'x', `b c`) COMMENT 'as' AS (SELECT 1, 2)",
            {"replaces": True, "is_global": True, "columns": (("a", "x"), ("b c", None)), "query": "(SELECT 1, 2)"},
        ),
        ("CREATE TEMP VIEW as (a) TBLPROPERTIES ('as' = 'b') AS TABLE t", {"is_temporary": True, "query": "TABLE t"}),
        ("CREATE VIEW IF NOT EXISTS v WITH SCHEMA EVOLUTION AS WITH q AS (SELECT 1) SELECT * FROM q",
         {"if_not_exists": True, "evolves": True, "query": "WITH q AS (SELECT 1) SELECT * FROM q"}),
        ("ALTER VIEW v AS VALUES (1)", {"query": "VALUES (1)"}),
        ("CACHE LAZY TABLE t OPTIONS ('storageLevel' 'DISK_ONLY')",
         {"is_lazy": True, "options": (("storageLevel", "DISK_ONLY"),), "query": None}),
        ("CACHE TABLE c SELECT 1", {"is_lazy": False, "query": "SELECT 1"}),
        ("UNCACHE TABLE IF EXISTS t", {"if_exists": True}),
    ],
)  # fmt: skip
def test_what_views_say(text: str, expected: dict[str, Any]) -> None:
    found = parsed(text)
    for name, value in expected.items():
        got = getattr(found, name)
        assert (str(got) if isinstance(value, str) else got) == value


def test_a_view_of_a_format() -> None:
    opening = header_of("CREATE OR REPLACE TEMP VIEW v (a INT) USING Delta OPTIONS (path '/x', versionAsOf 3)")
    assert opening is not None
    assert opening.provider == "delta"
    opening = header_of("CREATE TEMP VIEW v USING Delta OPTIONS (path '/x', versionAsOf 3)")
    assert opening is not None
    found = opening.parse()
    assert isinstance(found, CreateViewUsing)
    assert found.options == (("path", "/x"), ("versionAsOf", "3"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW v SELECT 1", "AS and a query"),
        ("CREATE VIEW v AS 1", "a query"),
        ("CREATE VIEW v WITH SCHEMA x AS SELECT 1", "BINDING or COMPENSATION"),
        ("CREATE TEMP VIEW IF NOT EXISTS v AS SELECT 1", "AS and a query"),
        ("UNCACHE TABLE t x", "the end of the statement"),
    ],
)
def test_mistakes_are_told(text: str, expected: str) -> None:
    with pytest.raises(SqlSyntaxError, match=expected):
        parsed(text)


def test_statements_that_an_expression_tells() -> None:
    found = parse_immediate(Cursor("EXECUTE IMMEDIATE 'a' || b INTO x, session.y USING f(1, 2) AS n, 'AS' AS m"))
    assert (str(found.text), found.into) == ("'a' || b", ("x", "session.y"))
    assert [(str(value), name) for value, name in found.values] == [("f(1, 2)", "n"), ("'AS'", "m")]
    found = parse_immediate(Cursor("EXECUTE IMMEDIATE t USING (1, (2) + 3)"))
    assert [str(value) for value, _ in found.values] == ["1", "(2) + 3"]
    found = parse_immediate(Cursor("EXECUTE IMMEDIATE t USING (1) + 2, 3"))
    assert [str(value) for value, _ in found.values] == ["(1) + 2", "3"]


def test_names_of_queries() -> None:
    assert named_queries("WITH a AS (SELECT ')' AS x), `b c` (x, y) AS (WITH d AS (SELECT 1) SELECT 2)") == ("a", "b c")
    assert named_queries("WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)") == ("r",)
    assert named_queries("WITH recursive AS (SELECT 1)") == ("recursive",)


@given(TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    """What stands between the words of a statement is handed on as it was written, or refused with a place."""
    for begin in ("CREATE TEMP VIEW v AS SELECT ", "CACHE TABLE c AS SELECT ", "FROM s INSERT INTO t SELECT "):
        opening = header_of(begin + text)
        if opening is None:
            continue
        try:
            found: Any = opening.parse()
        except SqlSyntaxError as error:
            assert 1 <= error.line <= (begin + text).count("\n") + 1
            continue
        query = found.inserts[-1][1].query if hasattr(found, "inserts") else found.query
        assert query is None or query.text in begin + text
