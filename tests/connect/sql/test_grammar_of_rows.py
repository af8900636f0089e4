"""INSERT, UPDATE, DELETE, TRUNCATE and MERGE, read."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.connect.sql.grammar.connect_statement_grammar import header_of
from anabranch.connect.sql.grammar.row_change_grammar import Action, Delete, Match, Merge, Truncate, Update
from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.insert_grammar import Insert


def parsed(text: str) -> Any:
    opening = header_of(text)
    assert opening is not None
    statement: Any = opening.parse()
    assert statement.table.parts == opening.table.parts
    return statement


def text_of(fragment: Fragment | None) -> str | None:
    return None if fragment is None else fragment.text


def refused(text: str) -> SqlSyntaxError:
    opening = header_of(text)
    assert opening is not None
    with pytest.raises(SqlSyntaxError) as found:
        opening.parse()
    return found.value


@pytest.mark.parametrize(
    ("text", "table", "alias", "condition"),
    [
        ("DELETE FROM t", ("t",), None, None),
        ("delete from s.t where a = 1;", ("s", "t"), None, "a = 1"),
        ("DELETE FROM delta.`/a b/c` AS x WHERE x.id > 1 -- rest", ("delta", "/a b/c"), "x", "x.id > 1"),
        ("DELETE FROM t x WHERE `where` = ';' ;;", ("t",), "x", "`where` = ';'"),
        ("DELETE FROM `a``b`.`c.d`", ("a`b", "c.d"), None, None),
        (
            "DELETE FROM t WHERE CASE WHEN a THEN b ELSE c END AND id IN (SELECT id FROM u WHERE x)",
            ("t",),
            None,
            "CASE WHEN a THEN b ELSE c END AND id IN (SELECT id FROM u WHERE x)",
        ),
        ("DELETE FROM t /* all of\n it */ WHERE/**/true", ("t",), None, "true"),
    ],
)
def test_delete(text: str, table: tuple[str, ...], alias: str | None, condition: str | None) -> None:
    found = parsed(text)
    assert isinstance(found, Delete)
    assert (found.table.parts, found.alias, text_of(found.condition)) == (table, alias, condition)


@pytest.mark.parametrize(
    ("text", "alias", "assignments", "condition"),
    [
        ("UPDATE t SET a = 1", None, {"a": "1"}, None),
        ("UPDATE t AS x SET x.a = x.b + 1, s.`f g`==DEFAULT WHERE c", "x", {"x.a": "x.b + 1", "s.f g": None}, "c"),
        (
            "UPDATE t SET a = CASE WHEN b = 'x, y' THEN 1 ELSE 2 END, c = f(1, 2), d = array[1, 2][0] WHERE e BETWEEN 1 AND 2",
            None,
            {"a": "CASE WHEN b = 'x, y' THEN 1 ELSE 2 END", "c": "f(1, 2)", "d": "array[1, 2][0]"},
            "e BETWEEN 1 AND 2",
        ),
        (
            "UPDATE t SET a = (SELECT max(x) FROM u WHERE u.y = 1)",
            None,
            {"a": "(SELECT max(x) FROM u WHERE u.y = 1)"},
            None,
        ),
        ("UPDATE t SET a = `default`", None, {"a": "`default`"}, None),
    ],
)
def test_update(text: str, alias: str | None, assignments: dict[str, str | None], condition: str | None) -> None:
    found = parsed(text)
    assert isinstance(found, Update)
    assert {".".join(each.column): text_of(each.value) for each in found.assignments} == assignments
    assert (found.alias, text_of(found.condition)) == (alias, condition)


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
    found = parsed(text)
    assert isinstance(found, Insert)
    for name, value in expected.items():
        got = getattr(found, name)
        assert (got.text if isinstance(got, Fragment) else got) == value


def test_insert_into_partitions() -> None:
    found = parsed("INSERT OVERWRITE t PARTITION (day = DATE'2026-01-01', `hour of`) (a) SELECT 1")
    assert [(each.column, text_of(each.value)) for each in found.partition] == [
        ("day", "DATE'2026-01-01'"),
        ("hour of", None),
    ]
    assert found.columns == ("a",)


def test_rows_that_say_default() -> None:
    found = parsed("INSERT INTO t VALUES (1, DEFAULT), (default, concat('DEFAULT', 'x')), DEFAULT")
    assert [tuple(map(text_of, row)) for row in found.rows] == [("1", None), (None, "concat('DEFAULT', 'x')"), (None,)]
    assert parsed("INSERT INTO t VALUES (1), ('DEFAULT')").rows is None
    assert parsed("INSERT INTO t SELECT `DEFAULT` FROM u").rows is None
    assert parsed("INSERT INTO t VALUES (DEFAULT) AS x(a)").rows is None


def test_truncate() -> None:
    assert isinstance(parsed("TRUNCATE TABLE t"), Truncate)
    assert parsed("TRUNCATE TABLE t PARTITION (a = 1)").has_partition


def test_merge_with_every_clause() -> None:
    found = parsed(
        """MERGE WITH SCHEMA EVOLUTION INTO s.t AS target
           USING (SELECT *, CASE WHEN x THEN 1 END AS c FROM u) AS source
           ON target.id = CASE WHEN source.a THEN 1 ELSE source.id END
           WHEN MATCHED AND source.gone THEN DELETE
           WHEN MATCHED AND CASE WHEN a THEN b END THEN UPDATE SET a = source.a, s.b = CASE WHEN c THEN d END
           WHEN MATCHED THEN UPDATE SET *
           WHEN NOT MATCHED AND source.a > 1 THEN INSERT (id, `a b`) VALUES (source.id, DEFAULT)
           WHEN NOT MATCHED BY TARGET THEN INSERT *
           WHEN NOT MATCHED BY SOURCE AND target.old THEN UPDATE SET a = NULL
           WHEN NOT MATCHED BY SOURCE THEN DELETE;"""
    )
    assert isinstance(found, Merge)
    assert (found.alias, found.source_alias, found.evolves) == ("target", "source", True)
    assert found.source.text == "(SELECT *, CASE WHEN x THEN 1 END AS c FROM u) AS source"
    assert found.condition.text == "target.id = CASE WHEN source.a THEN 1 ELSE source.id END"
    assert [(c.match, c.action, text_of(c.condition), c.all_columns) for c in found.clauses] == [
        (Match.MATCHED, Action.DELETE, "source.gone", False),
        (Match.MATCHED, Action.UPDATE, "CASE WHEN a THEN b END", False),
        (Match.MATCHED, Action.UPDATE, None, True),
        (Match.NOT_MATCHED, Action.INSERT, "source.a > 1", False),
        (Match.NOT_MATCHED, Action.INSERT, None, True),
        (Match.NOT_MATCHED_BY_SOURCE, Action.UPDATE, "target.old", False),
        (Match.NOT_MATCHED_BY_SOURCE, Action.DELETE, None, False),
    ]
    assert [(".".join(a.column), text_of(a.value)) for a in found.clauses[1].assignments] == [
        ("a", "source.a"),
        ("s.b", "CASE WHEN c THEN d END"),
    ]
    assert [(a.column, text_of(a.value)) for a in found.clauses[3].assignments] == [
        (("id",), "source.id"),
        (("a b",), None),
    ]


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        ("u", "u"),
        ("s.u", "u"),
        ("s.u x", "x"),
        ("delta.`/a b` AS x", "x"),
        ("u VERSION AS OF 3", "u"),
        ("u FOR VERSION AS OF 3 x", "x"),
        ("u TIMESTAMP AS OF '2026-01-01' AS x", "x"),
        ("(VALUES (1, 2)) AS x(a, b)", "x"),
        ("(SELECT 1)", None),
        ("range(10) x", "x"),
        ("IDENTIFIER('u') x", "x"),
    ],
)
def test_sources_of_merge(source: str, alias: str | None) -> None:
    found = parsed(f"MERGE INTO t USING {source} ON a = b WHEN MATCHED THEN DELETE")
    assert (found.source.text, found.source_alias, found.condition.text) == (source, alias, "a = b")


@pytest.mark.parametrize(
    ("text", "line", "column", "expected", "there"),
    [
        ("DELETE FROM t WERE a = 1", 1, 20, "WHERE", "a"),
        ("DELETE FROM t WHERE", 1, 20, "a condition", "the end"),
        ("DELETE FROM t\n  WHERE a = (1", 2, 15, "a closing parenthesis", "the end"),
        ("UPDATE t SET a = 1, WHERE b", 1, 21, "a column", "WHERE"),
        ("UPDATE t WHERE a = 1", 1, 16, "SET", "a"),
        ("UPDATE t SET a > 1", 1, 16, "=", ">"),
        ("UPDATE t SET a = , b = 1", 1, 18, "an expression", ","),
        ("UPDATE t SET a = 'x", 1, 18, "end of a string", "'x"),
        ("INSERT INTO t", 1, 14, "a query", "the end"),
        ("INSERT INTO t (a b) VALUES (1)", 1, 18, ")", "b"),
        ("MERGE INTO t USING u WHEN MATCHED THEN DELETE", 1, 27, "ON", "MATCHED"),
        ("MERGE INTO t USING u ON a", 1, 26, "WHEN", "the end"),
        ("MERGE INTO t USING u ON a WHEN MATCHED THEN INSERT *", 1, 45, "UPDATE SET or DELETE", "INSERT"),
        ("MERGE INTO t USING u ON a WHEN NOT MATCHED THEN DELETE", 1, 49, "INSERT", "DELETE"),
        ("MERGE INTO t USING u ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", 1, 72, "2 values", ")"),
        ("MERGE INTO t USING u ON a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", 1, 70, "a column", "*"),
        ("TRUNCATE TABLE t WHERE a", 1, 18, "the end of the statement", "WHERE"),
        ("DELETE FROM t; DROP TABLE t", 1, 14, "WHERE", ";"),
        ("DELETE FROM t WHERE a = 1; DROP TABLE t", 1, 26, "the end of the statement", ";"),
        ("INSERT INTO t SELECT 1; DROP TABLE t", 1, 23, "the end of the statement", ";"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(
    text: str, line: int, column: int, expected: str, there: str
) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert expected in error.expected
    assert there in error.found
    assert error.statement in {"DELETE", "UPDATE", "INSERT", "MERGE", "TRUNCATE TABLE"}
