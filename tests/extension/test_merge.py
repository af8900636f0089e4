"""MERGE where Spark itself knows Delta."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors.dml import MergeColumnNotFoundError, SubqueryInConditionError
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


def test_clauses_apply_in_their_order(delta: SparkSession, table: str) -> None:
    merged = delta.sql(
        f"""MERGE INTO {table} AS t USING (SELECT CAST(id AS INT) AS id, id * 100 AS n FROM range(1, 6)) AS s
            ON t.id = s.id
            WHEN MATCHED AND t.id = 1 THEN DELETE
            WHEN MATCHED THEN UPDATE SET t.n = s.n, s.y = 'merged'
            WHEN NOT MATCHED AND s.id = 5 THEN INSERT (id, n) VALUES (s.id, s.n + 1)
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -1"""
    )
    assert merged.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert merged.collect() == [(4, 2, 1, 1)]
    assert rows(delta, table, "id, n, s.y") == [(0, -1, "w"), (2, 200, "merged"), (5, 501, None)]


def test_stars_take_columns_by_name(delta: SparkSession, table: str) -> None:
    """Fields of structs, too."""
    source = "SELECT named_struct('y', 'z', 'x', 9) AS s, 5 AS N, explode(array(1, 7)) AS id"
    delta.sql(
        f"""MERGE INTO {table} t USING ({source}) u ON t.id = u.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert rows(delta, table, "id, n, s.x, s.y") == [(0, 0, 0, "w"), (1, 5, 9, "z"), (2, 20, 2, "w"), (7, 5, 9, "z")]
    with pytest.raises(MergeColumnNotFoundError, match="n"):
        delta.sql(f"MERGE INTO {table} t USING (SELECT 1 AS id) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET *")


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


def test_merge_into_of_dataframes(delta: SparkSession, table: str) -> None:
    source = delta.sql("SELECT * FROM VALUES (1, 5L), (6, 60L) AS v(id, n)").alias("u")
    (
        source.mergeInto(table, F.expr(f"{table}.id = u.id"))
        .whenMatched(F.expr("u.n < 50"))
        .update({"n": F.col("u.n") + 1})
        .whenNotMatched()
        .insert({"id": F.col("u.id"), "n": F.col("u.n")})
        .whenNotMatchedBySource(F.expr(f"{table}.id = 0"))
        .delete()
        .merge()
    )
    assert rows(delta, table) == [(1, 6), (2, 20), (6, 60)]


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


def test_a_table_merged_with_itself(delta: SparkSession, table: str) -> None:
    source = f"(SELECT id + 1 AS id, n FROM {table})"
    delta.sql(
        f"""MERGE INTO {table} t USING {source} u ON t.id = u.id
            WHEN MATCHED THEN UPDATE SET n = u.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (u.id, u.n)"""
    )
    assert rows(delta, table) == [(0, 0), (1, 0), (2, 10), (3, 20)]


def test_values_with_subqueries_and_conditions_without(delta: SparkSession, table: str) -> None:
    merge = f"MERGE INTO {table} t USING (SELECT 1 AS id) u ON t.id = u.id"
    delta.sql(f"{merge} WHEN MATCHED THEN UPDATE SET n = (SELECT max(n) FROM {table}) + 1")
    assert rows(delta, table) == [(0, 0), (1, 21), (2, 20)]
    with pytest.raises(SubqueryInConditionError):
        delta.sql(f"{merge} WHEN MATCHED AND t.n = (SELECT max(n) FROM {table}) THEN DELETE")


def test_explain_shows_the_merge_and_does_nothing(delta: SparkSession, table: str) -> None:
    text = f"MERGE INTO {table} t USING (SELECT 1 AS a) u ON t.id = u.a WHEN MATCHED THEN UPDATE SET n = u.a"
    shown = delta.sql(f"EXPLAIN EXTENDED {text}").first()[0]  # type: ignore[index]
    assert "MergeIntoTable" in shown
    assert rows(delta, table) == [(0, 0), (1, 10), (2, 20)]
