"""DELETE and UPDATE where Spark itself knows Delta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.callbacks import write_handler
from anabranch.callbacks.dml_handler import DmlHandler
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.tables import DeltaTable
from extension.interruptions import meanwhile

pytestmark = pytest.mark.spark


@pytest.fixture
def variables(delta: SparkSession) -> Iterator[None]:
    """Those that the tests declare go again: the session is shared."""
    yield
    for name in ("v", "k", "id", "n", "of_fields", "drawn", "a_number"):
        delta.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    """(0, 0), (1, 10), (2, 20), with a struct beside them."""
    delta.sql(f"CREATE TABLE {name} (id INT, n BIGINT, s STRUCT<x: INT, y: STRING>) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT id, id * 10, named_struct('x', id, 'y', 'w') FROM range(0, 3, 1, 1)")
    return name


def rows(delta: SparkSession, table: str) -> list[Any]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT id, n FROM {table}").collect())


def version(delta: SparkSession, table: str) -> int:
    return int(DeltaTable.forName(delta, table).history(1).collect()[0].version)


def test_the_keyword_default(delta: SparkSession, name: str) -> None:
    properties = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    delta.sql(f"CREATE TABLE {name} (id INT, n BIGINT DEFAULT 5) USING delta {properties}")
    delta.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    delta.sql(f"UPDATE {name} SET n = DEFAULT WHERE id = 1")
    delta.sql(f"MERGE INTO {name} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = DEFAULT")
    assert rows(delta, name) == [(1, 5), (2, 5)]


def test_columns_matched_by_name_differ_as_the_session_compares_them(delta: SparkSession, path: str) -> None:
    """Covers bug B70: MERGE's stars and INSERT BY NAME; appends of frames match in any case, as in Delta."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, a INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta.sql(f"INSERT INTO {table} VALUES (1, 1)")
    statements = [
        f"INSERT {evolution}{into} BY NAME SELECT {columns}"
        for evolution in ("", "WITH SCHEMA EVOLUTION ")
        for into in (f"INTO {table}", f"OVERWRITE {table}")
        for columns in ("2 AS id, 5 AS A", "2 AS id, 5L AS A", "2 AS ID")
    ]
    for evolution in ("", "WITH SCHEMA EVOLUTION "):
        merge = f"MERGE {evolution}INTO {table} t USING (SELECT 1 AS id, 5 AS A) s ON t.id = s.id WHEN"
        statements += [
            f"{merge} MATCHED THEN UPDATE SET *",
            f"{merge} MATCHED THEN UPDATE SET A = s.A",
            f"{merge} NOT MATCHED THEN INSERT *",
            f"{merge} NOT MATCHED THEN INSERT (id, A) VALUES (s.id, s.A)",
        ]
    wide = f"INTO {table} t USING (SELECT 1 AS id, 3L AS A) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.A"
    delta.conf.set("spark.sql.caseSensitive", "true")
    try:
        for text in statements:
            with pytest.raises(AnalysisException, match=r"\b(A|ID)\b"):
                delta.sql(text)
        merging = DeltaTable.forPath(delta, path).alias("t").merge(delta.sql("SELECT 1 AS id, 5 AS A"), "t.id = 1")
        with pytest.raises(AnalysisException, match=r"has no a\b"):
            merging.whenMatchedUpdateAll().execute()
        assert version(delta, table) == 1
        both = "USING (SELECT 1 AS id, 7 AS a, 8 AS A) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        delta.sql(f"MERGE INTO {table} t {both}")
        assert delta.sql(f"SELECT a FROM {table}").first() == (7,)
        delta.sql(f"MERGE WITH SCHEMA EVOLUTION {wide}")
        assert delta.sql(f"SELECT * FROM {table}").dtypes == [("id", "int"), ("a", "int")]
        frame = delta.sql("SELECT 2 AS id, 9 AS A")
        frame.write.format("delta").mode("append").save(path)
        frame.writeTo(table).append()
    finally:
        delta.conf.unset("spark.sql.caseSensitive")
    assert sorted(row.a for row in delta.table(table).collect()) == [3, 9, 9]
    delta.sql(statements[0])
    assert delta.table(table).where("a = 5").count() == 1


def test_a_repeated_statement_reads_its_sources_again(delta: SparkSession, table: str) -> None:
    """Its subqueries and sources are of its own table, which a winner has changed."""
    next_number = f"(SELECT max(n) + 1 FROM {table})"

    def another() -> None:
        delta.sql(f"UPDATE {table} SET n = 1000 WHERE id = 2")

    with meanwhile(delta, another), pytest.raises(DeltaConcurrentModificationException):
        delta.sql(f"UPDATE {table} SET n = {next_number} WHERE id = 0")
    delta.sql(f"UPDATE {table} SET n = 20 WHERE id = 2")
    delta.conf.set("spark.anabranch.conflictRetries", "1")
    try:
        with meanwhile(delta, another):
            delta.sql(f"UPDATE {table} SET n = {next_number} WHERE id = 0")
        assert rows(delta, table) == [(0, 1001), (1, 10), (2, 1000)]
        merge = f"MERGE INTO {table} t USING (SELECT id, n + 1 AS m FROM {table}) s ON t.id = s.id"
        with meanwhile(delta, lambda: delta.sql(f"UPDATE {table} SET n = 5 WHERE id = 1")):
            delta.sql(f"{merge} WHEN MATCHED THEN UPDATE SET n = s.m")
        assert rows(delta, table) == [(0, 1002), (1, 6), (2, 1001)]
    finally:
        delta.conf.unset("spark.anabranch.conflictRetries")


def test_a_condition_on_files_is_evaluated_for_those_that_the_statement_read(delta: SparkSession, table: str) -> None:
    """Covers bug B101: the condition is not evaluated again for rows that a winner changed; those that it only moved, and those
    that it added, change nothing."""
    delete = f"DELETE FROM {table} WHERE _metadata.file_name LIKE 'part%' AND id = 0"
    with (
        meanwhile(delta, lambda: delta.sql(f"UPDATE {table} SET n = 5 WHERE id = 2")),
        pytest.raises(DeltaConcurrentModificationException),
    ):
        delta.sql(delete)
    with meanwhile(delta, lambda: delta.sql(f"REORG TABLE {table} APPLY (PURGE)")):
        assert delta.sql(delete).first() == (1,)
    with meanwhile(delta, lambda: delta.sql(f"INSERT INTO {table} VALUES (3, 30, NULL)")):
        assert delta.sql(delete.replace("id = 0", "id <> 2")).first() == (1,)
    assert rows(delta, table) == [(2, 5), (3, 30)]


@pytest.mark.parametrize(
    ("statement", "at"),
    [
        ("DELETE FROM {t} WHERE s.x = 1", (DmlHandler, "_resolved")),
        ("UPDATE {t} SET n = 7 WHERE s.x = 1", (DmlHandler, "_resolved")),
        (
            "MERGE INTO {t} t USING (SELECT id FROM range(3)) u ON t.id = u.id WHEN MATCHED THEN DELETE",
            (DmlHandler, "_resolved"),
        ),
        (
            "MERGE INTO {t} t USING (SELECT id FROM range(3)) u ON t.s.x = u.id WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)",
            (DmlHandler, "_resolved"),
        ),
        ("INSERT INTO {t} SELECT 5, 50L, NULL", (write_handler, "write_frame")),
        ("INSERT INTO {t} REPLACE WHERE s.x = 1 SELECT * FROM {t} WHERE s.x = 1", (write_handler, "write_frame")),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        "DROP COLUMN s",
        pytest.param("ADD COLUMN more INT FIRST", marks=pytest.mark.long),
        pytest.param("RENAME COLUMN s TO other", marks=pytest.mark.long),
        pytest.param("ALTER COLUMN n FIRST", marks=pytest.mark.long),
    ],
)
def test_columns_change_before_a_statement_begins(
    delta: SparkSession, table: str, statement: str, at: tuple[Any, str], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race 77, before the transaction begins: Spark resolved other columns; it says so, and changes nothing."""
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    right: Any = getattr(*at)

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(*at, right)
        rows = right(*arguments) if at[0] is DmlHandler else None
        delta.sql(f"ALTER TABLE {table} {change}")
        return rows or right(*arguments)

    monkeypatch.setattr(*at, late)
    with pytest.raises(SchemaChangedSinceAnalysisError):
        delta.sql(statement.format(t=table))
    assert rows(delta, table) == [(0, 0), (1, 10), (2, 20)]
    assert version(delta, table) == 3


def test_a_script_never_conflicts_with_itself(delta: SparkSession, table: str) -> None:
    """A frame made before other statements of the script follows its table when a statement reads it."""
    before = delta.table(table)
    seen = before.where("n >= 10")
    delta.sql(f"DELETE FROM {table} WHERE id = 1")
    target = DeltaTable.forName(delta, table).alias("t")
    target.merge(seen.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "s.n + 1"}).execute()
    assert rows(delta, table) == [(0, 0), (2, 21)]
    seen.createOrReplaceTempView("seen_before")
    delta.sql(f"UPDATE {table} SET n = (SELECT max(n) FROM seen_before) + 1 WHERE id = 0")
    assert rows(delta, table) == [(0, 22), (2, 21)]


@pytest.mark.usefixtures("variables")
def test_statements_take_parameters_variables_and_names(delta: SparkSession, table: str) -> None:
    assert delta.sql("UPDATE IDENTIFIER(:t) SET n = :n WHERE id = :id", args={"t": table, "n": 3, "id": 1}).first() == (
        1,
    )
    assert delta.sql(f"EXECUTE IMMEDIATE 'DELETE FROM {table} WHERE id = ?' USING 0").first() == (1,)
    delta.sql("DECLARE OR REPLACE a_number INT DEFAULT 2")
    assert delta.sql(f"DELETE FROM {table} WHERE id = a_number").first() == (1,)
    assert rows(delta, table) == [(1, 3)]


@pytest.mark.usefixtures("variables")
def test_session_variables_beside_a_list_of_columns(delta: SparkSession, table: str) -> None:
    """In a form of INSERT that delta-spark does not parse; other statements are in `tests/differential/programs/changes.txt`."""
    delta.sql("DECLARE OR REPLACE VARIABLE v BIGINT DEFAULT 8")
    delta.sql("DECLARE OR REPLACE VARIABLE k INT DEFAULT 1")
    delta.sql(f"INSERT INTO {table} (id, n) REPLACE WHERE id = k SELECT k, v + 1")
    assert rows(delta, table) == [(0, 0), (1, 9), (2, 20)]


@pytest.mark.usefixtures("variables")
def test_session_variables_as_values(delta: SparkSession, table: str) -> None:
    """Where Spark's analyzer looks for names among columns alone: a column goes before a variable of its name."""
    delta.sql("DECLARE OR REPLACE VARIABLE v BIGINT DEFAULT 15")
    delta.sql("DECLARE OR REPLACE VARIABLE of_fields STRUCT<f: INT> DEFAULT named_struct('f', 100)")
    delta.sql("DECLARE OR REPLACE VARIABLE n INT DEFAULT 7000")
    assert delta.sql(f"UPDATE {table} SET n = v, s.x = of_fields.f + session.v WHERE id = 0").first() == (1,)
    assert delta.sql(f"UPDATE {table} SET n = n + V * (SELECT max(v) FROM range(2)) WHERE id = 1").first() == (1,)
    assert rows(delta, table) == [(0, 15), (1, 235), (2, 20)]
    assert delta.sql(f"SELECT s.x FROM {table} WHERE id = 0").first() == (115,)
    delta.sql("SET VARIABLE v = 8")
    delta.sql(
        f"MERGE INTO {table} t USING (SELECT 1 AS k UNION ALL SELECT 5) s ON t.id = s.k WHEN MATCHED AND t.n > v "
        "THEN UPDATE SET t.n = v WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.k, session.n + v) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET n = t.n + v"
    )
    assert rows(delta, table) == [(0, 15), (1, 8), (2, 28), (5, 7008)]
    target = DeltaTable.forName(delta, table)
    target.update("id = 0", {"n": "v + 1"})
    source = delta.range(1, 2).alias("s")
    target.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"n": F.expr("v + s.id + 1")}).execute()
    assert rows(delta, table) == [(0, 9), (1, 10), (2, 28), (5, 7008)]
    for statement in (
        f"UPDATE {table} SET n = nowhere",
        f"MERGE INTO {table} t USING (SELECT id FROM range(1)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = nowhere",
    ):
        with pytest.raises(AnalysisException) as caught:
            delta.sql(statement)
        assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


@pytest.mark.usefixtures("variables")
def test_a_variable_has_one_value_in_a_statement(delta: SparkSession, table: str) -> None:
    """That which it had when the statement began: a statement executed again takes the same."""
    delta.sql("DECLARE OR REPLACE VARIABLE drawn DOUBLE DEFAULT rand()")
    delta.sql(f"INSERT INTO {table} SELECT id, 0, NULL FROM range(10, 30, 1, 4)")
    delta.sql(f"UPDATE {table} SET n = CAST(drawn * 1000000 AS BIGINT) WHERE drawn < 2")
    expected = delta.sql("SELECT CAST(drawn * 1000000 AS BIGINT)").first()
    assert delta.sql(f"SELECT DISTINCT n FROM {table}").collect() == [expected]


@pytest.mark.parametrize("statement", ["DELETE FROM {t} WHERE n = 1", "UPDATE {t} SET n = 1 WHERE id = 2"])
def test_explain_shows_the_statement_and_does_nothing(delta: SparkSession, table: str, statement: str) -> None:
    shown = delta.sql("EXPLAIN " + statement.format(t=table)).first()[0]  # type: ignore[index]
    assert ("UpdateTable" if "SET" in statement else "DeleteFromTable") in shown
    assert version(delta, table) == 1
