"""Streams from tables on classic sessions, by Spark's own interface for sources: what no other session has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable
from streaming.stream_reading import Reading, put, stream
from streaming.streams import finished, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path / "checkpoint")


def test_progress_counts_rows_and_the_backlog(delta: SparkSession, path: str, reading: Reading) -> None:
    for number in range(3):
        put(delta, path, number)
    query = reading.run(stream(delta, path, maxFilesPerTrigger=1))
    sources = [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]
    assert [source["numInputRows"] for source in sources] == [1, 1, 1]
    assert [source["metrics"]["numFilesOutstanding"] for source in sources] == ["2", "1", "0"]
    assert int(sources[0]["metrics"]["numBytesOutstanding"]) > int(sources[1]["metrics"]["numBytesOutstanding"]) > 0


def test_from_the_jvm(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """A program in Scala reads the stream so, into a table."""
    put(delta, path, 1)
    frame: Any = delta._jsparkSession.readStream().format("delta").load(path)
    target = str(tmp_path / "target")
    query = frame.writeStream().format("delta").option("checkpointLocation", str(tmp_path / "c")).start(target)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows(delta, target) == [(1, "v")]


def test_filters_skip_files_of_a_batch(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1)
    put(delta, path, 2)
    query = reading.run(stream(delta, path).where("id = 2"))
    assert reading.ids == [2]
    assert query.recentProgress[0]["numInputRows"] == 1


def test_each_batch_is_merged_once(delta: SparkSession, path: str, name: str, tmp_path: Path) -> None:
    """In SQL of the batch's session, by the builder, and by a write with the query's own numbers."""
    delta.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    log = str(tmp_path / "log")
    put(delta, path, 1, 2)
    put(delta, path, 2, 3)

    def upsert(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("updates")
        batch.sparkSession.sql(
            f"MERGE INTO {name} t USING updates s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v) WHEN NOT MATCHED THEN INSERT *"
        )
        table = DeltaTable.forName(batch.sparkSession, name).alias("t")
        builder = table.merge(batch.alias("s"), "t.id = s.id")
        builder.whenMatchedUpdate(set={"v": F.concat("t.v", F.lit("!"))}).execute()
        batch.write.format("delta").mode("append").option("txnAppId", "copy").option("txnVersion", number).save(log)

    def run() -> None:
        query = stream(delta, path, maxFilesPerTrigger=1).writeStream.foreachBatch(upsert).trigger(availableNow=True)
        finished(query.option("checkpointLocation", str(tmp_path / "c")).start())

    run()
    assert sorted(map(tuple, delta.table(name).collect())) == [(1, "v!"), (2, "v!v!"), (3, "v!")]
    Reading(tmp_path / "c").forget_last_commit()
    run()
    assert rows(delta, log) == [(1, "v"), (2, "v"), (2, "v"), (3, "v")]
