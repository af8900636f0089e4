"""Columns that another statement adds while a statement that writes rows runs (race 77)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from anabranch.exceptions import MetadataChangedException
from interop.readers import read_by_delta_rs, read_by_duckdb
from tables.races import beaten_to_the_commit

pytestmark = [pytest.mark.spark, pytest.mark.long]

MERGE = """
    MERGE INTO {t} AS t USING (SELECT CAST(id AS BIGINT) AS id, 9L AS n, NAMED_STRUCT('a', id) AS s{more} FROM RANGE(6, 8)) AS s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


def made(spark: SparkSession, path: str, *properties: str) -> str:
    """A new table of seven rows in one file, in the place of the one that is there."""
    settings = ", ".join(["'delta.enableDeletionVectors' = 'true'", *properties])
    columns = "id BIGINT, n BIGINT, s STRUCT<a: BIGINT>"
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ({settings})")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, id, NAMED_STRUCT('a', id) FROM RANGE(0, 7, 1, 1)")
    return f"delta.`{path}`"


def append(spark: SparkSession, path: str) -> None:
    rows = spark.sql("SELECT 20L AS id, 20L AS n, NAMED_STRUCT('a', 20L) AS s")
    rows.write.format("delta").mode("append").save(path)


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_every_statement_lands_behind_new_columns(native: SparkSession, path: str, mapping: str) -> None:
    """Covers race 77. Each column is NULL in every row, and other engines read the table."""
    properties = ["'delta.enableChangeDataFeed' = 'true'", f"'delta.columnMapping.mode' = '{mapping}'"]
    table = f"delta.`{path}`"
    statements: list[Callable[[], object]] = [
        lambda: append(native, path),
        lambda: native.sql(f"DELETE FROM {table} WHERE id = 1"),
        lambda: native.sql(f"UPDATE {table} SET n = -1 WHERE id = 2"),
        lambda: native.sql(MERGE.format(t=table, more="")),
    ]
    positions = ["c0 STRING", "c1 STRING FIRST", "c2 STRING AFTER id", "s.b BIGINT"]
    # Statements that name all columns know those that the table had when they were resolved.
    for number, (run, column) in enumerate(zip(statements, positions, strict=True)):
        made(native, path, *properties)
        append(native, path)
        before = {row.id: row for row in native.table(table).collect()}
        beaten_to_the_commit(native, run, f"ALTER TABLE {table} ADD COLUMN {column}")
        rows = native.table(table).collect()
        name = column.split()[0]
        assert name in native.table(table).columns or name == "s.b"
        assert all(row[name] is None if name != "s.b" else row.s is None or row.s.b is None for row in rows)
        assert {row.id for row in rows} ^ before.keys() <= {1, 7, 20}, (number, rows)
        for read in (read_by_duckdb, read_by_delta_rs) if mapping == "none" and number == 0 else (read_by_duckdb,):
            assert sorted(read(path)["id"].to_pylist()) == sorted(row.id for row in rows)
        last = native.sql(f"DESCRIBE HISTORY {table} LIMIT 2").collect()
        assert [row.operation for row in last][1] == "ADD COLUMNS"


def test_a_merge_that_would_have_written_the_new_column_loses(native: SparkSession, path: str) -> None:
    """Its source has a column of this name, which `*` includes from then on."""
    table = made(native, path)
    with pytest.raises(MetadataChangedException, match="added more"):
        beaten_to_the_commit(
            native,
            lambda: native.sql(MERGE.format(t=table, more=", 'x' AS more")),
            f"ALTER TABLE {table} ADD COLUMN more STRING",
        )
    native.sql(MERGE.format(t=table, more=", 'x' AS more"))
    assert native.table(table).where("more = 'x'").count() == 2


def test_a_serializable_table_orders_statements_by_its_log(native: SparkSession, path: str) -> None:
    """So a DELETE, which may have another condition with more columns, loses; an append of named columns has not."""
    table = made(native, path, "'delta.isolationLevel' = 'Serializable'")
    with pytest.raises(MetadataChangedException):
        beaten_to_the_commit(
            native, lambda: native.sql(f"DELETE FROM {table} WHERE id = 1"), f"ALTER TABLE {table} ADD COLUMN a STRING"
        )
    beaten_to_the_commit(native, lambda: append(native, path), f"ALTER TABLE {table} ADD COLUMN b STRING FIRST")
    by_position = f"INSERT INTO {table} VALUES ('b', 40, 40, NULL, 'a')"
    with pytest.raises(MetadataChangedException):
        beaten_to_the_commit(native, lambda: native.sql(by_position), f"ALTER TABLE {table} ADD COLUMN c STRING FIRST")
    assert {row.id for row in native.table(table).collect()} == {*range(7), 20}


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN n SET NOT NULL",
        "ADD CONSTRAINT small CHECK (n < 1000)",
        "SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
        "ALTER COLUMN n SET DEFAULT 7",
    ],
)
def test_what_a_writer_must_know(native: SparkSession, path: str, change: str) -> None:
    table = made(
        native,
        path,
        "'delta.feature.allowColumnDefaults' = 'supported'",
        "'delta.feature.checkConstraints' = 'supported'",
    )
    with pytest.raises(MetadataChangedException):
        beaten_to_the_commit(native, lambda: append(native, path), f"ALTER TABLE {table} {change}")
