"""Statements that contain others: WITH, FROM … INSERT, EXPLAIN, EXECUTE IMMEDIATE, scripts."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable
from session.documented import statement

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    name = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id, CAST(id AS STRING) AS word FROM range(0, 5, 1, 1)")
    return name


def rows(delta: SparkSession, table: str) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT id, word FROM {table}").collect())


def version(delta: SparkSession, path: str) -> int:
    return int(DeltaTable.forPath(delta, path).history(1).first().version)


@statement("WITH name AS (query) {UPDATE | DELETE | MERGE} …")
def test_named_queries_before_changes(delta: SparkSession, table: str) -> None:
    """Gives names to queries, for use in subqueries of conditions and values, and as the source of MERGE."""
    few = f"WITH few (n) AS (SELECT id FROM {table} WHERE id < ?), last AS (SELECT max(n) AS m FROM few)"
    assert delta.sql(f"{few} DELETE FROM {table} WHERE id IN (SELECT m FROM last) OR id = ?", [2, 4]).first() == (2,)
    values = "SET word = (SELECT max(w) FROM q) WHERE id = 0"
    delta.sql(f"WITH q AS (SELECT upper(:w) AS w) UPDATE {table} {values}", {"w": "x"})
    merged = delta.sql(
        f"WITH q AS (SELECT * FROM VALUES (2L, 'two'), (9L, 'nine') AS (id, word)) MERGE INTO {table} AS t USING q "
        "ON t.id = q.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).first()
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1)
    assert rows(delta, table) == [(0, "X"), (2, "two"), (3, "3"), (9, "nine")]


def test_a_query_may_have_the_name_of_a_table(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id FROM range(5)")
    delta.sql(f"WITH {name} AS (SELECT id FROM {name} WHERE id > 2) DELETE FROM {name} WHERE id IN (TABLE {name})")
    assert delta.sql(f"SELECT count(*) FROM {name}").first() == (3,)


@statement("FROM source INSERT INTO t SELECT … INSERT OVERWRITE u SELECT …")
def test_inserts_behind_one_source(delta: SparkSession, table: str, path: str) -> None:
    """Adds rows of one source to several tables. The INSERTs run one after another, each as a commit of its own, and
    each reads the tables as the one before left them."""
    other = f"delta.`{path} 2`"
    delta.sql(f"CREATE TABLE {other} USING delta AS SELECT 1L AS a")
    delta.sql(
        f"FROM {table} INSERT INTO {table} SELECT id + 10, word WHERE id > :n "
        f"INSERT OVERWRITE {other} SELECT max(id) INSERT INTO {other} (a) SELECT min(id) WHERE id > 1",
        {"n": 3},
    )
    assert rows(delta, table)[-1] == (14, "4")
    assert sorted(row.a for row in delta.sql(f"SELECT * FROM {other}").collect()) == [2, 14]
    assert (version(delta, path), version(delta, f"{path} 2")) == (1, 2)


@statement(
    "EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN] {DELETE | UPDATE | MERGE | INSERT | CREATE TABLE | OPTIMIZE} …"
)
def test_explain(delta: SparkSession, table: str, path: str) -> None:
    """Shows the plan of the statement without executing it."""
    delta.sql(f"INSERT INTO {table} VALUES (100, 'x')")
    made = delta.sql(f"EXPLAIN DELETE FROM {table} WHERE id >= :n", {"n": 50})
    assert made.columns == ["plan"]
    plan = made.first().plan
    assert "DeleteFromTable (id" in plan
    assert version(delta, path) == 1


@pytest.mark.skipif(
    pyspark.__version__ < "4.1", reason="there Spark takes texts and variables, and no other expressions"
)
@statement("EXECUTE IMMEDIATE 'statement' [INTO variables] [USING values]")
def test_execute_immediate(delta: SparkSession, table: str) -> None:
    """Runs a statement whose text is the value of an expression."""
    delta.sql("DECLARE OR REPLACE VARIABLE chosen BIGINT DEFAULT 3")
    assert delta.sql(f"EXECUTE IMMEDIATE 'DELETE FROM {table} WHERE id = ' || chosen").first() == (1,)
    changed = delta.sql(
        f"EXECUTE IMMEDIATE 'UPDATE {table} SET word = ? WHERE id = ?' USING concat('a', 'b'), chosen + 1"
    )
    assert changed.first() == (1,)
    delta.sql(f"EXECUTE IMMEDIATE 'SELECT max(id) + :n FROM {table}' INTO chosen USING 5 AS n")
    assert delta.sql("SELECT chosen").first() == (9,)
    assert delta.sql("EXECUTE IMMEDIATE 'SELECT 1 AS a'").first() == (1,)
    assert rows(delta, table)[-1] == (4, "ab")


@statement("{DECLARE | SET} VARIABLE v = …; a variable in a statement")
def test_variables(delta: SparkSession, table: str) -> None:
    """Session variables can be used as values in queries, conditions and assignments. A query can set them."""
    delta.sql("DECLARE OR REPLACE VARIABLE found BIGINT")
    delta.sql(f"SET VARIABLE found = (SELECT max(id) FROM {table})")
    assert delta.sql(f"UPDATE {table} SET word = 'last' WHERE id = found").first() == (1,)
    delta.sql(f"INSERT INTO {table} SELECT found + 1, 'more'")
    assert rows(delta, table)[-2:] == [(4, "last"), (5, "more")]
