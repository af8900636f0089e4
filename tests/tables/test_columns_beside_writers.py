"""Columns that another statement adds while a statement that writes rows runs (race 77)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch import transaction
from anabranch.exceptions import MetadataChangedException
from interop.readers import read_by_delta_rs, read_by_duckdb
from streaming.streams import Feed
from streaming.streams import run as run_stream
from tables.races import beaten_to_the_commit

pytestmark = [pytest.mark.spark, pytest.mark.long]

MERGE = """
    MERGE INTO {t} AS t USING (SELECT CAST(id AS BIGINT) AS id, 9L AS n, NAMED_STRUCT('a', id) AS s{more} FROM RANGE(6, 8)) AS s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


def made(spark: SparkSession, path: str, *properties: str, by: str = "") -> str:
    """A new table of seven rows, in one file or in partitions, in the place of the one that is there."""
    settings = ", ".join(["'delta.enableDeletionVectors' = 'true'", *properties])
    columns = "id BIGINT, n BIGINT, s STRUCT<a: BIGINT>"
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` ({columns}) USING delta {by} TBLPROPERTIES ({settings})")
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


Landing = Callable[[], object]
"""Called right before the commit of a write."""


class Writes:
    """Writes of a row with id 20 into a table of seven rows, which is partitioned by `n`, in several ways."""

    def __init__(self, spark: SparkSession, path: str, feed: Feed) -> None:
        self.spark, self.path, self.feed = spark, path, feed
        self.row = spark.sql("SELECT 20L AS id, 6L AS n, NAMED_STRUCT('a', 20L) AS s")

    def insert_overwrite(self, before_commit: Landing) -> None:
        values = "SELECT 20L, 6L, NAMED_STRUCT('a', 20L)"
        self._write(lambda: self.spark.sql(f"INSERT OVERWRITE delta.`{self.path}` (id, n, s) {values}"), before_commit)

    def replace_where(self, before_commit: Landing) -> None:
        self._save("replaceWhere", "id >= 5", before_commit)

    def dynamic_overwrite(self, before_commit: Landing) -> None:
        self._save("partitionOverwriteMode", "dynamic", before_commit)

    def stream_batch(self, before_commit: Landing) -> None:
        self.feed.put({"id": 20, "n": 6, "s": {"a": 20}})
        self._write(lambda: run_stream(self.feed.frame(self.spark), self.feed, self.path), before_commit)

    def two_statements(self, before_commit: Landing) -> None:
        with transaction(self.spark, self.path):
            self.spark.sql(f"DELETE FROM delta.`{self.path}` WHERE id = 1")
            self.row.write.format("delta").mode("append").save(self.path)
            before_commit()

    def _save(self, option: str, value: str, before_commit: Landing) -> None:
        writer = self.row.write.format("delta").mode("overwrite").option(option, value)
        self._write(lambda: writer.save(self.path), before_commit)

    def _write(self, run: Landing, before_commit: Landing) -> None:
        beaten_to_the_commit(self.spark, run, before_commit)


IDS = {
    "insert_overwrite": {20},
    "replace_where": {*range(5), 20},
    "dynamic_overwrite": {*range(6), 20},
    "stream_batch": {*range(7), 20},
    "two_statements": {0, *range(2, 7), 20},
}
"""The ids of the table after each write, also after several of the same."""
DESCRIBING = [
    "ALTER TABLE {t} ADD COLUMN c{n} STRING FIRST",
    "COMMENT ON TABLE {t} IS 'of {n}'",
    "ALTER TABLE {t} ALTER COLUMN n COMMENT 'of {n}'",
    "ALTER TABLE {t} SET TBLPROPERTIES ('of' = '{n}')",
]


@pytest.mark.parametrize("kind", IDS)
def test_writes_land_before_and_behind_a_change_of_the_description(
    native: SparkSession, path: str, tmp_path: Path, kind: str
) -> None:
    """Columns, comments and properties, beside overwrites, a batch of a stream, and a transaction of two statements."""
    table = made(native, path, by="PARTITIONED BY (n)")
    feed = Feed(tmp_path / "feed", columns="id long, n long, s struct<a: long>")
    feed.folder.mkdir()
    write: Callable[[Landing], None] = getattr(Writes(native, path, feed), kind)
    other = native.newSession()

    def described(number: int, *statements: str) -> None:
        for statement in statements:
            other.sql(statement.format(t=table, n=number))

    def is_described(number: int) -> bool:
        detail = native.sql(f"DESCRIBE DETAIL {table}").collect()[0]
        comment = native.sql(f"SELECT n FROM {table}").schema["n"].metadata.get("comment")
        columns = all(row[f"c{number}"] is None for row in native.table(table).collect())
        return columns and (detail.description, comment, detail.properties["of"]) == (
            *[f"of {number}"] * 2,
            str(number),
        )

    def operations(count: int) -> list[str]:
        return [row.operation for row in native.sql(f"DESCRIBE HISTORY {table} LIMIT {count}").collect()]

    write(lambda: None)
    (name,) = operations(1)
    write(lambda: described(1, *DESCRIBING))
    assert (operations(1), is_described(1)) == ([name], True)
    for statement in DESCRIBING:
        beaten_to_the_commit(other, lambda statement=statement: described(2, statement), lambda: write(lambda: None))
        last, before = operations(2)
        assert (last != name, before == name) == (True, True), statement
    assert is_described(2)
    assert {row.id for row in native.table(table).collect()} == IDS[kind]
