"""MERGE whose source reads the very table: which writers of rows it loses to, and that what lands is right."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from anabranch.tables import DeltaTable
from session_kinds import in_this_process
from tables.races import beaten_to_the_commit

pytestmark = [pytest.mark.spark, pytest.mark.long, in_this_process]

MADE = "SELECT /*+ COALESCE(1) */ id AS k, id AS v, id % 2 AS part FROM range(10)"
COPY = "MERGE INTO {t} AS t USING (SELECT k + 3 AS k, v FROM {t} WHERE k = 1 AND v >= 0) AS s ON t.k = s.k "
CLAUSES = {
    "update": "WHEN MATCHED THEN UPDATE SET v = s.v + 100",
    "insert": "AND t.v < 0 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
    "by source": "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.k = 8 THEN UPDATE SET v = 80",
}
OTHER_ROW = "UPDATE {t} SET v = v + 1 WHERE k = 6"
OF_THE_SOURCE = {
    "UPDATE {t} SET v = 77 WHERE k = 1": ConcurrentAppendException,
    "DELETE FROM {t} WHERE k = 1": ConcurrentDeleteReadException,
    "UPDATE {t} SET k = 1 WHERE k = 6": ConcurrentAppendException,
}
"""A row of the source changes, goes, comes."""


def rows(spark: SparkSession, table: str) -> Counter[Row]:
    return Counter(spark.sql(f"SELECT * FROM {table}").collect())


def merged(spark: SparkSession, table: str, statement: str) -> Callable[[], object]:
    return lambda: spark.sql(statement.format(t=table))


def is_right(spark: SparkSession, statement: str, table: str, elsewhere: str) -> bool:
    """Whether the newest commit did what the statement does to a copy of the version before it."""
    last = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0].version
    spark.sql(f"CREATE OR REPLACE TABLE {elsewhere} USING delta AS SELECT * FROM {table} VERSION AS OF {last - 1}")
    spark.sql(statement.format(t=elsewhere))
    return rows(spark, elsewhere) == rows(spark, table)


@pytest.mark.parametrize("by", ["path", "name"])
def test_a_merge_of_own_rows_is_judged_by_the_rows_that_its_source_reads(
    delta: SparkSession, name: str, path: str, by: str
) -> None:
    """Covers bug B73: any change of the table was in its way."""
    table = name if by == "name" else f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS {MADE}")
    for clause in CLAUSES.values():
        beaten_to_the_commit(delta, merged(delta, table, COPY + clause), OTHER_ROW.format(t=table))
        assert is_right(delta, COPY + clause, table, f"delta.`{path}-copy`")
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    for winner, error in OF_THE_SOURCE.items():
        with pytest.raises(error) as raised:
            beaten_to_the_commit(delta, merged(delta, table, COPY + CLAUSES["update"]), winner.format(t=table))
        assert raised.value.reason is ConflictReason.ROW_LEVEL_CHANGES
        assert rows(delta, table)[Row(k=4, v=104, part=0)] == 0
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")


def test_a_merge_of_own_rows_by_the_builder(delta: SparkSession, path: str) -> None:
    """Covers bug B73, with a DataFrame; partitioned, with column mapping, behind an OPTIMIZE."""
    table = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {table} USING delta PARTITIONED BY (part) "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS {MADE}"
    )
    target = DeltaTable.forPath(delta, path)
    source = delta.read.format("delta").load(path).where("k = 1").selectExpr("k + 4 AS k", "v")

    def merge() -> None:
        matched = target.alias("t").merge(source.alias("s"), "t.k = s.k").whenMatchedUpdate(set={"v": "s.v + 100"})
        matched.execute()

    for winner in (OTHER_ROW, "OPTIMIZE {t}", "INSERT INTO {t} VALUES (70, 70, 1)"):
        beaten_to_the_commit(delta, merge, winner.format(t=table))
        assert rows(delta, table)[Row(k=5, v=101, part=1)] == 1
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        beaten_to_the_commit(delta, merge, f"UPDATE {table} SET v = 5 WHERE k = 1")
    assert raised.value.reason is ConflictReason.ROW_LEVEL_CHANGES


def test_sources_without_a_filter_of_rows_are_judged_by_files(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Bug B73: unknown means abort. An aggregate depends on the rows that pass a filter below it. Rows that the table
    lacks are those of their keys."""
    table, other = f"delta.`{path}`", f"delta.`{tmp_path}/other`"
    delta.sql(f"CREATE TABLE {table} USING delta AS {MADE}")
    delta.sql(f"CREATE TABLE {other} USING delta AS SELECT id AS k FROM range(8, 12)")
    for source, is_by_rows in (
        (f"SELECT max(k) AS k FROM {table} WHERE k < 4", True),
        (f"SELECT k FROM {table} WHERE k < 4 LIMIT 1", True),
        (f"SELECT DISTINCT k FROM {table} WHERE k < 4", True),
        (f"SELECT k FROM {table}", False),
        (f"SELECT k FROM {table} WHERE rand() < 2", False),
    ):
        statement = f"MERGE INTO {table} AS t USING ({source}) AS s ON t.k = s.k + 90 WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
        with contextlib.nullcontext() if is_by_rows else pytest.raises(DeltaConcurrentModificationException):
            beaten_to_the_commit(delta, merged(delta, table, statement), OTHER_ROW.format(t=table))
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    absent = f"SELECT o.k FROM {other} o LEFT ANTI JOIN {table} y ON o.k = y.k"
    statement = (
        f"MERGE INTO {table} AS t USING ({absent}) AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    )
    beaten_to_the_commit(delta, merged(delta, table, statement), OTHER_ROW.format(t=table))
    assert rows(delta, f"(SELECT k FROM {table} WHERE k > 7)") == Counter(Row(k=k) for k in range(8, 12))
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten_to_the_commit(delta, merged(delta, table, statement), f"DELETE FROM {table} WHERE k = 9")


def test_a_merge_that_only_inserts_lands_beside_others(delta: SparkSession, path: str) -> None:
    """What to write in the place of an INSERT of absent keys whose source is a file of another format."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS {MADE}")
    delta.range(8, 12).write.parquet(f"{path}-keys")
    statement = (
        f"MERGE INTO {table} AS t USING parquet.`{path}-keys` AS s ON t.k = s.id "
        "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.id)"
    )
    beaten_to_the_commit(delta, merged(delta, table, statement), OTHER_ROW.format(t=table))
    assert sorted(row.k for row in delta.sql(f"SELECT k FROM {table}").collect()) == list(range(12))
