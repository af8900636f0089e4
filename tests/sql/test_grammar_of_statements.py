"""Which texts our parser takes up, and what it makes of the statements about a whole table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.statement_grammar import OWN_FAMILIES, header_of
from sql.random_texts import TEXTS


def parsed(text: str) -> Any:
    header = header_of(text)
    assert header is not None
    return header.parse()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "(SELECT 1)",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "FROM t SELECT a",
        "VALUES (1)",
        "USE s",
        "SET a = b",
        "CREATE MATERIALIZED VIEW v AS SELECT 1",
        "CREATE FUNCTION f AS 'x'",
        "DROP VIEW v",
        "SHOW TABLES",
        "BEGIN DELETE FROM t; END",
        "EXPLAIN SELECT 1",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE",
        "OPTIMIZE",
        "",
        "not sql at all ' unbalanced",
        "-- DELETE FROM t",
    ],
)
def test_other_texts_are_left_to_spark(text: str) -> None:
    assert header_of(text) is None


@pytest.mark.parametrize(
    ("text", "name", "table"),
    [
        ("/* a */ -- b\n optimize\nt", "OPTIMIZE", ("t",)),
        ("OPTIMIZE t nonsense", "OPTIMIZE", ("t",)),
        ("INSERT WITH SCHEMA EVOLUTION INTO TABLE s.t SELECT 1", "INSERT", ("s", "t")),
        ("CREATE OR REPLACE TABLE delta.`/x` (a INT)", "CREATE TABLE", ("delta", "/x")),
        ("OPTIMIZE '/data/t'", "OPTIMIZE", ("delta", "/data/t")),
        ("DESC HISTORY t", "DESCRIBE HISTORY", ("t",)),
        ("GENERATE symlink_format_manifest FOR TABLE t", "GENERATE", ("t",)),
    ],
)
def test_how_statements_begin(text: str, name: str, table: tuple[str, ...]) -> None:
    header = header_of(text)
    assert header is not None
    assert (header.family.name, header.table.parts) == (name, table)


def test_text_before_a_statement() -> None:
    header = header_of("EXPLAIN EXTENDED OPTIMIZE t")
    assert header is not None
    assert header.explained == "EXPLAIN EXTENDED"
    header = header_of("WITH a AS (SELECT ')' FROM t), b(x) AS (SELECT 1) INSERT INTO t SELECT * FROM a, b")
    assert header is not None
    assert header.named_queries is not None
    assert header.named_queries.text == "WITH a AS (SELECT ')' FROM t), b(x) AS (SELECT 1)"
    assert header.parse().query.text == "SELECT * FROM a, b"  # type: ignore[attr-defined]


def test_a_name_that_is_an_expression() -> None:
    header = header_of("OPTIMIZE IDENTIFIER(:name || '_x') ZORDER BY (a)")
    assert header is not None
    assert header.table.parts == ()
    assert header.table.expression is not None
    assert header.table.expression.text == ":name || '_x'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE t", {"full": False, "condition": None, "z_order": ()}),
        ("OPTIMIZE t FULL", {"full": True}),
        ("OPTIMIZE t WHERE day = '2026-01-01' AND zorder = 1 ZORDER BY (a, s.b)",
         {"condition": "day = '2026-01-01' AND zorder = 1", "z_order": (("a",), ("s", "b"))}),
        ("OPTIMIZE t ZORDER BY a, b", {"z_order": (("a",), ("b",))}),
        ("REORG TABLE t APPLY (PURGE)", {"condition": None, "iceberg_version": None}),
        ("REORG TABLE t WHERE apply = 1 APPLY (PURGE)", {"condition": "apply = 1"}),
        ("REORG TABLE t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))", {"iceberg_version": 2}),
        ("VACUUM t", {"lite": False, "full": False, "retain_hours": None, "dry_run": False}),
        ("VACUUM '/x' DRY RUN RETAIN 0.5 HOURS LITE", {"lite": True, "retain_hours": "0.5", "dry_run": True}),
        ("VACUUM t FULL USING INVENTORY (SELECT * FROM i WHERE f(1)) RETAIN 3 HOURS",
         {"full": True, "inventory": "(SELECT * FROM i WHERE f(1))", "retain_hours": "3"}),
        ("VACUUM t USING INVENTORY s.i", {"inventory": "s.i"}),
        ("RESTORE TABLE t TO VERSION AS OF 3", {"version": "3", "timestamp": None}),
        ("RESTORE t VERSION AS OF '3'", {"version": "3"}),
        ("RESTORE t TO TIMESTAMP AS OF '2026-01-01'", {"version": None, "timestamp": "'2026-01-01'"}),
        ("CONVERT TO DELTA parquet.`/x` NO STATISTICS PARTITIONED BY (a INT, b STRING)",
         {"collects_statistics": False, "partition_schema": "a INT, b STRING"}),
        ("GENERATE symlink_format_manifest FOR TABLE t", {"mode": "symlink_format_manifest"}),
        ("DESCRIBE HISTORY t LIMIT 5", {"limit": 5}),
    ],
)  # fmt: skip
def test_statements_about_a_table(text: str, expected: dict[str, Any]) -> None:
    statement = parsed(text)
    for name, value in expected.items():
        actual = getattr(statement, name)
        assert (actual.text if hasattr(actual, "text") else actual) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE t NOW", "the end of the statement"),
        ("REORG TABLE t", "APPLY"),
        ("VACUUM t RETAIN 5", "HOURS"),
        ("RESTORE TABLE t TO 3", "VERSION AS OF"),
        ("DESCRIBE HISTORY t LIMIT x", "a whole number"),
    ],
)
def test_mistakes(text: str, expected: str) -> None:
    header = header_of(text)
    assert header is not None
    with pytest.raises(SqlSyntaxError) as refused:
        header.parse()
    assert expected in refused.value.expected
    assert refused.value.statement == header.family.name


@given(TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text behind a table's name is a statement or a `SqlSyntaxError`, never another error."""
    for begin in (
        "CREATE TABLE t ",
        "ALTER TABLE t ",
        "INSERT INTO t ",
        "OPTIMIZE t ",
    ):
        header = header_of(begin + text)
        if header is None:
            continue
        try:
            header.parse()
        except SqlSyntaxError as error:
            assert 1 <= error.line <= text.count("\n") + 2


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_names_stay_names(schema: str, name: str) -> None:
    """Nothing in a quoted name ends it: no quote, comment, semicolon or keyword."""
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, name))
    for begin, end in (
        ("INSERT INTO ", " SELECT 1"),
        ("OPTIMIZE ", " ZORDER BY (a)"),
        ("ALTER TABLE ", " ADD COLUMN a INT"),
        ("VACUUM ", ""),
    ):
        header = header_of(begin + quoted + end)
        assert header is not None
        assert header.table.parts == (schema, name)
        assert header.parse().table.parts == (schema, name)  # type: ignore[attr-defined]


def test_every_family_has_a_name_of_its_own() -> None:
    assert len({family.name for family in OWN_FAMILIES}) == len(OWN_FAMILIES)
