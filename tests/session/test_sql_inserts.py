"""Adding and replacing rows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.errors.schema import ColumnCountError, ColumnNotFoundError, SchemaMismatchError
from session.documented import statement

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """Rows of a number, a text and the partition they are in."""
    name = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {name} (id INT, word STRING, part INT) USING delta PARTITIONED BY (part)")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 2)")
    return name


def rows(delta: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in delta.sql(f"SELECT * FROM {table}").collect()), key=str)


def last(delta: SparkSession, table: str) -> Any:
    return delta.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()


def is_empty(frame: DataFrame) -> bool:
    return frame.columns == [] and frame.collect() == []


@statement("INSERT INTO t query")
def test_insert_by_position(delta: SparkSession, table: str) -> None:
    """Adds the query's rows. Columns are matched by position. Values are cast to the column's type or refused."""
    assert is_empty(delta.sql(f"INSERT INTO {table} VALUES (3, 'c', 1)"))
    delta.sql(f"INSERT INTO TABLE {table} SELECT 4L AS x, 5 AS y, '2' AS z")
    delta.sql(f"INSERT INTO {table} TABLE {table}")
    assert len(rows(delta, table)) == 8
    assert (4, "5", 2) in rows(delta, table)
    assert (last(delta, table).operation, last(delta, table).isBlindAppend) == ("WRITE", False)
    with pytest.raises(ColumnCountError, match="3 fields"):
        delta.sql(f"INSERT INTO {table} VALUES (1, 'a')")


@statement("INSERT INTO t (columns) query")
def test_insert_into_columns(delta: SparkSession, table: str) -> None:
    """Adds the query's rows to the named columns; other columns get their default, or NULL."""
    delta.sql(f"INSERT INTO {table} (part, id) VALUES (1, 3)")
    assert (3, None, 1) in rows(delta, table)
    with pytest.raises(AnalysisException):
        delta.sql(f"INSERT INTO {table} (part, id) VALUES (1, 3, 5)")
    with pytest.raises(AnalysisException, match="nope"):
        delta.sql(f"INSERT INTO {table} (id, nope) VALUES (1, 3)")


@statement("INSERT INTO t BY NAME query")
def test_insert_by_name(delta: SparkSession, table: str) -> None:
    """Adds the query's rows. Columns are matched by name, in any order."""
    delta.sql(f"INSERT INTO {table} BY NAME SELECT 'c' AS word, 1 AS part, 3 AS id")
    assert (3, "c", 1) in rows(delta, table)


@statement("INSERT … VALUES (…, DEFAULT)")
def test_default(delta: SparkSession, path: str) -> None:
    """DEFAULT means the column's default, or NULL if it has none."""
    name = f"delta.`{path}`"
    delta.sql(
        f"""CREATE TABLE {name} (id INT, n INT DEFAULT 7, m INT) USING delta
            TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, DEFAULT, 1), (2, default, 2)")
    delta.sql(f"INSERT INTO {name} (id, n) VALUES (3, 3), (4, DEFAULT), (DEFAULT, DEFAULT)")
    assert rows(delta, name) == sorted([(1, 7, 1), (2, 7, 2), (3, 3, None), (4, 7, None), (None, 7, None)], key=str)


@statement("INSERT … SELECT …, DEFAULT")
def test_default_in_a_query(delta: SparkSession, path: str) -> None:
    """DEFAULT as a column of the query means the default of the table's column, in every row."""
    name = f"delta.`{path}`"
    delta.sql(
        f"""CREATE TABLE {name} (id INT, n INT DEFAULT 7, m INT) USING delta
            TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    delta.sql(f"INSERT INTO {name} SELECT 1, DEFAULT, 1")
    delta.sql(f"INSERT INTO {name} (m, n) SELECT id IS DISTINCT FROM 8, default FROM range(8, 9) WHERE id > 0")
    delta.sql(f"INSERT INTO {name} SELECT DEFAULT, n + 1, DEFAULT FROM {name} WHERE id = 1")
    delta.sql(f"INSERT INTO {name} REPLACE USING (m) SELECT 4, DEFAULT, 0")
    assert rows(delta, name) == sorted([(1, 7, 1), (4, 7, 0), (None, 8, None)], key=str)
    delta.sql(f"INSERT OVERWRITE {name} SELECT 5, DEFAULT, DEFAULT ORDER BY 1 LIMIT 1")
    assert rows(delta, name) == [(5, 7, None)]
    with pytest.raises(AnalysisException):
        delta.sql(f"INSERT INTO {name} SELECT 5, DEFAULT, 1 UNION ALL SELECT 6, 1, 1")


@statement("INSERT WITH SCHEMA EVOLUTION INTO t query")
def test_schema_evolution(delta: SparkSession, table: str) -> None:
    """Adds the columns of the query that the table lacks, then its rows."""
    with pytest.raises(SchemaMismatchError, match="score"):
        delta.sql(f"INSERT INTO {table} BY NAME SELECT 3 AS id, 'c' AS word, 1 AS part, 0.5 AS score")
    delta.sql(
        f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 3 AS id, 'c' AS word, 1 AS part, 0.5D AS score"
    )
    assert (3, "c", 1, 0.5) in rows(delta, table)
    assert (1, "a", 1, None) in rows(delta, table)


@statement("INSERT INTO t PARTITION (p = 1, q) query")
def test_insert_into_a_partition(delta: SparkSession, table: str) -> None:
    """Adds rows with this value in the partition column; the query has the other columns."""
    delta.sql(f"INSERT INTO {table} PARTITION (part = 3) VALUES (3, 'c')")
    delta.sql(f"INSERT INTO {table} PARTITION (part) VALUES (4, 'd', 4)")
    delta.sql(f"INSERT INTO {table} PARTITION (part = 5) (word, id) VALUES ('e', 5)")
    assert rows(delta, table)[2:] == [(3, "c", 3), (4, "d", 4), (5, "e", 5)]
    with pytest.raises(AnalysisException, match="word"):
        delta.sql(f"INSERT INTO {table} PARTITION (word = 'x') VALUES (3, 3)")


@statement("INSERT OVERWRITE t query")
def test_insert_overwrite(delta: SparkSession, table: str) -> None:
    """Replaces all rows; with `spark.sql.sources.partitionOverwriteMode = dynamic` those of the partitions that get
    rows."""
    delta.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        delta.sql(f"INSERT OVERWRITE {table} VALUES (20, 'z', 2)")
        assert rows(delta, table) == [(1, "a", 1), (20, "z", 2)]
    finally:
        delta.conf.unset("spark.sql.sources.partitionOverwriteMode")
    delta.sql(f"INSERT OVERWRITE TABLE {table} SELECT id + 1, word, part FROM {table} WHERE part = 1")
    assert rows(delta, table) == [(2, "a", 1)]


@statement("INSERT OVERWRITE t PARTITION (p = 1) query")
def test_insert_overwrite_a_partition(delta: SparkSession, table: str) -> None:
    """Replaces the rows of that partition."""
    delta.sql(f"INSERT OVERWRITE {table} PARTITION (part = 2) VALUES (20, 'z'), (21, 'y')")
    assert rows(delta, table) == [(1, "a", 1), (20, "z", 2), (21, "y", 2)]


@statement("INSERT INTO t REPLACE WHERE condition query")
def test_replace_where(delta: SparkSession, table: str) -> None:
    """Replaces the rows that satisfy the condition, in one commit. Every new row must satisfy it, too."""
    delta.sql(f"INSERT INTO {table} REPLACE WHERE id >= 2 AND part = 2 SELECT 3, 'new', 2")
    assert rows(delta, table) == [(1, "a", 1), (3, "new", 2)]
    with pytest.raises(ReplaceWhereMismatchError):
        delta.sql(f"INSERT INTO {table} REPLACE WHERE id >= 2 SELECT 1, 'new', 2")


@statement("INSERT INTO t [BY NAME] REPLACE USING (columns) query")
def test_replace_using(delta: SparkSession, table: str) -> None:
    """Replaces the rows that equal a new row in these columns, in one commit. NULL equals nothing."""
    delta.sql(f"INSERT INTO {table} VALUES (2, 'c', 3), (NULL, 'd', 3)")
    new = "SELECT * FROM VALUES (2, 'new', 2), (7, 'new', 2), (NULL, 'new', 3) AS (id, word, part)"
    delta.sql(f"INSERT INTO {table} REPLACE USING (id, part) {new}")
    kept = [(1, "a", 1), (2, "c", 3), (None, "d", 3)]
    assert rows(delta, table) == sorted([*kept, (2, "new", 2), (7, "new", 2), (None, "new", 3)], key=str)
    assert last(delta, table).operationParameters["replaceUsingCols"] == "(id, part)"
    delta.sql(f"INSERT INTO {table} BY NAME REPLACE USING (part) SELECT 3 AS part, 'by name' AS word")
    assert [row for row in rows(delta, table) if row[2] == 3] == [(None, "by name", 3)]
    with pytest.raises(ColumnNotFoundError, match="nope"):
        delta.sql(f"INSERT INTO {table} REPLACE USING (nope) {new}")


@statement("INSERT INTO t [[AS] alias] [BY NAME] REPLACE ON condition query")
def test_replace_on(delta: SparkSession, table: str) -> None:
    """Replaces the rows for which the condition holds with one of the new rows, in one commit. The query's rows have a name
    where it is in parentheses: `(query) AS s`."""
    new = f"(SELECT id + 1 AS id, 'next' AS word, part FROM {table} WHERE id = :n) AS s"
    delta.sql(f"INSERT INTO {table} AS t REPLACE ON t.id = s.id OR t.word = :w {new}", {"n": 1, "w": "no"})
    assert rows(delta, table) == [(1, "a", 1), (2, "next", 1)]
    # As it was written, or as Spark prints it where Spark reads the statement.
    condition = last(delta, table).operationParameters["replaceOnCond"]
    assert condition in {"t.id = s.id OR t.word = :w", "((t.id = s.id) OR (t.word = 'no'))"}
    delta.sql(f"WITH q AS (SELECT 1 AS k) INSERT INTO {table} x REPLACE ON x.id <=> k SELECT k, 'one', 1 FROM q")
    assert rows(delta, table) == [(1, "one", 1), (2, "next", 1)]
    delta.sql(f"INSERT INTO {table} AS t REPLACE ON true SELECT rand() < 2, 'x', 1 WHERE 1 = 0")
    assert len(rows(delta, table)) == 2


@statement("WITH name AS (query) INSERT INTO t query")
def test_named_queries_before_insert(delta: SparkSession, table: str) -> None:
    """Gives names to queries, for use in the query of the INSERT."""
    delta.sql(
        f"WITH q AS (SELECT id + :n AS id, word, part FROM {table}) INSERT INTO {table} SELECT * FROM q", {"n": 10}
    )
    assert rows(delta, table) == [(1, "a", 1), (11, "a", 1), (12, "b", 2), (2, "b", 2)]
