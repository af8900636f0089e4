"""MERGE where Spark itself knows Delta."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    """(0, 0), (1, 10), (2, 20), with a struct beside them."""
    delta.sql(f"CREATE TABLE {name} (id INT, n BIGINT, s STRUCT<x: INT, y: STRING>) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT id, id * 10, named_struct('x', id, 'y', 'w') FROM range(0, 3, 1, 1)")
    return name


def rows(delta: SparkSession, table: str, columns: str = "id, n") -> list[Any]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT {columns} FROM {table}").collect())


def test_schema_evolution(delta: SparkSession, table: str) -> None:
    """Columns and fields that the clauses take from the source."""
    source = "SELECT 1 AS id, 'new' AS word, 3 AS other, named_struct('x', 5, 'z', 6) AS s"
    delta.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {table} AS t USING ({source}) u ON t.id = u.id
            WHEN MATCHED THEN UPDATE SET t.word = u.word, s.z = u.s.z"""
    )
    assert delta.table(table).columns == ["id", "n", "s", "word"]
    assert rows(delta, table, "id, word, s.x, s.z")[1] == (1, "new", 1, 6)
    target = DeltaTable.forName(delta, table)
    new = delta.sql("SELECT 8 AS id, 4 AS fifth")
    target.alias("t").merge(new.alias("u"), "t.id = u.id").withSchemaEvolution().whenNotMatchedInsertAll().execute()
    assert target.toDF().columns == ["id", "n", "s", "word", "fifth"]
    target.update("id = 8", {"fifth": "fifth + 1"})
    assert rows(delta, table, "id, fifth")[-1] == (8, 5)
    with pytest.raises(AnalysisException, match="nope"):
        delta.sql(f"MERGE INTO {table} t USING ({source}) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET nope = u.word")


def test_partitions_by_generated_columns(delta: SparkSession, name: str) -> None:
    """The layout of Delta's documentation; no clause gives the column."""
    (
        DeltaTable.create(delta)
        .tableName(name)
        .addColumn("id", "INT")
        .addColumn("at", "TIMESTAMP")
        .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        .partitionedBy("day")
        .execute()
    )
    source = "SELECT id, TIMESTAMP'2024-05-01 10:00:00' + make_dt_interval(id) AS at FROM VALUES (1), (2) AS v(id)"
    merge = f"MERGE INTO {name} t USING ({source}) s ON t.id = s.id"
    delta.sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id, at) VALUES (s.id, s.at)")
    delta.sql(f"{merge} WHEN MATCHED AND s.id = 1 THEN UPDATE SET at = s.at + INTERVAL 9 DAYS, day = DEFAULT")
    delta.sql(f"{merge} AND t.id = 7 WHEN NOT MATCHED AND s.id = 2 THEN INSERT *")
    merged = delta.sql(f"SELECT id, CAST(day AS STRING) FROM {name} ORDER BY id").collect()
    assert [tuple(row) for row in merged] == [(1, "2024-05-11"), (2, "2024-05-03"), (2, "2024-05-03")]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, upper(s.v))",
            [(2, "b"), (3, "Y")],
        ),
        ("WHEN MATCHED AND s.k = 1 THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE", [(1, "x")]),
        (
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            [(1, "x"), (2, "b"), (3, "y")],
        ),
    ],
)
def test_a_parquet_table_with_char_columns(
    delta: SparkSession, name: str, clauses: str, expected: list[tuple[int, str]]
) -> None:
    """Covers bug B88: Spark pads their values behind the rule that resolves the statement, and delta-spark fails."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS x(k, v)")
    delta.sql(f"CREATE TABLE {name}_char (k INT, v CHAR(3)) USING parquet")
    try:
        delta.sql(f"INSERT INTO {name}_char VALUES (1, 'x'), (3, 'y')")
        delta.sql(f"MERGE INTO {name} AS t USING {name}_char AS s ON t.k = s.k {clauses}")
    finally:
        delta.sql(f"DROP TABLE {name}_char")
    assert rows(delta, name, "k, rtrim(v)") == expected


def test_the_builder_says_what_the_statement_says(delta: SparkSession, table: str) -> None:
    target = DeltaTable.forName(delta, table)
    source = delta.sql("SELECT * FROM VALUES (1, 5L), (6, 60L) AS v(id, n)")
    result = (
        target.alias("t")
        .merge(source.alias("u"), F.col("t.id") == F.col("u.id"))
        .whenMatchedUpdate("u.n < 50", {"t.n": "u.n + 1", "s.y": F.lit("built")})
        .whenNotMatchedInsert(values={"id": "u.id", "n": "u.n"})
        .whenNotMatchedBySourceDelete("t.id = 0")
        .execute(conflictRetries=1)
    )
    assert result.collect() == [(3, 1, 1, 1)]
    assert rows(delta, table, "id, n, s.y") == [(1, 6, "built"), (2, 20, "w"), (6, 60, None)]


def test_explain_shows_the_merge_and_does_nothing(delta: SparkSession, table: str) -> None:
    text = f"MERGE INTO {table} t USING (SELECT 1 AS a) u ON t.id = u.a WHEN MATCHED THEN UPDATE SET n = u.a"
    shown = delta.sql(f"EXPLAIN EXTENDED {text}").first()[0]  # type: ignore[index]
    assert "MergeIntoTable" in shown
    assert rows(delta, table) == [(0, 0), (1, 10), (2, 20)]
