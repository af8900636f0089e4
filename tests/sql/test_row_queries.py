"""Which queries take each row of one row of each of their tables, and what their conditions say of one of them."""

from __future__ import annotations

import pytest

from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.row_query import parse_row_query


def on(query: str, alias: str | None = "a") -> list[str] | None:
    """What the query says of that table alone; None where it is not taken for a query of rows."""
    found = parse_row_query(Fragment(query, 0, len(query)))
    return None if found is None else [part.text for part in found.conditions_on(alias)]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT x FROM t", []),
        ("SELECT x FROM t WHERE x = 1 OR y = 2", ["x = 1 OR y = 2"]),
        ("SELECT x FROM t a JOIN u b ON a.x = b.x WHERE a.y = 1", ["a.y = 1"]),
        ("SELECT x FROM t a JOIN u b ON a.x = b.x AND a.y = 1 WHERE b.z = 2 AND a.z > 3", ["a.y = 1", "a.z > 3"]),
        ("SELECT x FROM t a INNER JOIN u b WHERE a.x BETWEEN 1 AND 5 AND b.y = 2", ["a.x BETWEEN 1 AND 5"]),
        ("SELECT x FROM t a CROSS JOIN u b WHERE a.x = 1 AND b.y = 2 OR a.z = 3", []),
        ("SELECT x FROM t a, u b WHERE (a.x = 1 OR a.y = 2) AND a.z = b.z", ["(a.x = 1 OR a.y = 2)"]),
        ("SELECT x FROM t a LEFT JOIN u b ON a.x = 1 WHERE a.y = 2", ["a.y = 2"]),
        ("SELECT x FROM t a LEFT OUTER JOIN u b ON a.x = 1 JOIN v c ON a.z = 3", ["a.z = 3"]),
        ("SELECT x FROM t a LEFT SEMI JOIN u b ON left(a.x, 1) = b.left WHERE a.y = 2", ["a.y = 2"]),
        ("SELECT x FROM t a JOIN u b ON left(a.x, 1) = 'l' AND a.left = 'r' JOIN v c ON c.on = a.on",
         ["left(a.x, 1) = 'l'", "a.left = 'r'"]),
        ("SELECT x FROM t a JOIN VALUES (1, 2), (3, 4) AS b(x, y) WHERE a.x = 1", ["a.x = 1"]),
        ("SELECT x FROM VALUES (1) b(x), t a WHERE a.x = 1", ["a.x = 1"]),
        ("SELECT x FROM t a JOIN u b WHERE upper(a.x) = 'B' AND a.y IN (1, 2) AND a.z LIKE 'c%' AND a.v IS NOT NULL",
         ["upper(a.x) = 'B'", "a.y IN (1, 2)", "a.z LIKE 'c%'", "a.v IS NOT NULL"]),
        ("SELECT x FROM t a JOIN u b WHERE a.at > DATE '2026-01-01' AND a.s.f = :p", ["a.at > DATE '2026-01-01'", "a.s.f = :p"]),
    ],
)  # fmt: skip
def test_a_query_of_rows_says_what_passes(query: str, parts: list[str]) -> None:
    assert on(query) == parts


@pytest.mark.parametrize(
    "condition",
    [
        "x = 1",  # of whichever table has it, or a variable
        "a.x = y",
        "A.x = 1",  # where case counts, a struct of another table
        "b.x = 1",
        "a.x = IDENTIFIER('b.x')",
        'a.x = "y"',
        "filter(a.x, y -> y > z)[0] = 1",
        "1 = 1",
        "a.x = 1 OR b.x = 1",
        "NOT (a.x = 1 AND b.x = 1)",
        "a.x = current_date",
    ],
)
def test_what_may_read_another_table_says_nothing_of_one(condition: str) -> None:
    assert on(f"SELECT x FROM t a JOIN u b ON {condition} WHERE a.q = 0 AND ({condition})") == ["a.q = 0"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM u b RIGHT JOIN t a ON a.x = b.x WHERE a.y = 1",
        "SELECT x FROM t a FULL JOIN u b ON a.x = b.x WHERE a.y = 1",
        "SELECT x FROM t a NATURAL JOIN u b WHERE a.y = 1",
        "SELECT x FROM t a JOIN u b USING (x) WHERE a.y = 1",
        "SELECT x FROM t a SEMI JOIN u b ON a.x = b.x",
        "SELECT x FROM t a JOIN (SELECT max(y) AS y FROM u) b WHERE a.y = 1",
        "SELECT x FROM t a JOIN LATERAL explode(a.x) b WHERE a.y = 1",
        "SELECT x FROM t VERSION AS OF 1 a JOIN u b WHERE a.y = 1",
        "SELECT x FROM t a JOIN u VERSION AS OF 1 b WHERE a.y = 1",
        "SELECT x FROM t a JOIN range(3) b WHERE a.y = 1",
        "SELECT x FROM (t) a WHERE a.y = 1",
        "SELECT x FROM t a(x, y) WHERE a.y = 1",
        "SELECT DISTINCT x FROM t a WHERE a.y = 1",
        "SELECT x FROM t a JOIN u b WHERE a.y = 1 LIMIT 1",
        "SELECT x FROM t a WHERE a.y = 1 |> LIMIT 1",
        "FROM t SELECT x WHERE y = 1",
        "SELECT x FROM t a JOIN u b ON a.x = b.x ON a.y = 1",
        "SELECT x FROM t a JOIN",
    ],
)
def test_other_queries_are_not_taken_for_queries_of_rows(query: str) -> None:
    assert on(query) is None


@pytest.mark.parametrize("alias", [None, "session", "SYSTEM"])
def test_of_a_table_without_a_name_of_its_own_a_join_says_nothing(alias: str | None) -> None:
    assert on(f"SELECT x FROM t {alias or ''} JOIN u b WHERE {alias}.x = 1", alias) == []


def test_only_where_it_keeps_rows_out_a_condition_counts() -> None:
    """Behind an outer join rows of the left side pass that match nothing."""
    query = "SELECT x FROM u b LEFT JOIN t a ON a.x = 1 JOIN v c"
    found = parse_row_query(Fragment(query, 0, len(query)))
    assert found is not None
    assert [source.is_filtered for source in found.sources] == [True, False, True]
