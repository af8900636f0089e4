"""Changing rows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import AssignmentError
from anabranch.tables import DeltaTable
from session.documented import statement

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    name = f"delta.`{path}`"
    query = "SELECT id, id * 10 AS n, named_struct('x', id, 'y', 'w') AS s FROM range(0, 4, 1, 1)"
    delta.sql(f"CREATE TABLE {name} USING delta AS {query}")
    return name


def rows(delta: SparkSession, table: str) -> list[Any]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT id, n FROM {table}").collect())


def last(delta: SparkSession, table: str) -> Any:
    return delta.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()


@statement("DELETE FROM t [WHERE condition]")
def test_delete(delta: SparkSession, table: str) -> None:
    """Removes the rows for which the condition is true. Returns `num_affected_rows`."""
    deleted = delta.sql(f"DELETE FROM {table} AS t WHERE t.id > 1 AND t.s.x <> 3")
    assert (deleted.columns, deleted.collect()) == (["num_affected_rows"], [(1,)])
    assert rows(delta, table) == [(0, 0), (1, 10), (3, 30)]
    assert delta.sql(f"DELETE FROM {table}").first() == (3,)
    assert rows(delta, table) == []
    assert last(delta, table).operation == "DELETE"


@statement("UPDATE t SET column = value, … [WHERE condition]")
def test_update(delta: SparkSession, table: str) -> None:
    """Sets columns, or fields of structs, of the rows for which the condition is true. Returns `num_affected_rows`."""
    updated = delta.sql(
        f"UPDATE {table} t SET t.n = t.n + CASE WHEN id = 1 THEN 1 ELSE 2 END, s.y = 'new' WHERE id < 2"
    )
    assert (updated.columns, updated.collect()) == (["num_affected_rows"], [(2,)])
    assert rows(delta, table) == [(0, 2), (1, 11), (2, 20), (3, 30)]
    assert {row.y for row in delta.sql(f"SELECT s.y FROM {table} WHERE id < 2").collect()} == {"new"}
    with pytest.raises(AssignmentError, match="n"):
        delta.sql(f"UPDATE {table} SET n = 1, N = 2")
    with pytest.raises(AnalysisException, match="nope"):
        delta.sql(f"UPDATE {table} SET nope = 1")
    assert delta.sql(f"UPDATE {table} SET n = DEFAULT WHERE id = 0").first() == (1,)
    assert delta.sql(f"SELECT n FROM {table} WHERE id = 0").first() == (None,)


@statement("TRUNCATE TABLE t")
def test_truncate(delta: SparkSession, table: str) -> None:
    """Removes all rows."""
    assert delta.sql(f"TRUNCATE TABLE {table}").columns == []
    assert rows(delta, table) == []
    newest = last(delta, table)
    assert (newest.operation, newest.operationMetrics["numRemovedFiles"]) == ("TRUNCATE", "1")
    with pytest.raises(PySparkException, match=r"(?i)partition"):
        delta.sql(f"TRUNCATE TABLE {table} PARTITION (id = 1)")


def test_conditions_with_subqueries_over_delta_tables(delta: SparkSession, table: str, name: str) -> None:
    """A table in a subquery is read at one version, under its own name, and no view of it stays behind."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1L AS id")
    before = {view.name for view in delta.catalog.listTables()}
    assert delta.sql(f"DELETE FROM {table} WHERE id IN (SELECT {name}.id FROM {name})").first() == (1,)
    delta.sql(
        f"UPDATE {table} t SET n = (SELECT max(id) FROM {name}) WHERE EXISTS (SELECT 1 FROM {name} u WHERE u.id < t.id)"
    )
    assert rows(delta, table) == [(0, 0), (2, 1), (3, 1)]
    deleted = delta.sql(f"DELETE FROM {table} WHERE id > (SELECT min(id) FROM {table} VERSION AS OF 0) + :n", {"n": 0})
    assert deleted.first() == (2,)
    assert {view.name for view in delta.catalog.listTables()} == before


@statement("MERGE INTO t USING source ON condition WHEN MATCHED … WHEN NOT MATCHED … WHEN NOT MATCHED BY SOURCE …")
def test_merge(delta: SparkSession, table: str) -> None:
    """Joins the table with a source, which is a table or a query, and updates, deletes and inserts rows. For each row
    the first clause whose condition is true counts. Returns `num_affected_rows`, `num_updated_rows`,
    `num_deleted_rows`, `num_inserted_rows`."""
    merged = delta.sql(
        f"""MERGE INTO {table} AS t
            USING (SELECT id, id * 100 AS n FROM range(1, 6)) AS s
            ON t.id = s.id
            WHEN MATCHED AND t.id = 1 THEN DELETE
            WHEN MATCHED AND CASE WHEN s.n > 200 THEN true END THEN UPDATE SET t.n = s.n, s.y = 'merged'
            WHEN NOT MATCHED AND s.id = :new THEN INSERT (id, n) VALUES (s.id, s.n + 1)
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -1""",
        {"new": 5},
    )
    assert merged.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert merged.collect() == [(4, 2, 1, 1)]
    assert rows(delta, table) == [(0, -1), (2, 20), (3, 300), (5, 501)]
    assert last(delta, table).operation == "MERGE"


@statement("… UPDATE SET *, INSERT *")
def test_merge_all_columns(delta: SparkSession, name: str) -> None:
    """Sets each column to the value of the source's column of the same name."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id, 'old' AS word FROM range(2)")
    delta.sql("CREATE OR REPLACE TEMP VIEW a_source AS SELECT id, 'new' AS word FROM range(1, 3)")
    merged = delta.sql(
        f"""MERGE INTO {name} USING a_source ON {name}.id = a_source.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY TARGET THEN INSERT *"""
    )
    assert merged.collect() == [(2, 1, 0, 1)]
    assert sorted(tuple(row) for row in delta.table(name).collect()) == [(0, "old"), (1, "new"), (2, "new")]
    deleted = delta.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM {name} VERSION AS OF 0) AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    assert deleted.first().num_deleted_rows == 2


@statement("MERGE WITH SCHEMA EVOLUTION INTO t …")
def test_merge_with_schema_evolution(delta: SparkSession, name: str) -> None:
    """Adds the columns of the source that the table lacks."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, word)) AS s
            ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert sorted(tuple(row) for row in delta.table(name).collect()) == [(1, "a"), (2, "b")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "properties"),
    [
        ("", "'delta.enableDeletionVectors' = 'true'"),
        (
            "",
            "'delta.enableDeletionVectors' = 'false', 'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true'",
        ),
        ("PARTITIONED BY (n)", "'delta.enableRowTracking' = 'true'"),
    ],
)
def test_conditions_on_metadata_of_rows(delta: SparkSession, path: str, layout: str, properties: str) -> None:
    """Covers bug B101: what one bad file brought is changed and removed by the file's name, by DELETE, UPDATE and MERGE and by
    `DeltaTable`; SELECT alone knew `_metadata`. `replaceWhere` does not take it."""
    t = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {t} (id BIGINT, n BIGINT) USING delta {layout} TBLPROPERTIES ({properties})")
    for n in (1, 2, 3, 4):
        delta.sql(f"INSERT INTO {t} SELECT id + {10 * n}, {n} FROM range(0, 2, 1, 1)")

    def file(row: int) -> str:
        return str(delta.sql(f"SELECT _metadata.file_name FROM {t} WHERE id = {row}").first()[0])

    assert delta.sql(f"DELETE FROM {t} WHERE _metadata.file_name IS NULL").first() == (0,)
    assert delta.sql(f"DELETE FROM {t} AS x WHERE x._metadata.file_name = '{file(10)}' AND id = 11").first() == (1,)
    assert delta.sql(f"UPDATE {t} SET n = 20 WHERE _metadata.file_name = '{file(20)}'").first() == (2,)
    bad = file(31)
    merge = f"""MERGE INTO {t} x USING (SELECT 30 AS id, 7 AS n UNION ALL SELECT 40, 0) s
        ON x.id = s.id AND x._metadata.file_name = '{bad}'
        WHEN MATCHED AND x._metadata.file_size > 0 THEN UPDATE SET n = s.n
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND x._metadata.file_name = '{bad}' THEN DELETE"""
    assert delta.sql(merge).first() == (3, 1, 1, 1)
    assert rows(delta, t) == [(10, 1), (20, 20), (21, 20), (30, 7), (40, 0), (40, 4), (41, 4)]
    itself = (
        f"MERGE INTO {t} x USING {t} s ON x.id = s.id AND x._metadata.file_name = s._metadata.file_name AND x.n = s.n"
    )
    assert delta.sql(f"{itself} WHEN MATCHED THEN UPDATE SET n = s.n + 1").first() == (7, 7, 0, 0)
    table = DeltaTable.forPath(delta, path)
    table.update("_metadata.file_name IS NOT NULL AND id = 10", {"n": "5"})
    table.delete(F.expr(f"_metadata.file_name = '{file(10)}' AND id = 10"))
    table.alias("x").merge(
        delta.sql("SELECT 41L AS id"), "x.id > 40 AND x._metadata.row_index >= 0"
    ).whenMatchedDelete().execute()
    assert rows(delta, t) == [(20, 21), (21, 21), (30, 8), (40, 1), (40, 5)]
    if "Row" in properties:
        assert delta.sql(f"DELETE FROM {t} WHERE _metadata.row_id < 0 OR _metadata.row_commit_version < 0").first() == (
            0,
        )
    with pytest.raises(AnalysisException, match="_metadata"):
        delta.sql(f"INSERT INTO {t} REPLACE WHERE _metadata.file_name = 'x' SELECT 1, 1")


def test_a_column_that_is_called_as_metadata_is(delta: SparkSession, path: str) -> None:
    """Covers bug B101."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, _metadata STRING) USING delta")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    assert delta.sql(f"DELETE FROM delta.`{path}` WHERE _metadata = 'b'").first() == (1,)
    assert delta.sql(f"SELECT id FROM delta.`{path}`").collect() == [(1,)]
