"""Rows that Spark keeps in memory."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.merge import merge_command
from anabranch.spark.rows.cached_rows import CachedRows
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def is_kept(frame: DataFrame) -> bool:
    """Whether Spark takes the rows from memory."""
    return "InMemory" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    delta.range(3).write.format("delta").saveAsTable(name)
    return name


@pytest.mark.parametrize(
    "how", ["statement", *(pytest.param(how, marks=pytest.mark.long) for how in ("catalog", "frame"))]
)
def test_rows_are_kept_and_follow_our_commits(delta: SparkSession, table: str, how: str) -> None:
    """Bug B51."""
    frame = delta.table(table)
    if how == "statement":
        delta.sql(f"CACHE TABLE {table}")
    elif how == "catalog":
        delta.catalog.cacheTable(table)
    else:
        frame.cache()
    assert is_kept(delta.table(table))
    assert delta.table(table).count() == 3
    delta.sql(f"INSERT INTO {table} VALUES (7)")
    assert (delta.table(table).count(), frame.count()) == (4, 4)
    DeltaTable.forName(delta, table).delete("id = 7")
    delta.range(10, 11).write.format("delta").mode("append").saveAsTable(table)
    assert sorted(row.id for row in delta.table(table).collect()) == [0, 1, 2, 10]
    assert is_kept(delta.table(table))
    assert delta.catalog.isCached(table)
    delta.catalog.uncacheTable(table)
    assert not is_kept(delta.table(table))


@pytest.mark.long
def test_rows_that_a_statement_keeps_are_let_go(delta: SparkSession, table: str) -> None:
    """Also where Spark looks through its cache at that moment, as after each commit of another thread."""
    location = str(DeltaTable.forName(delta, table).detail().collect()[0].location)
    spark: Any = delta
    cache = spark._jsparkSession.sharedState().cacheManager()
    delta.catalog.clearCache()
    assert cache.isEmpty()
    rows = persistent(delta)
    done = threading.Event()

    def look_through() -> None:
        while not done.is_set():
            delta.catalog.refreshByPath(location)

    looking = [InheritableThread(target=look_through) for _ in range(2)]
    for thread in looking:
        thread.start()
    try:
        for number in range(2):
            delta.sql(f"UPDATE {table} SET id = id + 10 WHERE id >= {number}")
            delta.sql(
                f"MERGE INTO {table} t USING (SELECT id FROM range(3)) s ON t.id = s.id + 10 "
                "WHEN MATCHED THEN UPDATE SET id = s.id WHEN NOT MATCHED THEN INSERT *"
            )
            delta.sql(f"INSERT INTO {table} REPLACE USING (id) SELECT id FROM range(2)")
    finally:
        done.set()
        for thread in looking:
            thread.join()
    assert cache.isEmpty()
    assert persistent(delta) <= rows


def test_rows_of_a_source_that_is_not_repeatable_are_freed_at_once(delta: SparkSession, table: str) -> None:
    """Not only when Spark finds that nothing refers to them: until then ten sources may be in memory."""
    source = delta.range(20_000).withColumn("chance", F.rand())
    batch = delta.createDataFrame(source.rdd, source.schema).join(delta.table(table), "id", "left")
    rows = persistent(delta)
    for frame in (source, batch):
        merging = DeltaTable.forName(delta, table).alias("t").merge(frame.alias("s"), "t.id = s.id")
        merging.whenMatchedUpdate(set={"id": "s.id"}).whenNotMatchedInsert(values={"id": "s.id"}).execute()
        assert persistent(delta) <= rows
    assert delta.table(table).count() == 20_000


def test_rows_that_cannot_be_released_fail_no_statement(
    delta: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Covers bug B59: it is committed by then."""

    def unreleasable(source: DataFrame, *, counts: bool) -> CachedRows:
        return CachedRows(frame=source, release=lambda: delta.sparkContext._jsc.sc().noSuchMethod())

    monkeypatch.setattr(merge_command, "materialize", unreleasable)
    merging = DeltaTable.forName(delta, table).alias("t").merge(delta.range(5).alias("s"), "t.id = s.id")
    merging.whenNotMatchedInsertAll().execute()
    assert delta.table(table).count() == 5
    assert "Rows that Spark has kept for a statement were not released" in caplog.messages


def persistent(spark: SparkSession) -> set[int]:
    """Numbers of the RDDs whose rows are kept."""
    context: Any = spark.sparkContext
    return set(context._jsc.getPersistentRDDs())


@pytest.mark.parametrize("by", ["REFRESH TABLE", "catalog.refreshTable", "catalog.refreshByPath"])
def test_commits_of_others_show_after_a_refresh(delta: SparkSession, table: str, by: str) -> None:
    delta.sql(f"CACHE TABLE {table}")
    location = str(DeltaTable.forName(delta, table).detail().collect()[0].location).removeprefix("file:")
    _commit_of_another(delta, location)
    if by == "REFRESH TABLE":
        delta.sql(f"REFRESH TABLE {table}")
    elif by == "catalog.refreshTable":
        delta.catalog.refreshTable(table)
    else:
        delta.catalog.refreshByPath(location)
    assert delta.table(table).count() == 4
    assert is_kept(delta.table(table))
    delta.sql(f"UNCACHE TABLE {table}")


def _commit_of_another(delta: SparkSession, location: str) -> None:
    """A version with one more file, a copy of an existing one, committed by another process."""
    log = Path(location) / "_delta_log"
    adds = [json.loads(line)["add"] for line in (log / f"{0:020}.json").read_text().splitlines() if '"add"' in line]
    one = next(add for add in adds if json.loads(add["stats"])["numRecords"] == 1)
    shutil.copy(Path(location) / one["path"], Path(location) / "another.parquet")
    (log / f"{1:020}.json").write_text(json.dumps({"add": {**one, "path": "another.parquet"}}) + "\n")


def test_kept_rows_are_written_as_they_are(delta: SparkSession, table: str, path: str) -> None:
    kept = delta.table(table).select("id", F.rand().alias("chance")).cache()
    expected = sorted(map(tuple, kept.collect()))
    kept.write.format("delta").save(path)
    assert sorted(map(tuple, delta.read.format("delta").load(path).collect())) == expected
    kept.unpersist()


def test_kept_rows_of_the_table_itself_are_no_blind_append(delta: SparkSession, table: str) -> None:
    kept = delta.table(table).selectExpr("id + 100 AS id").cache()
    kept.count()
    kept.write.insertInto(table)
    assert delta.table(table).count() == 6
    last = DeltaTable.forName(delta, table).history(1).first()
    assert last is not None
    assert last.isBlindAppend is False
    kept.unpersist()


def test_commits_of_another_session_show(delta: SparkSession, table: str) -> None:
    """Covers fault F64: sessions of an application share what is kept, for commits of any session."""
    delta.sql(f"CACHE TABLE {table}")
    DeltaTable.forName(delta.newSession(), table).delete("id = 1")
    assert sorted(row.id for row in delta.table(table).collect()) == [0, 2]
    assert is_kept(delta.table(table))
    delta.sql(f"UNCACHE TABLE {table}")
