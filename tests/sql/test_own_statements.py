"""Statements that Spark's parser does not know: which texts they are, what their results look like, what is a mistake."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from anabranch.commands.clone import clone_table
from anabranch.commands.describe.describe_table import DETAIL_SCHEMA, HISTORY_SCHEMA
from anabranch.commands.optimize import optimize_metrics
from anabranch.commands.restore import restore_table
from anabranch.commands.vacuum import vacuum_command
from anabranch.errors.arguments import SqlSyntaxError
from anabranch.predicates.sql_lexer import tokenize
from anabranch.sql import statement_explanations
from anabranch.sql.grammar.statement_grammar import OWN_FAMILIES
from anabranch.sql.own.first_words import FIRST_WORDS
from anabranch.sql.own.own_forms import FORMS_OF_DELTA, FORMS_OF_LATER_SPARK
from anabranch.sql.own.own_statement import OwnGrammar, OwnStatement
from anabranch.sql.parameters import Parameters
from sql.random_texts import TEXTS

EVERYTHING = OwnGrammar.beside(lambda _: False)
"""Beside a parser that knows no form of later releases, as that of Spark 4.0."""
ONLY_DELTAS = OwnGrammar(forms=FORMS_OF_DELTA, spark_parses=lambda _: True)
"""The statements that no release of Spark knows."""
NOTHING = StructType([])
OPTIMIZED = optimize_metrics.RESULT


def of_delta(text: str) -> OwnStatement:
    statement = ONLY_DELTAS.statement_of(text)
    assert statement is not None
    return statement


def begins(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None


DELTA_STATEMENTS: list[tuple[str, str, StructType]] = [
    ("OPTIMIZE t", "OPTIMIZE", OPTIMIZED),
    ("optimize s.t full", "OPTIMIZE", OPTIMIZED),
    ("OPTIMIZE '/data/t' WHERE day = '2026-01-01' ZORDER BY (a, s.b);", "OPTIMIZE", OPTIMIZED),
    ("OPTIMIZE delta.`/data/t` ZORDER BY a, b", "OPTIMIZE", OPTIMIZED),
    ("OPTIMIZE IDENTIFIER('t')", "OPTIMIZE", OPTIMIZED),
    ("REORG TABLE t APPLY (PURGE)", "REORG TABLE", OPTIMIZED),
    ("REORG TABLE t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))", "REORG TABLE", OPTIMIZED),
    ("VACUUM t", "VACUUM", vacuum_command.RESULT),
    ("VACUUM '/x' DRY RUN RETAIN 0.5 HOURS LITE", "VACUUM", vacuum_command.RESULT),
    ("VACUUM t USING INVENTORY (SELECT * FROM i) RETAIN 3 HOURS", "VACUUM", vacuum_command.RESULT),
    ("RESTORE TABLE t TO VERSION AS OF 3", "RESTORE", restore_table.RESULT),
    ("RESTORE t TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", "RESTORE", restore_table.RESULT),
    ("CONVERT TO DELTA parquet.`/x` NO STATISTICS PARTITIONED BY (a INT)", "CONVERT TO DELTA", NOTHING),
    ("GENERATE symlink_format_manifest FOR TABLE t", "GENERATE", NOTHING),
    ("DESCRIBE DETAIL t", "DESCRIBE DETAIL", DETAIL_SCHEMA),
    ("desc detail '/x'", "DESCRIBE DETAIL", DETAIL_SCHEMA),
    ("DESCRIBE HISTORY a.b LIMIT 5", "DESCRIBE HISTORY", HISTORY_SCHEMA),
    ("DESCRIBE -- of\n /* the */ HISTORY\tt", "DESCRIBE HISTORY", HISTORY_SCHEMA),
    ("DESCRIBE DETAIL optimize", "DESCRIBE DETAIL", DETAIL_SCHEMA),
    ("CREATE TABLE t SHALLOW CLONE s", "CREATE TABLE", clone_table.RESULT),
    ("CREATE TABLE IF NOT EXISTS t CLONE s VERSION AS OF 3", "CREATE TABLE", clone_table.RESULT),
    ("CREATE OR REPLACE TABLE t DEEP CLONE s LOCATION '/x'", "CREATE TABLE", clone_table.RESULT),
    ("REPLACE TABLE t SHALLOW CLONE parquet.`/x`", "REPLACE TABLE", clone_table.RESULT),
    ("ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY", "ALTER TABLE", NOTHING),
    ("ALTER TABLE delta.`/x` DROP FEATURE 'deletionVectors'", "ALTER TABLE", NOTHING),
    ("ALTER TABLE t ALTER COLUMN s.a SYNC IDENTITY", "ALTER TABLE", NOTHING),
    ("ALTER TABLE t CHANGE a SYNC IDENTITY", "ALTER TABLE", NOTHING),
    ("ALTER TABLE t ADD COLUMNS IF NOT EXISTS (a INT)", "ALTER TABLE", NOTHING),
    ("ALTER TABLE t CHANGE COLUMN a b INT COMMENT 'renamed'", "ALTER TABLE", NOTHING),
    ("EXPLAIN OPTIMIZE t WHERE a = 1", "OPTIMIZE", statement_explanations.SCHEMA),
    ("/* c */ EXPLAIN EXTENDED DESCRIBE HISTORY t", "DESCRIBE HISTORY", statement_explanations.SCHEMA),
    ("EXPLAIN ALTER TABLE t DROP FEATURE f", "ALTER TABLE", statement_explanations.SCHEMA),
]
"""No release of Spark parses these, or it takes them for something else; by the name and the columns of their results."""

LATER_STATEMENTS: list[tuple[str, str]] = [
    ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "ALTER TABLE"),
    ("ALTER TABLE t DROP CONSTRAINT IF EXISTS c", "ALTER TABLE"),
    ("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0)) USING delta", "CREATE TABLE"),
    ("CREATE OR REPLACE TABLE t (a INT CHECK (a > 0))", "CREATE TABLE"),
    ("REPLACE TABLE t (a INT, CHECK (a > 0)) USING DELTA", "REPLACE TABLE"),
    ("CREATE TABLE t (a INT PRIMARY KEY) USING delta", "CREATE TABLE"),
    ("CREATE TABLE IDENTIFIER('t') LIKE s USING delta", "CREATE TABLE"),
    ("CREATE TABLE t LIKE spark_catalog.default.s", "CREATE TABLE"),
    ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", "INSERT"),
    ("INSERT INTO t REPLACE USING (a, b) SELECT 1, 2", "INSERT"),
    ("INSERT INTO t AS x REPLACE ON x.a = s.a (SELECT 1 AS a) AS s", "INSERT"),
    ("WITH q AS (SELECT 1 AS a) INSERT INTO t REPLACE USING (a) SELECT * FROM q", "INSERT"),
    ("INSERT INTO t BY NAME REPLACE WHERE a = 1 SELECT 1 AS a", "INSERT"),
    ("INSERT INTO t (a) REPLACE WHERE a = 1 SELECT 1", "INSERT"),
    ("COMMENT ON COLUMN t.c IS 'x'", "COMMENT ON COLUMN"),
]
"""Some releases of Spark parse these."""

OF_SPARK = [
    "SELECT * FROM optimize",
    "SELECT vacuum, detail, clone FROM history -- OPTIMIZE t",
    "(SELECT 1)",
    "FROM optimize SELECT *",
    "VALUES (1)",
    "DESCRIBE optimize",
    "DESCRIBE vacuum",
    "DESC history",
    "DESCRIBE DETAIL",
    "DESCRIBE detail.t",
    "DESCRIBE `detail` t",
    "DESCRIBE TABLE history t",
    "DESCRIBE TABLE EXTENDED history",
    "DESCRIBE EXTENDED detail AS JSON",
    "DESCRIBE detail AS JSON",
    "DESCRIBE detail PARTITION (a = 1)",
    "DESCRIBE QUERY SELECT detail FROM history",
    "DESCRIBE FUNCTION history",
    "CREATE TABLE clone (a INT)",
    "CREATE TABLE clone AS SELECT 1",
    "CREATE TABLE t AS SELECT 1 AS clone",
    "CREATE TABLE t (clone INT) USING delta",
    "CREATE TABLE t LIKE s",
    "CREATE TABLE t LIKE delta.`/x` USING delta",
    "CREATE TABLE t (a INT COMMENT 'CHECK (a > 0)') USING delta",
    "CREATE TABLE t USING delta AS SELECT a FROM s WHERE b LIKE 'clone'",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM clone",
    "ALTER TABLE t ADD COLUMN feature INT",
    "ALTER TABLE t DROP COLUMN feature",
    "ALTER TABLE t DROP COLUMNS IF EXISTS (feature, constraint)",
    "ALTER TABLE t ADD COLUMNS (constraint INT, sync INT)",
    "ALTER TABLE t ALTER COLUMN identity COMMENT 'SYNC IDENTITY'",
    "ALTER TABLE t ALTER COLUMN sync TYPE BIGINT",
    "ALTER TABLE t ALTER COLUMN a TYPE BIGINT, b COMMENT 'sync'",
    "ALTER TABLE t CHANGE COLUMN a a INT AFTER b",
    "ALTER TABLE t CHANGE COLUMN a TYPE BIGINT",
    "ALTER TABLE t CLUSTER BY (a, s.b)",
    "ALTER TABLE t CLUSTER BY NONE",
    "ALTER TABLE t SET TBLPROPERTIES ('feature' = 'x')",
    "ALTER TABLE t RENAME COLUMN feature TO sync",
    "ALTER TABLE t something about a feature",
    "ALTER VIEW v AS SELECT feature FROM t",
    "INSERT INTO optimize SELECT 1",
    "INSERT INTO t SELECT replace(a, 'evolution', 'b') FROM s",
    "INSERT INTO t REPLACE WHERE a = 1 SELECT 1",
    "INSERT INTO t BY NAME SELECT 1 AS a",
    "WITH optimize AS (SELECT 1) SELECT * FROM optimize",
    "WITH q AS (SELECT 1) OPTIMIZE t",
    "FROM s INSERT INTO t SELECT a INSERT INTO u SELECT b",
    "COMMENT ON TABLE t IS 'a column'",
    "SHOW TBLPROPERTIES history",
    "DROP TABLE vacuum",
    "TRUNCATE TABLE optimize",
    "UPDATE vacuum SET detail = 1",
    "DELETE FROM history WHERE clone",
    "MERGE INTO optimize USING vacuum ON a = b WHEN MATCHED THEN DELETE",
    "SELECT * FROM t@v1",
    "EXPLAIN SELECT * FROM vacuum",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN",
    "EXECUTE IMMEDIATE 'OPTIMIZE t'",
    "BEGIN OPTIMIZE t; END",
    "SET optimize = 1",
    "CONVERT TO ICEBERG t",
    "GENERATE a report",
    "REORG t",
    "`OPTIMIZE` t",
    "'VACUUM t'",
    "",
    " -- VACUUM t",
]


@pytest.mark.parametrize(("text", "name", "output"), DELTA_STATEMENTS, ids=[text for text, _, _ in DELTA_STATEMENTS])
def test_statements_of_delta(text: str, name: str, output: StructType) -> None:
    statement = of_delta(text)
    assert (statement.name, statement.output) == (name, output)
    assert (statement.explained is not None) == ("EXPLAIN" in text)
    assert EVERYTHING.statement_of(text) == statement
    assert begins(FIRST_WORDS, text)


@pytest.mark.parametrize(("text", "name"), LATER_STATEMENTS, ids=[text for text, _ in LATER_STATEMENTS])
def test_statements_that_some_releases_of_spark_parse(text: str, name: str) -> None:
    statement = EVERYTHING.statement_of(text)
    assert statement is not None
    assert (statement.name, statement.output) == (name, NOTHING)
    assert begins(FIRST_WORDS, text)
    assert ONLY_DELTAS.statement_of(text) is None


@pytest.mark.parametrize("form", FORMS_OF_LATER_SPARK, ids=lambda form: form.name)
def test_the_example_of_a_form_has_that_form_and_no_other(form: Any) -> None:
    """So whether a form is ours can be decided by parsing the example with Spark's parser."""
    statement = EVERYTHING.statement_of(form.example)
    assert statement is not None
    assert statement.form == form
    beside = OwnGrammar.beside(lambda text: text == form.example)
    assert beside.statement_of(form.example) is None
    assert [name for name in beside.forms if not beside.has(name)] == [form]


@pytest.mark.parametrize("grammar", [ONLY_DELTAS, EVERYTHING], ids=["only Delta's", "everything"])
def test_statements_of_spark(grammar: OwnGrammar) -> None:
    assert [text for text in OF_SPARK if grammar.statement_of(text) is not None] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE t NOW", "the end of the statement"),
        ("OPTIMIZE", "the name of a table"),
        ("OPTIMIZE t WHERE", "a condition"),
        ("OPTIMIZE 'unfinished", "the name of a table"),
        ("OPTIMIZE t; VACUUM t", "the end of the statement"),
        ("EXPLAIN FORMATTED VACUUM 5", "the name of a table"),
        ("REORG TABLE t", "APPLY"),
        ("REORG TABLE 't' APPLY (PURGE)", "the name of a table"),
        ("VACUUM t RETAIN 5", "HOURS"),
        ("RESTORE TABLE t TO 3", "VERSION AS OF"),
        ("RESTORE", "the name of a table"),
        ("CONVERT TO DELTA", "the name of a table"),
        ("CONVERT TO DELTA t PARTITIONED BY", "("),
        ("DESCRIBE HISTORY t LIMIT x", "a whole number"),
        ("DESCRIBE DETAIL t now", "the end of the statement"),
        ("CREATE TABLE t SHALLOW CLONE", "the name of a table"),
        ("CREATE TABLE t SHALLOW CLONE s AS SELECT 1", "the end of the statement"),
        ("ALTER TABLE t DROP FEATURE", "the name of a feature"),
        ("ALTER TABLE t ALTER COLUMN a SYNC IDENTITY now", "the end of the statement"),
    ],
)  # fmt: skip
def test_mistakes(text: str, expected: str) -> None:
    """What begins as a statement of ours is judged here: Spark's parser would only say that it knows no such word."""
    with pytest.raises(SqlSyntaxError) as refused:
        ONLY_DELTAS.statement_of(text)
    assert expected in refused.value.expected
    assert refused.value.statement in {family.name for family in OWN_FAMILIES}
    assert begins(FIRST_WORDS, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE t ADD CONSTRAINT c", "CHECK"),
        ("INSERT INTO t REPLACE USING a SELECT 1", "("),
        ("INSERT INTO t REPLACE ON (a = 1)", "a query"),
        ("INSERT WITH SCHEMA EVOLUTION INTO t", "a query"),
        ("COMMENT ON COLUMN t.c", "IS"),
    ],
)
def test_mistakes_in_what_spark_does_not_know_yet(text: str, expected: str) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        EVERYTHING.statement_of(text)
    assert expected in refused.value.expected
    assert ONLY_DELTAS.statement_of(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE t", ()),
        ("OPTIMIZE IDENTIFIER(:t) WHERE day = :day OR day = :t", ("t", "day", "t")),
        ("OPTIMIZE t WHERE a = ? AND b = '?' AND c = ?", (21, 43)),
        ("RESTORE t TO TIMESTAMP AS OF :x::TIMESTAMP -- :y", ("x",)),
        ("VACUUM t USING INVENTORY (SELECT * FROM i WHERE a:b = :c)", ("c",)),
        ("EXPLAIN OPTIMIZE t WHERE a = :a", ("a",)),
        ("CREATE TABLE IDENTIFIER(:t) (a STRUCT<b : INT>, CHECK (a.b > 0)) USING delta", ("t",)),
    ],
)
def test_parameters(text: str, expected: tuple[str | int, ...]) -> None:
    """Their names or positions, as Spark's parser would have them."""
    statement = EVERYTHING.statement_of(text)
    assert statement is not None
    assert statement.markers == expected


def test_values_of_parameters_in_the_order_of_the_text() -> None:
    named = of_delta("OPTIMIZE IDENTIFIER(:t) WHERE a = :x AND b = :t")
    assert named.parameters(["s.t", 1, "s.t"]) == Parameters(named={"t": "s.t", "x": 1})
    positional = of_delta("OPTIMIZE t WHERE a = ? AND b = ?")
    assert positional.parameters([1, None]) == Parameters(positional=(1, None))
    assert of_delta("OPTIMIZE t").parameters([]) == Parameters()


def test_every_form_has_a_name_and_a_grammar_of_its_own() -> None:
    forms = (*FORMS_OF_DELTA, *FORMS_OF_LATER_SPARK)
    assert len({form.name for form in forms}) == len(forms)
    assert {form.family for form in forms} <= {family.name for family in OWN_FAMILIES}
    assert not any(form.example for form in FORMS_OF_DELTA)
    assert all(form.example for form in FORMS_OF_LATER_SPARK)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM optimize JOIN vacuum",
        "WITH clone AS (SELECT 1) SELECT * FROM clone",
        "INSERT INTO t SELECT a",
        "CREATE TABLE t AS SELECT 1",
        "DESCRIBE t",
        "ALTER TABLE t ADD COLUMN a INT",
        "EXPLAIN SELECT 1",
        "-- a remark\nSELECT 1",
        "optimized",
        "x OPTIMIZE t",
    ],
)
def test_texts_that_are_not_worth_a_question(text: str) -> None:
    assert not begins(FIRST_WORDS, text)


def test_first_words_are_found_in_time_that_grows_with_the_text() -> None:
    """No text makes the expression try the same again and again."""
    for text in (
        "/*" + "*/ /*" * 50_000,
        "--\n" * 100_000,
        " " * 300_000 + "x",
        "WITH " + "INSERT " * 50_000,
        "ALTER TABLE " + "FEATUR " * 50_000,
    ):
        assert not begins(FIRST_WORDS, text)


GAPS = st.sampled_from(
    [" ", "\n", "\t", "  ", "/**/", "/* a /* b */ OPTIMIZE */", "-- VACUUM '\n", "\u3000", "\u00a0", "/*+ x */ "]
)
STATEMENTS = st.sampled_from([text for text, _, _ in DELTA_STATEMENTS] + [text for text, _ in LATER_STATEMENTS])


@given(STATEMENTS, st.lists(GAPS, min_size=40, max_size=40), st.booleans())
def test_spaces_comments_and_case_change_nothing(text: str, gaps: list[str], lower: bool) -> None:
    pieces = [token.text for token in tokenize(text)]
    spaced = gaps[0] + "".join(piece + gap for piece, gap in zip(pieces, gaps[1:], strict=False))
    spaced = spaced.lower() if lower else spaced
    statement = EVERYTHING.statement_of(spaced)
    expected = EVERYTHING.statement_of(text)
    assert statement is not None
    assert expected is not None
    assert (statement.form, statement.output) == (expected.form, expected.output)
    assert begins(FIRST_WORDS, spaced)


@given(st.sampled_from(["", "EXPLAIN ", "-- x\n", "/**/"]), STATEMENTS, st.integers(0, 60), TEXTS)
def test_any_text_is_ours_or_sparks_or_a_mistake(before: str, text: str, cut: int, rest: str) -> None:
    """Every statement of ours is recognized by its first words."""
    changed = before + text[:cut] + rest
    try:
        is_ours = EVERYTHING.statement_of(changed) is not None
    except SqlSyntaxError:
        is_ours = True
    if is_ours:
        assert begins(FIRST_WORDS, changed)
