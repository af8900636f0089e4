"""MERGE of many source rows writes rows by the join that finds them, and marks them meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml import file_sample
from anabranch.commands.merge import merge_at_once, merge_command, merge_join, merge_rows
from anabranch.commands.merge.merge_join import MergeJoin
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
)
from anabranch.spark.rows import cached_rows
from anabranch.spark.rows.cached_rows import Size
from anabranch.tables import DeltaTable
from session_kinds import in_this_process
from tables.races import beaten_to_the_commit

pytestmark = [pytest.mark.spark, in_this_process]

FILES = 4
ROWS = 40
Rows = dict[int, str]


@pytest.fixture(autouse=True)
def steps() -> Iterator[list[str]]:
    """What is done: `write` at once, and `find` where the rows are looked for behind that.

    Every source has more rows than are cached or broadcast.
    """
    done: list[str] = []

    def seen(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            done.append(step)
            return function(*arguments)

        return call

    with (
        mock.patch.object(merge_rows, "CACHED_ROWS_MAX", 0),
        mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 0),
        mock.patch.object(merge_command, "merge_at_once", seen("write", merge_command.merge_at_once)),
        mock.patch.object(merge_at_once, "mark_rows", seen("find", merge_at_once.mark_rows)),
    ):
        yield done


def make_table(delta: SparkSession, path: str, *, partitioned: bool = False, **properties: str) -> None:
    rows = delta.range(0, ROWS, 1, FILES).selectExpr("id AS k", "concat('v', id) AS v", "id % 2 AS p")
    options = {"delta.enableDeletionVectors": "true", **{f"delta.{name}": text for name, text in properties.items()}}
    writer = rows.write.format("delta").options(**options)
    (writer.partitionBy("p") if partitioned else writer).save(path)


def rows_of(delta: SparkSession, path: str) -> Rows:
    rows = [(row.k, row.v) for row in delta.read.format("delta").load(path).collect()]
    assert len(dict(rows)) == len(rows), "a row is there twice"
    return dict(rows)


def update(delta: SparkSession, path: str, source: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Updates `v`; returns how many rows were affected, updated, deleted and inserted."""
    merging = DeltaTable.forPath(delta, path).alias("t")
    matching = merging.merge(delta.createDataFrame(source, "k long, v string").alias("s"), "t.k = s.k")
    return tuple(matching.whenMatchedUpdate(set={"v": "s.v"}).execute().collect()[0])


def upsert(
    delta: SparkSession, path: str, source: Sequence[tuple[int, str]], *, condition: str | None = None
) -> tuple[int, ...]:
    """The same, and inserts new keys. Names without `s.` are columns of both."""
    merging = DeltaTable.forPath(delta, path).alias("t")
    matching = merging.merge(delta.createDataFrame(source, "k long, v string").alias("s"), "t.k = s.k")
    updating = matching.whenMatchedUpdate(set={"v": "s.v"})
    values = {"k": "k", "v": "concat(v, '!')", "p": "k % 2"}
    return tuple(updating.whenNotMatchedInsert(condition, values).execute().collect()[0])


def updates(keys: Sequence[int]) -> list[tuple[int, str]]:
    return [(key, f"u{key}") for key in keys]


def metrics(delta: SparkSession, path: str) -> dict[str, str]:
    (last,) = DeltaTable.forPath(delta, path).history(1).collect()
    return dict(last.operationMetrics)


@pytest.mark.parametrize("partitioned", [False, True], ids=["", "partitioned"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_every_row(delta: SparkSession, path: str, steps: list[str], vectors: str, *, partitioned: bool) -> None:
    make_table(delta, path, partitioned=partitioned, enableDeletionVectors=vectors)
    source = updates(range(ROWS + 3))
    assert update(delta, path, source) == (ROWS, ROWS, 0, 0)
    assert rows_of(delta, path) == dict(source[:ROWS])
    assert steps == ["write"]
    numbers = metrics(delta, path)
    assert int(numbers["numTargetRowsMatchedUpdated"]) == int(numbers["numOutputRows"]) == ROWS
    assert int(numbers["numTargetFilesRemoved"]) == FILES * (2 if partitioned else 1)
    assert numbers["numTargetDeletionVectorsAdded"] == numbers["numTargetRowsCopied"] == "0"


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_all_but_one(delta: SparkSession, path: str, steps: list[str], vectors: str) -> None:
    """The source has as many rows as the table, and one of another key."""
    make_table(delta, path, enableDeletionVectors=vectors)
    source = updates([*range(1, ROWS), 1000])
    assert update(delta, path, source) == (ROWS - 1, ROWS - 1, 0, 0)
    assert rows_of(delta, path) == {0: "v0", **dict(source[:-1])}
    assert steps == ["write"]
    numbers = metrics(delta, path)
    assert numbers["numTargetRowsMatchedUpdated"] == str(ROWS - 1)
    assert numbers["numTargetDeletionVectorsAdded"] == ("1" if vectors == "true" else "0")
    assert numbers["numTargetRowsCopied"] == ("0" if vectors == "true" else str(ROWS // FILES - (ROWS // FILES - 1)))


@pytest.mark.parametrize("keys", [[1, *range(1, ROWS)], [*range(ROWS), 7]], ids=["one lacks", "all are there"])
def test_a_row_that_is_matched_twice(delta: SparkSession, path: str, steps: list[str], keys: list[int]) -> None:
    """In the first case there are as many pairs as rows. No file is left of what was written."""
    make_table(delta, path)
    files = sorted(Path(path).rglob("*.parquet"))
    with pytest.raises(AmbiguousMergeError):
        update(delta, path, updates(keys))
    assert steps == ["write", "find"]
    assert rows_of(delta, path) == {key: f"v{key}" for key in range(ROWS)}
    assert sorted(Path(path).rglob("*.parquet")) == files


@pytest.mark.parametrize("partitioned", [False, True], ids=["", "partitioned"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_every_row_and_new_ones(
    delta: SparkSession, path: str, steps: list[str], vectors: str, *, partitioned: bool
) -> None:
    make_table(delta, path, partitioned=partitioned, enableDeletionVectors=vectors)
    old, new = updates(range(ROWS)), updates([500, 501, 502])
    assert upsert(delta, path, [*new, *old], condition="k <> 501") == (ROWS + 2, ROWS, 0, 2)
    assert rows_of(delta, path) == {**dict(old), 500: "u500!", 502: "u502!"}
    assert steps == ["write"]
    assert metrics(delta, path)["numTargetRowsInserted"] == "2"


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_all_but_one_and_new_ones(delta: SparkSession, path: str, steps: list[str], vectors: str) -> None:
    make_table(delta, path, enableDeletionVectors=vectors)
    source = updates([*range(1, ROWS), 500])
    assert upsert(delta, path, source) == (ROWS, ROWS - 1, 0, 1)
    assert rows_of(delta, path) == {0: "v0", **dict(source[:-1]), 500: "u500!"}
    assert steps == ["write"]


@pytest.mark.parametrize("key", [0, 600], ids=["all", "all but one"])
def test_several_tasks(delta: SparkSession, path: str, steps: list[str], key: int) -> None:
    """Five partitions of the join, which one task writes."""
    make_table(delta, path)
    source = updates([key, *range(1, ROWS), 500, 501])
    settings = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {name: delta.conf.get(name) for name in settings}
    with mock.patch.object(merge_join, "size_of", return_value=Size.LARGE):
        for name, value in settings.items():
            delta.conf.set(name, value)
        try:
            upsert(delta, path, source)
        finally:
            for name, value in before.items():
                delta.conf.set(name, value)
    new = {500: "u500!", 501: "u501!"} | ({} if key == 0 else {600: "u600!"})
    assert rows_of(delta, path) == {0: "v0", **dict(updates(range(min(key, 1), ROWS))), **new}
    assert steps == ["write"]


def test_a_new_key_twice(delta: SparkSession, path: str, steps: list[str]) -> None:
    make_table(delta, path)
    assert upsert(delta, path, updates([*range(ROWS), 500, 500])) == (ROWS + 2, ROWS, 0, 2)
    assert steps == ["write"]


def test_keys_that_are_null(delta: SparkSession, path: str, steps: list[str]) -> None:
    """A NULL equals none: such a row of the table is not matched, and one of the source is new."""
    make_table(delta, path)
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (NULL, 'old', 0)")
    source = [*updates(range(ROWS)), (None, "new")]
    merging = DeltaTable.forPath(delta, path).alias("t")
    matching = merging.merge(delta.createDataFrame(source, "k long, v string").alias("s"), "t.k = s.k")
    inserting = matching.whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsert(values={"k": "s.k", "v": "s.v"})
    assert tuple(inserting.execute().collect()[0]) == (ROWS + 1, ROWS, 0, 1)
    assert {row.v for row in delta.read.format("delta").load(path).where("k IS NULL").collect()} == {"old", "new"}
    assert steps == ["write"]


@pytest.mark.parametrize("numbered", [False, True], ids=["", "identity"])
def test_new_rows_with_computed_columns(delta: SparkSession, path: str, steps: list[str], *, numbered: bool) -> None:
    """Where new rows are numbered, rows are looked for first."""
    number = "BIGINT GENERATED ALWAYS AS IDENTITY" if numbered else "BIGINT"
    delta.sql(
        f"CREATE TABLE delta.`{path}` (n {number}, k BIGINT, v STRING DEFAULT 'none',"
        " w STRING GENERATED ALWAYS AS (upper(v))) USING delta"
        " TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    delta.sql(f"INSERT INTO delta.`{path}` (k, v) SELECT id, concat('v', id) FROM range(5)")
    before = {row.k: row for row in delta.sql(f"SELECT *, _metadata.row_id AS id FROM delta.`{path}`").collect()}
    source = "(SELECT id AS k, concat('u', id) AS v FROM range(8))"
    delta.sql(
        f"MERGE INTO delta.`{path}` t USING {source} s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k) VALUES (k)"
    )
    after = {row.k: row for row in delta.sql(f"SELECT *, _metadata.row_id AS id FROM delta.`{path}`").collect()}
    assert {key: (row.v, row.w) for key, row in after.items()} == {
        key: (f"u{key}", f"U{key}") if key < 5 else ("none", "NONE") for key in range(8)
    }
    assert all((after[key].n, after[key].id) == (row.n, row.id) for key, row in before.items())
    assert len({row.id for row in after.values()}) == 8
    assert len({row.n for row in after.values()}) == (8 if numbered else 1)
    assert steps == ([] if numbered else ["write"])


def test_rows_that_are_hidden(delta: SparkSession, path: str, steps: list[str]) -> None:
    make_table(delta, path)
    DeltaTable.forPath(delta, path).delete("k IN (3, 17)")
    rest = [key for key in range(ROWS) if key not in (3, 17)]
    assert update(delta, path, updates(range(ROWS))) == (ROWS - 2, ROWS - 2, 0, 0)
    assert rows_of(delta, path) == dict(updates(rest))
    assert steps == ["write"]


def test_ids_of_rows(delta: SparkSession, path: str, steps: list[str]) -> None:
    make_table(delta, path, enableRowTracking="true")
    ids = "k", "_metadata.row_id"
    before = sorted(delta.read.format("delta").load(path).select(*ids).collect())
    update(delta, path, updates(range(ROWS)))
    assert sorted(delta.read.format("delta").load(path).select(*ids).collect()) == before
    assert steps == ["write"]


def test_a_merge_that_only_deletes_looks_first(delta: SparkSession, path: str) -> None:
    make_table(delta, path)
    with mock.patch.object(MergeJoin, "written_at_once", side_effect=AssertionError):
        delta.sql(f"MERGE INTO delta.`{path}` t USING (FROM range(40)) s ON t.k = s.id WHEN MATCHED THEN DELETE")


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["", "partitioned"])
def test_clauses_of_all_kinds(
    delta: SparkSession, path: str, steps: list[str], vectors: str, *, partitioned: bool
) -> None:
    """Some matched rows are deleted, some left as they are; some rows of the source are not inserted."""
    make_table(delta, path, partitioned=partitioned, enableDeletionVectors=vectors)
    delta.sql(
        f"MERGE INTO delta.`{path}` t USING (FROM range(20, 60)) s ON t.k = s.id"
        " WHEN MATCHED AND t.k < 25 THEN DELETE WHEN MATCHED AND s.id < 28 AND t.p = 0 THEN UPDATE SET v = concat('a', t.v)"
        " WHEN MATCHED AND t.k < 30 THEN UPDATE SET v = 'b'"
        " WHEN NOT MATCHED AND id > 55 THEN INSERT (k, v) VALUES (id, 'c')"
        " WHEN NOT MATCHED AND id > 50 THEN INSERT (k, v) VALUES (id, 'd')"
    )
    expected = {key: f"v{key}" for key in range(ROWS) if not 20 <= key < 25}
    expected |= dict.fromkeys(range(25, 30), "b") | {26: "av26"}
    expected |= {key: "c" if key > 55 else "d" for key in range(51, 60)}
    assert rows_of(delta, path) == expected
    assert steps == ["write"]
    numbers = metrics(delta, path)
    assert [numbers[f"numTargetRows{kind}"] for kind in ("Updated", "Deleted", "Inserted")] == ["5", "5", "9"]


BY_SOURCE = "k % 3 = 0 AND 100 / (k - 15) < 0", "p = 1"
"""Conditions of rows that are updated and deleted. The first divides by zero in a row that is matched."""


def sync(delta: SparkSession, path: str, *, inserts: bool, sql: bool) -> None:
    """Updates keys from 10 to 49, inserts them, and updates or deletes those before 10.

    Names without `s.` and `t.` are columns of both.
    """
    source = delta.createDataFrame(updates(range(10, 50)), "k long, v string")
    if sql:
        source.createOrReplaceTempView("newer")
        inserting = "WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (k, concat(v, '!'), k % 2)" if inserts else ""
        delta.sql(
            f"MERGE INTO delta.`{path}` t USING newer s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v {inserting}"
            f" WHEN NOT MATCHED BY SOURCE AND {BY_SOURCE[0]} THEN UPDATE SET v = concat(v, '?')"
            f" WHEN NOT MATCHED BY SOURCE AND {BY_SOURCE[1]} THEN DELETE"
        )
        return
    merging = DeltaTable.forPath(delta, path).alias("t").merge(source.alias("s"), "t.k = s.k")
    merging = merging.whenMatchedUpdate(set={"v": "s.v"})
    if inserts:
        merging = merging.whenNotMatchedInsert(values={"k": "k", "v": "concat(v, '!')", "p": "k % 2"})
    merging = merging.whenNotMatchedBySourceUpdate(BY_SOURCE[0], {"v": "concat(v, '?')"})
    merging.whenNotMatchedBySourceDelete(BY_SOURCE[1]).execute()


def synchronized(*, inserts: bool) -> Rows:
    expected = {key: f"v{key}?" if key % 3 == 0 else f"v{key}" for key in range(10) if key % 3 == 0 or key % 2 == 0}
    expected |= dict(updates(range(10, ROWS)))
    return expected | ({key: f"u{key}!" for key in range(ROWS, 50)} if inserts else {})


@pytest.mark.parametrize("sql", [True, False], ids=["sql", "api"])
@pytest.mark.parametrize("inserts", [True, False], ids=["inserts", ""])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_rows_that_no_source_row_matches(
    delta: SparkSession, path: str, steps: list[str], vectors: str, *, inserts: bool, sql: bool
) -> None:
    make_table(delta, path, enableDeletionVectors=vectors, enableRowTracking="true")
    ids = "SELECT k, _metadata.row_id FROM"
    before = dict(delta.sql(f"{ids} delta.`{path}`").collect())
    sync(delta, path, inserts=inserts, sql=sql)
    assert rows_of(delta, path) == synchronized(inserts=inserts)
    after = dict(delta.sql(f"{ids} delta.`{path}`").collect())
    assert all(before.get(key, row_id) == row_id for key, row_id in after.items())
    assert len(set(after.values())) == len(after)
    assert steps == ["write"]
    numbers = metrics(delta, path)
    kinds = "MatchedUpdated", "NotMatchedBySourceUpdated", "NotMatchedBySourceDeleted", "Inserted", "Copied"
    counts = [30, 4, 3, 10 if inserts else 0, 0 if vectors == "true" else 3]
    assert [int(numbers[f"numTargetRows{kind}"]) for kind in kinds] == counts


def test_rows_that_no_source_row_matches_are_looked_for_first_if_few_are_inserted(
    delta: SparkSession, path: str, steps: list[str]
) -> None:
    """Spark would shuffle the whole table for a full join."""
    make_table(delta, path)
    with mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 1 << 20):
        sync(delta, path, inserts=True, sql=True)
        assert not steps
        delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
        sync(delta, path, inserts=False, sql=True)
        assert steps == ["write"]
    assert rows_of(delta, path) == synchronized(inserts=False)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ("DELETE FROM {} WHERE k = 9", ConcurrentDeleteDeleteException),
        ("UPDATE {} SET p = 1 WHERE k = 4", ConcurrentAppendException),
        ("INSERT INTO {} VALUES (61, 'other', 1)", ConcurrentAppendException),
    ],
    ids=["changed", "unchanged", "new"],
)
def test_a_writer_of_a_row_that_no_source_row_matches(
    delta: SparkSession, path: str, steps: list[str], other: str, error: type[Exception]
) -> None:
    """Race 41 is that of a new row: the clause would delete it."""
    make_table(delta, path, isolationLevel="Serializable")
    with pytest.raises(error):
        beaten_to_the_commit(delta, lambda: sync(delta, path, inserts=True, sql=True), other.format(f"delta.`{path}`"))
    assert steps == ["write"]
    unrelated = f"INSERT INTO delta.`{path}` VALUES (62, 'other', 0)"
    beaten_to_the_commit(delta, lambda: sync(delta, path, inserts=True, sql=True), unrelated)


def test_only_new_rows(delta: SparkSession, path: str, steps: list[str]) -> None:
    make_table(delta, path)
    files = set(Path(path).glob("*.parquet"))
    inserting = "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (id, 'new')"
    for _ in range(2):
        delta.sql(f"MERGE INTO delta.`{path}` t USING (FROM range(38, 42)) s ON t.k = s.id {inserting}")
        assert rows_of(delta, path) == {**{key: f"v{key}" for key in range(ROWS)}, 40: "new", 41: "new"}
    assert len(set(Path(path).glob("*.parquet")) - files) == 1, "the second has nothing to write"
    assert steps == ["write", "write"]


def test_a_race_of_only_new_rows(delta: SparkSession, path: str) -> None:
    """Race 36: a row that is matched is deleted by another writer; the MERGE would have inserted it."""
    make_table(delta, path)
    inserting = "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (id, 'new')"
    merge = f"MERGE INTO delta.`{path}` t USING (FROM range(38, 42)) s ON t.k = s.id {inserting}"
    with pytest.raises(ConcurrentDeleteReadException):
        beaten_to_the_commit(delta, lambda: delta.sql(merge), f"DELETE FROM delta.`{path}` WHERE k = 38")
    beaten_to_the_commit(delta, lambda: delta.sql(merge), f"DELETE FROM delta.`{path}` WHERE k = 3")
    assert sorted(rows_of(delta, path)) == [0, 1, 2, *range(4, 42)]


@pytest.mark.parametrize("updating", ["", "WHEN MATCHED THEN UPDATE SET v = 'u'"], ids=["inserts", "upserts"])
@pytest.mark.parametrize("source", ["range(5, 8)", "VALUES (5), (6), (7) AS s (id)"], ids=["job", "driver"])
def test_few_rows_that_no_row_of_a_large_table_matches(
    delta: SparkSession, path: str, steps: list[str], source: str, updating: str
) -> None:
    """Spark finds that while it runs the join, and plans the rest anew."""
    make_table(delta, path)
    DeltaTable.forPath(delta, path).delete("k IN (5, 6, 7)")
    merge = (
        f"MERGE INTO delta.`{path}` t USING (SELECT id FROM {source}) s ON t.k = s.id {updating}"
        " WHEN NOT MATCHED AND s.id < 7 THEN INSERT (k, v) VALUES (s.id, 'new')"
    )
    with (
        mock.patch.object(file_sample, "SAMPLED_BYTES_MIN", 0),
        mock.patch.object(merge_rows, "CACHED_ROWS_MAX", 500_000),
        mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 1 << 20),
        mock.patch.object(merge_join, "size_of", return_value=Size.LARGE),
    ):
        assert tuple(delta.sql(merge).collect()[0]) == (2, 0, 0, 2)
    others = {key: f"v{key}" for key in range(ROWS) if key != 7}
    assert rows_of(delta, path) == {**others, 5: "new", 6: "new"}
    assert steps == ["write"]


@pytest.mark.parametrize("inserts", [False, True], ids=["updates", "upserts"])
def test_rows_that_are_not_marked(delta: SparkSession, path: str, steps: list[str], *, inserts: bool) -> None:
    """Where Spark generates no code for the plan, another join finds the rows behind the write."""
    make_table(delta, path)
    source = updates([*range(0, ROWS, 2), 500])
    delta.conf.set("spark.sql.codegen.maxFields", "1")
    try:
        counts = upsert(delta, path, source) if inserts else update(delta, path, source)
    finally:
        delta.conf.unset("spark.sql.codegen.maxFields")
    assert counts[1:] == (20, 0, 1 if inserts else 0)
    new = {500: "u500!"} if inserts else {}
    assert rows_of(delta, path) == {key: f"v{key}" for key in range(ROWS)} | dict(source[:-1]) | new
    assert steps == ["write", "find"]


def test_a_table_that_is_read_by_many_tasks(delta: SparkSession, path: str, steps: list[str]) -> None:
    """The source is broadcast, so that the tasks that read the table join it. One writes the rows."""
    make_table(delta, path)
    files = set(Path(path).glob("*.parquet"))
    with (
        mock.patch.object(merge_join, "size_of", return_value=Size.LARGE),
        mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 1 << 20),
    ):
        update(delta, path, updates([3, 17, 39]))
    assert rows_of(delta, path) == {key: f"v{key}" for key in range(ROWS)} | dict(updates([3, 17, 39]))
    assert len(set(Path(path).glob("*.parquet")) - files) == 1
    assert steps == ["write"]


def test_two_updates(delta: SparkSession, path: str, steps: list[str]) -> None:
    make_table(delta, path)
    clauses = "WHEN MATCHED AND s.id > 3 THEN UPDATE SET v = 'a' WHEN MATCHED THEN UPDATE SET v = 'b'"
    delta.sql(f"MERGE INTO delta.`{path}` t USING (FROM range({ROWS})) s ON t.k = s.id {clauses}")
    assert rows_of(delta, path) == {key: "a" if key > 3 else "b" for key in range(ROWS)}
    assert steps == ["write"]


def feed(delta: SparkSession, path: str) -> set[tuple[str, int, str]]:
    """The changes of the last commit: their type, and the row."""
    (last,) = DeltaTable.forPath(delta, path).history(1).collect()
    options = {"readChangeFeed": "true", "startingVersion": str(last.version)}
    rows = delta.read.format("delta").options(**options).load(path)
    changes = [(row._change_type, row.k, row.v) for row in rows.collect()]
    assert len(set(changes)) == len(changes)
    return set(changes)


@pytest.mark.parametrize("partitioned", [False, True], ids=["", "partitioned"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
@pytest.mark.parametrize("max_fields", ["100", "1"], ids=["", "not marked"])
def test_a_change_data_feed(
    delta: SparkSession, path: str, steps: list[str], vectors: str, max_fields: str, *, partitioned: bool
) -> None:
    """Old values are read by their positions."""
    make_table(delta, path, partitioned=partitioned, enableDeletionVectors=vectors, enableChangeDataFeed="true")
    delta.conf.set("spark.sql.codegen.maxFields", max_fields)
    try:
        delta.sql(
            f"MERGE INTO delta.`{path}` t USING (SELECT id AS k, concat('u', id) AS v FROM range(10, 50)) s ON t.k = s.k"
            " WHEN MATCHED AND s.k < 14 THEN DELETE WHEN MATCHED AND s.k < 20 THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (k, concat(v, '!'), k % 2)"
            " WHEN NOT MATCHED BY SOURCE AND p = 0 THEN UPDATE SET v = concat(v, '?')"
            " WHEN NOT MATCHED BY SOURCE AND k > 4 THEN DELETE"
        )
    finally:
        delta.conf.unset("spark.sql.codegen.maxFields")
    assert steps == (["write"] if max_fields == "100" else ["write", "find"])
    changed = {**{key: f"u{key}" for key in range(14, 20)}, **{key: f"v{key}?" for key in (0, 2, 4, 6, 8)}}
    deleted, new = {10, 11, 12, 13, 5, 7, 9}, {key: f"u{key}!" for key in range(ROWS, 50)}
    assert feed(delta, path) == (
        {("update_preimage", key, f"v{key}") for key in changed}
        | {("update_postimage", key, value) for key, value in changed.items()}
        | {("delete", key, f"v{key}") for key in deleted}
        | {("insert", key, value) for key, value in new.items()}
    )
    assert rows_of(delta, path) == {key: f"v{key}" for key in range(ROWS) if key not in deleted} | changed | new


@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "rewriting"])
def test_a_change_data_feed_without_updates(delta: SparkSession, path: str, steps: list[str], vectors: str) -> None:
    """Data files and vectors show what changes, as long as no rows that stay are written again."""
    make_table(delta, path, enableDeletionVectors=vectors, enableChangeDataFeed="true")
    delta.sql(
        f"MERGE INTO delta.`{path}` t USING (FROM range(38, 42)) s ON t.k = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (id, 'new')"
    )
    assert steps == ["write"]
    assert feed(delta, path) == {
        *(("delete", key, f"v{key}") for key in (38, 39)),
        *(("insert", key, "new") for key in (40, 41)),
    }
    assert bool([*Path(path, "_change_data").rglob("*.parquet")]) == (vectors == "false")


def test_rows_that_are_changed_twice_leave_no_change_data_files(
    delta: SparkSession, path: str, steps: list[str]
) -> None:
    make_table(delta, path, enableChangeDataFeed="true")
    files = sorted(Path(path).rglob("*.parquet"))
    with pytest.raises(AmbiguousMergeError):
        update(delta, path, updates([1, 2, 3, 3]))
    assert steps == ["write", "find"]
    assert sorted(Path(path).rglob("*.parquet")) == files


def test_a_writer_of_a_row_that_is_not_matched(delta: SparkSession, path: str, steps: list[str]) -> None:
    """Race 38."""
    make_table(delta, path)
    source = updates([*range(1, ROWS), 1000])
    beaten_to_the_commit(delta, lambda: update(delta, path, source), f"DELETE FROM delta.`{path}` WHERE k = 0")
    assert rows_of(delta, path) == dict(source[:-1])
    assert steps == ["write"]


def test_two_upserts_of_a_new_key(delta: SparkSession, path: str, steps: list[str]) -> None:
    """Race 36: the second raises, and the key is there once."""
    make_table(delta, path)
    other = (
        f"MERGE INTO delta.`{path}` t USING (SELECT 500L AS k) s ON t.k = s.k"
        " WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (s.k, 'first', 0)"
    )
    with pytest.raises(ConcurrentAppendException):
        beaten_to_the_commit(delta, lambda: upsert(delta, path, updates([*range(ROWS), 500])), other)
    assert rows_of(delta, path) == {500: "first", **{key: f"v{key}" for key in range(ROWS)}}
    assert steps == ["write"]


def test_a_writer_of_a_row_that_is_updated(delta: SparkSession, path: str, steps: list[str]) -> None:
    """Race 39."""
    make_table(delta, path)
    source = updates(range(ROWS))
    with pytest.raises(ConcurrentDeleteDeleteException):
        beaten_to_the_commit(delta, lambda: update(delta, path, source), f"DELETE FROM delta.`{path}` WHERE k = 5")
    assert steps == ["write"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_sources(delta: SparkSession, path: str, steps: list[str], seed: int) -> None:
    draw = random.Random(seed)
    make_table(delta, path, enableDeletionVectors=draw.choice(["true", "false"]))
    expected = rows_of(delta, path)
    for step in range(8):
        keys = [key for key in expected if draw.random() < draw.choice([1, 1, 0.95])]
        keys += [draw.randrange(2 * ROWS) for _ in range(max(0, ROWS - len(keys)))]
        draw.shuffle(keys)
        source = [(key, f"{step} {index}") for index, key in enumerate(keys)]
        inserts = draw.random() < 0.5
        if inserts:
            source = list({key: (key, value) for key, value in source}.values())
        matched = [(key, value) for key, value in source if key in expected]
        if len(dict(matched)) < len(matched):
            with pytest.raises(AmbiguousMergeError):
                update(delta, path, source)
            continue
        new = {key: f"{value}!" for key, value in source if inserts and key not in expected}
        counts = upsert(delta, path, source) if inserts else update(delta, path, source)
        assert counts[1:] == (len(matched), 0, len(new))
        expected |= {**dict(matched), **new}
        assert rows_of(delta, path) == expected
