"""Streams into tables, through Spark's own interface for sinks. What they have in common with others:
tests/streaming."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.errors.schema import SchemaMismatchError
from anabranch.tables import DeltaTable
from streaming.streams import Feed, finished, last, rows, run, writer

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    folder = tmp_path / "feed"
    folder.mkdir()
    return Feed(folder)


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    made = f"t_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


def test_no_class_of_pyspark_is_in_between(delta: SparkSession, path: str, feed: Feed) -> None:
    feed.put({"id": 1, "v": "a"})
    query = run(feed.frame(delta), feed, path)
    assert type(query).__module__ == "pyspark.sql.streaming.query"
    assert query.lastProgress["sink"]["description"] == f"delta[{path}]"
    assert rows(delta, path) == [(1, "a")]


def test_from_the_jvm(delta: SparkSession, path: str, feed: Feed) -> None:
    """A program in Scala starts the stream so."""
    feed.put({"id": 1, "v": "a"})
    frame: Any = feed.frame(delta)._jdf
    query = frame.writeStream().format("delta").option("checkpointLocation", str(feed.checkpoint)).start(path)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows(delta, path) == [(1, "a")]


def test_the_cause_of_a_failure_is_our_error(delta: SparkSession, path: str, feed: Feed) -> None:
    """It is the cause of Spark's own exception, which says condition and message and shows no Java."""
    delta.range(1).write.format("delta").save(path)
    feed.put({"id": 1, "v": "a"})
    query = writer(feed.frame(delta), feed).start(path)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(60)
    for failure in (raised.value, query.exception()):
        assert isinstance(failure.__cause__, SchemaMismatchError)
        assert "[DELTA_METADATA_MISMATCH]" in str(failure)
        assert "\tat " not in str(failure)
    assert last(delta, path).version == 0


def test_state_is_kept_by_one_execution(delta: SparkSession, path: str, feed: Feed) -> None:
    """Rows that were seen before are dropped: a plan that ran twice would drop all."""
    feed.put({"id": 1, "v": "a"}, {"id": 1, "v": "a"})
    feed.put({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    run(feed.frame(delta).dropDuplicates(["id"]), feed, path)
    assert rows(delta, path) == [(1, "a"), (2, "b")]


def test_batches_follow_a_table_that_they_join(delta: SparkSession, path: str, name: str, feed: Feed) -> None:
    delta.sql(f"CREATE TABLE {name} (id BIGINT, w STRING) USING delta")
    existing = delta.table(name)
    feed.put({"id": 1, "v": "a"})
    run(feed.frame(delta).join(existing, "id"), feed, path)
    delta.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    feed.put({"id": 2, "v": "b"})
    run(feed.frame(delta).join(existing, "id"), feed, path)
    assert rows(delta, path) == [(2, "b", "y")]


def test_a_function_of_the_users_own_changes_the_table(delta: SparkSession, name: str, feed: Feed) -> None:
    """It does so in the session of the batch, by statements and by the writer."""
    delta.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'old'), (9, 'old')")

    def upsert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("updates")
        batch.sparkSession.sql(f"DELETE FROM {name} WHERE id IN (SELECT id FROM updates)")
        batch.write.format("delta").mode("append").saveAsTable(name)

    feed.put({"id": 1, "v": "new"}, {"id": 2, "v": "new"})
    writer = feed.frame(delta).writeStream.foreachBatch(upsert).trigger(availableNow=True)
    finished(writer.option("checkpointLocation", str(feed.checkpoint)).start())
    assert delta.table(name).orderBy("id").collect() == [(1, "new"), (2, "new"), (9, "old")]


def test_clustered_by_the_stream(delta: SparkSession, path: str, feed: Feed) -> None:
    feed.put({"id": 1, "v": "a"})
    finished(writer(feed.frame(delta), feed).clusterBy("id").start(path))
    assert DeltaTable.forPath(delta, path).detail().first().clusteringColumns == ["id"]


def test_refused_before_anything_starts(delta: SparkSession, path: str, name: str, feed: Feed) -> None:
    feed.put({"id": 1, "v": "a"})
    with pytest.raises(InvalidOptionError, match="outputMode"):
        writer(feed.frame(delta), feed, "update").start(path)
    delta.range(1).write.format("delta").save(path)
    with pytest.raises(UnsupportedOperationError, match="toTable"):
        writer(feed.frame(delta), feed).toTable(f"delta.`{path}`")
    assert not feed.checkpoint.exists()
