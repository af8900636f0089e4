"""Views over Delta tables, and keeping rows in memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.tables import DeltaTable
from session.documented import statement
from session_kinds import CONNECT

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id, CAST(id AS STRING) AS word FROM range(0, 3, 1, 1)")
    return name


@pytest.fixture
def view(delta: SparkSession) -> Iterator[str]:
    name = f"v_{uuid.uuid4().hex[:8]}"
    yield name
    delta.sql(f"DROP VIEW IF EXISTS {name}")


def ids(delta: SparkSession, name: str) -> list[int]:
    return sorted(row.id for row in delta.sql(f"SELECT id FROM {name}").collect())


@statement("CREATE [OR REPLACE] [GLOBAL] TEMP VIEW v [(columns)] AS query")
def test_temporary_view(delta: SparkSession, table: str, view: str) -> None:
    """Creates a view for this session, or with `GLOBAL` for the application. Its query runs again each time the view is
    read."""
    query = f"CREATE TEMP VIEW {view} (id COMMENT 'the key', text) AS SELECT * FROM {table} WHERE id > "
    if pyspark.__version__ < "4.1":
        # Spark takes no markers in views.
        delta.sql(f"{query} 0")
    else:
        delta.sql(f"{query} :n", {"n": 0})
    assert ids(delta, view) == [1, 2]
    delta.sql(f"INSERT INTO {table} VALUES (7, 'seven')")
    assert ids(delta, view) == [1, 2, 7]
    assert sorted(row.text for row in delta.table(view).collect()) == ["1", "2", "seven"]
    assert delta.read.table(view).schema["id"].metadata["comment"] == "the key"
    assert delta.sql(f"DESCRIBE {view}").collect() == [("id", "bigint", "the key"), ("text", "string", None)]
    assert (view, True) in [(row.viewName, row.isTemporary) for row in delta.sql("SHOW VIEWS").collect()]
    delta.sql(f"CREATE OR REPLACE GLOBAL TEMP VIEW {view} AS SELECT id FROM {view} WHERE id < 5")
    delta.sql(f"DELETE FROM {table} WHERE id = 2")
    assert ids(delta, f"global_temp.{view}") == [1]
    delta.sql(f"DROP VIEW global_temp.{view}")


@statement("CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(columns)] AS query, ALTER VIEW v AS query")
def test_view_in_the_catalog(delta: SparkSession, table: str, path: str, view: str) -> None:
    """Creates a view in the catalog, for all sessions. Its query runs again each time the view is read."""
    delta.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT 1L AS id, 5 AS n")
    delta.sql(f"CREATE VIEW {view} COMMENT 'both' AS SELECT t.id, word FROM {table} AS t WHERE id >= 1")
    delta.sql(f"CREATE VIEW IF NOT EXISTS {view} AS SELECT 1 AS other")
    delta.sql(f"INSERT INTO {table} VALUES (7, 'seven')")
    assert ids(delta, view) == [1, 2, 7]
    another = delta if CONNECT else anabranch.enable(delta.newSession())
    assert ids(another, f"default.{view}") == [1, 2, 7]
    assert delta.table(view).count() == 3
    delta.sql(f"ALTER VIEW {view} AS SELECT id, word FROM {table} JOIN delta.`{path}` AS p USING (id)")
    assert ids(delta, view) == [1]
    delta.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {table} VERSION AS OF 0")
    assert ids(delta, view) == [0, 1, 2]
    assert "VERSION AS OF 0" in delta.sql(f"SHOW CREATE TABLE {view}").first().createtab_stmt


def test_views_are_read_by_statements(delta: SparkSession, table: str, view: str, path: str) -> None:
    other = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {other} USING delta AS SELECT 2L AS id")
    delta.sql(f"CREATE TEMP VIEW {view} AS SELECT id FROM {other}")
    delta.sql(f"INSERT INTO {other} VALUES (1)")
    assert delta.sql(f"UPDATE {table} SET word = 'seen' WHERE id IN (SELECT id FROM {view})").first() == (2,)
    delta.sql(f"INSERT INTO {other} VALUES (8)")
    merged = delta.sql(
        f"MERGE INTO {table} USING {view} ON {table}.id = {view}.id WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED THEN INSERT (id) VALUES ({view}.id)"
    ).first()
    assert (merged.num_deleted_rows, merged.num_inserted_rows) == (2, 1)
    delta.sql(f"INSERT INTO {table} (id) SELECT id + 10 FROM {view}")
    assert ids(delta, table) == [0, 8, 11, 12, 18]


@statement("CREATE [OR REPLACE] TEMP VIEW v USING delta OPTIONS (path 'folder' [, versionAsOf '3'])")
def test_view_of_a_folder(delta: SparkSession, path: str, view: str) -> None:
    """Gives a table without a name, or a version of a table, a name for this session."""
    delta.range(3).write.format("delta").save(path)
    delta.sql(f"CREATE TEMP VIEW {view} USING delta OPTIONS (path '{path}')")
    DeltaTable.forPath(delta, path).delete("id = 0")
    assert ids(delta, view) == [1, 2]
    delta.sql(f"CREATE OR REPLACE TEMP VIEW {view} USING delta OPTIONS (path '{path}', versionAsOf '0')")
    assert ids(delta, view) == [0, 1, 2]


@statement("CACHE [LAZY] TABLE t [[AS] query], UNCACHE TABLE [IF EXISTS] t, REFRESH TABLE t")
def test_cache(delta: SparkSession, table: str, view: str) -> None:
    """Keeps the rows in memory. After each commit of this application they are read again; after a commit of another
    one, `REFRESH` reads them again. With a query, the name becomes a temporary view of it. `UNCACHE` removes the rows
    from memory."""
    delta.sql(f"CACHE TABLE {table} OPTIONS ('storageLevel' = 'MEMORY_ONLY')")
    delta.sql(f"DELETE FROM {table} WHERE id = 0")
    assert ids(delta, table) == [1, 2]
    delta.sql(f"CACHE LAZY TABLE {view} AS SELECT id FROM {table}")
    assert ids(delta, view) == [1, 2]
    delta.sql(f"INSERT INTO {table} VALUES (5, 'e')")
    assert ids(delta, view) == [1, 2, 5]
    delta.sql(f"UNCACHE TABLE {view}")
    delta.sql(f"REFRESH TABLE {table}")
    delta.sql(f"UNCACHE TABLE IF EXISTS {table}")


def test_what_is_cached_is_read(delta: SparkSession, table: str) -> None:
    delta.sql(f"CACHE TABLE {table}")
    plan = delta.sql(f"EXPLAIN SELECT * FROM {table}").first().plan
    delta.sql(f"UNCACHE TABLE {table}")
    assert "InMemoryRelation" in plan
    assert "InMemoryRelation" not in delta.sql(f"EXPLAIN SELECT * FROM {table}").first().plan


@statement("DESCRIBE QUERY query, EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN] query")
def test_about_queries(delta: SparkSession, table: str) -> None:
    """Shows the columns of a query, or how Spark would run it."""
    assert [row.col_name for row in delta.sql(f"DESCRIBE QUERY SELECT word FROM {table}").collect()] == ["word"]
    assert "id" in delta.sql(f"EXPLAIN FORMATTED SELECT id FROM {table} WHERE id = 1").first().plan
    assert delta.sql(f"TABLE {table}").count() == 3
    assert delta.sql("SELECT count(*) FROM IDENTIFIER(:t) AS x", {"t": table}).first() == (3,)
