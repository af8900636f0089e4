"""Statements that Spark's parser does not know, run: the result has the columns of its description."""

from __future__ import annotations

import datetime
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import UnboundParameterError, UnsupportedOperationError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.sql.own.first_words import FIRST_WORDS
from anabranch.sql.own.own_forms import FORMS_OF_LATER_SPARK
from anabranch.sql.own.own_statement import OwnGrammar
from anabranch.sql.parameters import Parameters
from sql.test_own_statements import DELTA_STATEMENTS, LATER_STATEMENTS, OF_SPARK

pytestmark = pytest.mark.spark

EVERYTHING = OwnGrammar.beside(lambda _: False)
"""All forms, including those that the parser of this Spark knows."""


def run(spark: SparkSession, text: str, args: Any = None) -> DataFrame:
    """The statement's result, whose columns are those known before."""
    statement = EVERYTHING.statement_of(text)
    assert statement is not None, text
    output = statement.output
    frame = statement.run(DeltaSession.of(spark), Parameters.of(args))
    assert frame.schema == output, text
    return frame


@pytest.fixture
def table(native: SparkSession, path: str) -> str:
    """Two files of partition 0, one of 1; and a file that no commit names."""
    name = f"delta.`{path}`"
    rows = "SELECT id, CAST(id % 2 AS INT) AS p FROM range(0, 4, 1, 1)"
    native.sql(f"CREATE TABLE {name} USING delta PARTITIONED BY (p) AS {rows}")
    native.sql(f"INSERT INTO {name} VALUES (8, 0)")
    Path(path, "orphan").write_text("x")
    os.utime(Path(path, "orphan"), (1.7e9, 1.7e9))
    return name


@pytest.fixture
def new_name(native: SparkSession) -> Iterator[str]:
    """The name of a table that is not there yet."""
    made = f"t_{uuid.uuid4().hex[:8]}"
    yield made
    native.sql(f"DROP TABLE IF EXISTS {made}")


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(f"SELECT * FROM {table}").collect()), key=str)


# Files and versions.


def test_optimize(native: SparkSession, table: str, path: str) -> None:
    assert run(native, f"OPTIMIZE {table} WHERE p = 1").first().metrics.numFilesAdded == 0
    assert run(native, f"OPTIMIZE '{path}' ZORDER BY (id)").first().metrics.numFilesRemoved == 3
    assert run(native, f"REORG TABLE {table} APPLY (PURGE)").first().metrics.numFilesAdded == 0
    assert len(rows(native, table)) == 5


def test_upgrade_uniform(native: SparkSession, path: str) -> None:
    pytest.importorskip("pyiceberg")
    native.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    upgrade = f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))"
    assert run(native, upgrade).collect() == []


def test_vacuum(native: SparkSession, table: str, path: str) -> None:
    assert run(native, f"VACUUM {table} DRY RUN").collect() == [(f"file:{path}/orphan",)]
    inventory = f"SELECT 'file:{path}/orphan' AS path, 1L AS length, false AS isDir, 0L AS modificationTime"
    assert run(native, f"VACUUM {table} USING INVENTORY ({inventory}) DRY RUN").count() == 1
    listed = f"SELECT '{path}' || ? AS path, 1L AS length, false AS isDir, 0L AS modificationTime"
    assert run(native, f"VACUUM {table} USING INVENTORY ({listed} FROM {table}) DRY RUN", ["/orphan"]).count() == 1
    assert run(native, f"VACUUM {table} LITE").collect() == [(f"file:{path}",)]
    assert Path(path, "orphan").exists()
    assert run(native, f"VACUUM {table}").count() == 1
    assert not Path(path, "orphan").exists()


def test_restore(native: SparkSession, table: str) -> None:
    assert run(native, f"RESTORE TABLE {table} TO VERSION AS OF 1").collect() == []
    restored = run(native, f"RESTORE {table} VERSION AS OF 0").first()
    assert (restored.num_removed_files, len(rows(native, table))) == (1, 4)
    first = run(native, f"DESCRIBE HISTORY {table}").collect()[-2].timestamp
    later = {"later": first.astimezone(datetime.UTC) + datetime.timedelta(hours=1)}
    run(native, f"RESTORE {table} TO TIMESTAMP AS OF :later - INTERVAL 1 HOUR", later)
    assert len(rows(native, table)) == 5


def test_descriptions(native: SparkSession, table: str, path: str) -> None:
    assert run(native, f"DESCRIBE DETAIL {table}").first().partitionColumns == ["p"]
    assert run(native, f"DESC DETAIL '{path}'").first().numFiles == 3
    assert [row.version for row in run(native, f"DESCRIBE HISTORY {table}").collect()] == [1, 0]
    assert [row.version for row in run(native, f"DESC HISTORY '{path}' LIMIT 1").collect()] == [1]


def test_clone(native: SparkSession, table: str, path: str) -> None:
    clone = f"delta.`{path} 2`"
    assert run(native, f"CREATE TABLE {clone} SHALLOW CLONE {table} VERSION AS OF ?", [0]).count() == 1
    assert len(rows(native, clone)) == 4
    assert run(native, f"CREATE TABLE IF NOT EXISTS {clone} SHALLOW CLONE {table}").collect() == []
    assert run(native, f"REPLACE TABLE {clone} SHALLOW CLONE {table}").first().source_num_of_files == 3


def test_convert_and_generate(native: SparkSession, path: str) -> None:
    native.range(3).write.parquet(path)
    assert run(native, f"CONVERT TO DELTA parquet.`{path}`").collect() == []
    assert run(native, f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`").collect() == []
    assert os.listdir(f"{path}/_symlink_format_manifest") == ["manifest"]


# Definitions.


def test_alterations(native: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    native.sql(
        f"CREATE TABLE {table} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, n INT) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    native.sql(f"INSERT INTO {table} (id, n) VALUES (7, 1)")
    for alteration in (
        "ALTER COLUMN id SYNC IDENTITY",
        "ADD CONSTRAINT positive CHECK (n > 0)",
        "DROP CONSTRAINT positive",
        "ADD COLUMN IF NOT EXISTS more INT",
        "ADD COLUMN IF NOT EXISTS more INT",
        "CHANGE COLUMN n number INT",
    ):
        assert run(native, f"ALTER TABLE {table} {alteration}").collect() == []
    native.sql(f"INSERT INTO {table} (number) VALUES (2)")
    assert rows(native, table) == [(7, 1, None), (8, 2, None)]
    run(native, f"COMMENT ON COLUMN {table}.number IS 'of things'")
    assert ("number", "int", "of things") in native.sql(f"DESCRIBE {table}").collect()
    native.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')")
    run(native, f"ALTER TABLE {table} DROP FEATURE vacuumProtocolCheck")
    assert "vacuumProtocolCheck" not in run(native, f"DESCRIBE DETAIL {table}").first().tableFeatures


def test_new_tables(native: SparkSession, table: str, new_name: str) -> None:
    run(native, f"CREATE TABLE {new_name} (id BIGINT, p INT, CHECK (p > 0)) USING delta")
    assert native.sql(f"SHOW TBLPROPERTIES {new_name} ('delta.constraints.check_1')").first().value == "p > 0"
    run(native, f"CREATE OR REPLACE TABLE {new_name} (id BIGINT CHECK (id > 1)) USING delta")
    assert native.table(new_name).columns == ["id"]
    native.sql(f"DROP TABLE {new_name}")
    run(native, f"CREATE TABLE IDENTIFIER(:name) LIKE {table}", {"name": new_name})
    assert native.table(new_name).columns == ["id", "p"]
    with pytest.raises(UnsupportedOperationError, match="USING delta"):
        run(native, f"CREATE TABLE {new_name}_2 (id INT CHECK (id > 1))")


# Rows.


def test_inserts(native: SparkSession, table: str) -> None:
    run(native, f"INSERT INTO {table} REPLACE USING (p) SELECT 10L, 0")
    assert rows(native, table) == [(1, 1), (10, 0), (3, 1)]
    run(native, f"INSERT INTO {table} AS x REPLACE ON x.id = s.id + :n (SELECT 0L AS id, 1 AS p) AS s", {"n": 1})
    assert rows(native, table) == [(0, 1), (10, 0), (3, 1)]
    run(native, f"INSERT INTO {table} BY NAME REPLACE WHERE p = 0 SELECT 0 AS p, id FROM {table} WHERE p = 0")
    run(native, f"INSERT INTO {table} (p, id) REPLACE WHERE p = ? SELECT ?, 5L", [1, 1])
    assert rows(native, table) == [(10, 0), (5, 1)]
    query = f"WITH q AS (SELECT max(id) AS id FROM {table})"
    run(native, f"{query} INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT id, 0 AS p, 'x' AS more FROM q")
    assert rows(native, table) == [(10, 0, "x"), (10, 0, None), (5, 1, None)]


# What goes with them.


def test_parameters_and_names(native: SparkSession, table: str, new_name: str) -> None:
    native.sql(f"CREATE TABLE {new_name} SHALLOW CLONE {table}")
    optimized = run(native, "OPTIMIZE IDENTIFIER(:t || '') WHERE p = :p", {"t": new_name, "p": 0, "unused": 1}).first()
    assert optimized.metrics.numFilesRemoved == 2
    one = EVERYTHING.statement_of(f"OPTIMIZE {table} WHERE p = ? AND p < ?")
    assert one is not None
    frame = one.run(DeltaSession.of(native), one.parameters([F.lit(0), F.lit(5)]))
    assert frame.first().metrics.numFilesRemoved == 2
    for text, args in (
        (f"OPTIMIZE {table} WHERE p = :p", None),
        (f"OPTIMIZE {table} WHERE p = :p", {"q": 1}),
        (f"OPTIMIZE {table} WHERE p = :p", [1]),
        (f"OPTIMIZE {table} WHERE p = ? OR p = ?", [1]),
    ):
        with pytest.raises(UnboundParameterError):
            run(native, text, args)
    with pytest.raises(NotADeltaTableError):
        run(native, f"VACUUM {new_name}_2")


def test_explain(native: SparkSession, table: str, path: str) -> None:
    """Says what would be done, and does nothing."""
    versions = len(os.listdir(f"{path}/_delta_log"))
    plan = run(native, f"EXPLAIN OPTIMIZE {table} WHERE p = :p", {"p": 0}).first().plan
    assert "OPTIMIZE" in plan
    assert "2 of 3" in plan
    assert "== Physical Plan ==" in plan
    for text in (
        f"EXPLAIN EXTENDED RESTORE {table} TO VERSION AS OF 0",
        f"EXPLAIN VACUUM '{path}'",
        f"EXPLAIN DESCRIBE HISTORY {table}",
        f"EXPLAIN ALTER TABLE {table} ADD CONSTRAINT c CHECK (p > 0)",
        f"EXPLAIN CREATE TABLE delta.`{path} 2` SHALLOW CLONE {table}",
        f"EXPLAIN WITH q AS (SELECT 1L AS id, 0 AS p) INSERT INTO {table} REPLACE USING (id) SELECT * FROM q",
    ):
        assert "== Delta ==" in run(native, text).first().plan
    assert len(os.listdir(f"{path}/_delta_log")) == versions


# Beside Spark's own parser.


@pytest.fixture
def spark_parses(native: SparkSession) -> Callable[[str], bool]:
    """Whether the parser of this Spark reads a text."""
    jvm: Any = native._jvm
    parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()

    def parses(text: str) -> bool:
        try:
            parser.parsePlan(text)
        except ParseException:
            return False
        return True

    return parses


def test_no_statement_is_both_ours_and_sparks(native: SparkSession, spark_parses: Callable[[str], bool]) -> None:
    """But for those that Spark takes for the description of a column."""
    grammar = OwnGrammar.beside(spark_parses)
    for text, *_ in DELTA_STATEMENTS:
        parsed = re.search(r"\b(HISTORY|DETAIL)\b", text, re.IGNORECASE) is not None
        assert grammar.statement_of(text) is not None
        assert parsed or not spark_parses(text), text
    for text, _ in LATER_STATEMENTS:
        if not text.startswith(("WITH", "EXPLAIN")):
            assert spark_parses(text) == (grammar.statement_of(text) is None), text
    own_forms = {form.name for form in FORMS_OF_LATER_SPARK} - {
        form.name for form in FORMS_OF_LATER_SPARK if grammar.has(form)
    }
    assert (native.version >= "4.3") == (len(own_forms) == len(FORMS_OF_LATER_SPARK))


def test_first_words_mean_the_same_to_java(native: SparkSession) -> None:
    java: Any = native._jvm.java.util.regex.Pattern
    texts = [text for text, *_ in DELTA_STATEMENTS + LATER_STATEMENTS] + OF_SPARK
    texts += [f"\u3000/* é */ {text.lower()}" for text in texts] + [
        "/*" + "*/ /*" * 100_000,
        " " * 500_000,
        "WITH " * 100_000,
    ]
    compiled = java.compile(FIRST_WORDS, java.CASE_INSENSITIVE | java.DOTALL)
    python = re.compile(FIRST_WORDS, re.IGNORECASE | re.DOTALL)
    for text in texts:
        assert compiled.matcher(text).find() == (python.search(text) is not None), text[:80]
