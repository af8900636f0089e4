"""`df.writeStream.format("delta")`: batches are commits, each lands once, and tables keep to their rules."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import AppendOnlyTableError, ConcurrentTransactionException
from anabranch.errors.constraints import CheckConstraintViolationError
from anabranch.errors.schema import PartitionColumnMismatchError, SchemaMismatchError, VoidWriteError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from session_kinds import CONNECT
from streaming.streams import Feed, applications, finished, last, rows, run, writer

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("active")]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    folder = tmp_path / "feed"
    folder.mkdir()
    return Feed(folder)


def failure_of(query: Any, error: type[DeltaError]) -> Any:
    """Why the query failed: Spark's exception has our text, and our error as its cause, but for Spark Connect."""
    with pytest.raises(StreamingQueryException) as raised:
        finished(query)
    names = {error.__name__, error.condition}
    assert any(word in str(raised.value) for word in names)
    failure = query.exception()
    assert any(word in str(failure) for word in names)
    if CONNECT is not None:
        pytest.skip("the rest needs the error itself")
    assert isinstance(raised.value.__cause__, error)
    # The same facts at each call, in an exception that was not raised before.
    assert (type(failure.__cause__), str(failure.__cause__)) == (error, str(raised.value.__cause__))
    return failure.__cause__


def test_each_batch_is_one_commit(delta: SparkSession, path: str, feed: Feed) -> None:
    """The commit is in the table's history, in the log, and with the number of the batch from run to run."""
    feed.put({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    feed.put({"id": 3, "v": "c"})
    query = run(feed.frame(delta), feed, path, userMetadata="first run", maxRecordsPerFile=1)
    assert rows(delta, path) == [(1, "a"), (2, "b"), (3, "c")]
    history = DeltaTable.forPath(delta, path).history().orderBy("version").collect()
    assert [row.operation for row in history] == ["STREAMING UPDATE"] * 2
    parameters = [{"outputMode": "Append", "queryId": query.id, "epochId": str(batch)} for batch in (0, 1)]
    assert [row.operationParameters for row in history] == parameters
    assert [row.userMetadata for row in history] == ["first run"] * 2
    assert [row.isBlindAppend for row in history] == [True, True]
    metrics = history[0].operationMetrics
    assert {name: metrics[name] for name in ("numAddedFiles", "numRemovedFiles", "numOutputRows")} == {
        "numAddedFiles": "2",
        "numRemovedFiles": "0",
        "numOutputRows": "2",
    }
    assert int(metrics["numOutputBytes"]) > 0
    feed.put({"id": 4, "v": "d"})
    again = run(feed.frame(delta), feed, path)
    assert (again.id, again.runId == query.runId) == (query.id, False)
    assert [(txn["appId"], txn["version"]) for txn in applications(path, 2)] == [(query.id, 2)]
    assert last(delta, path).operationParameters["epochId"] == "2"
    assert run(feed.frame(delta), feed, path).exception() is None
    assert last(delta, path).version == 2


def test_a_batch_that_landed_is_not_written_again(delta: SparkSession, path: str, feed: Feed) -> None:
    """Covers fault F52, the sink's part: between our commit and Spark's note of it the process died. What comes next is
    neither lost nor doubled."""
    feed.put({"id": 1, "v": "a"})
    run(feed.frame(delta), feed, path)
    feed.forget_last_batch()
    run(feed.frame(delta), feed, path)
    assert (rows(delta, path), last(delta, path).version) == ([(1, "a")], 0)
    feed.forget_last_batch()
    feed.put({"id": 2, "v": "b"})
    run(feed.frame(delta), feed, path)
    assert (rows(delta, path), last(delta, path).version) == ([(1, "a"), (2, "b")], 1)


def test_complete_mode_replaces_all_rows(delta: SparkSession, path: str, feed: Feed) -> None:
    """The session's mode of overwriting partitions changes nothing; a table that refuses deletions refuses it."""
    feed.put({"id": 1, "v": "a"}, {"id": 2, "v": "a"})
    counted = feed.frame(delta).groupBy("v").count()
    delta.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        writer(counted, feed, "complete").partitionBy("v").start(path).awaitTermination(60)
        feed.put({"id": 3, "v": "b"})
        run(counted, feed, path, "complete")
    finally:
        delta.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(delta, path) == [("a", 2), ("b", 1)]
    commit = last(delta, path)
    assert (commit.operation, commit.operationParameters["outputMode"]) == ("STREAMING UPDATE", "Complete")
    assert commit.operationMetrics["numRemovedFiles"] == "1"
    renamed = counted.withColumnRenamed("count", "n")
    feed.put({"id": 4, "v": "b"})
    run(renamed.select("n"), feed, path, "complete", overwriteSchema=True)
    assert rows(delta, path) == [(2,), (2,)]
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    feed.put({"id": 5, "v": "c"})
    failure_of(writer(renamed.select("n"), feed, "complete").start(path), AppendOnlyTableError)
    assert rows(delta, path) == [(2,), (2,)]


def test_streams_into_named_tables(delta: SparkSession, name: str, feed: Feed) -> None:
    """The name is there before the first batch, and knows the columns that batches bring."""
    feed.put({"id": 1, "v": "a"})
    query = writer(feed.frame(delta), feed).partitionBy("v").queryName(name).toTable(name)
    assert delta.catalog.tableExists(name)
    finished(query)
    assert query.name == name
    created, streamed = DeltaTable.forName(delta, name).history().orderBy("version").collect()
    assert (created.operation, streamed.operation) == ("CREATE TABLE", "STREAMING UPDATE")
    assert DeltaTable.forName(delta, name).detail().first().partitionColumns == ["v"]
    feed.put({"id": 2, "v": "b", "w": 1.5})
    wider = feed.frame(delta, "id long, v string, w double")
    finished(writer(wider, feed, mergeSchema=True).toTable(name))
    assert delta.table(name).orderBy("id").collect() == [(1, "a", None), (2, "b", 1.5)]
    other = name + "_other"
    delta.sql(f"CREATE TABLE {other} (id INT) USING parquet")
    with pytest.raises((NotADeltaTableError, AnalysisException), match="parquet"):
        writer(feed.frame(delta), feed).toTable(other)
    delta.sql(f"DROP TABLE {other}")


def test_schemas_grow_only_with_schema_evolution(delta: SparkSession, path: str, feed: Feed) -> None:
    """And values are cast to the type of their column, as in SQL."""
    delta.sql("SELECT 1 AS id").write.format("delta").save(path)
    feed.put({"id": 2, "v": "b"})
    cause = failure_of(writer(feed.frame(delta), feed).start(path), SchemaMismatchError)
    assert list(cause.extra) == ["v"]
    assert last(delta, path).version == 0
    run(feed.frame(delta), feed, path, mergeSchema=True)
    assert rows(delta, path) == [(1, None), (2, "b")]
    assert dict(delta.read.format("delta").load(path).dtypes)["id"] == "int"
    feed.put({"id": 3, "v": "c"})
    failure_of(writer(feed.frame(delta), feed).partitionBy("v").start(path), PartitionColumnMismatchError)


def test_a_column_of_no_type_is_refused(delta: SparkSession, path: str, feed: Feed) -> None:
    feed.put({"id": 3, "v": "c"})
    stream_writer = writer(feed.frame(delta).withColumn("nothing", F.lit(None)), feed)
    with pytest.raises((VoidWriteError, StreamingQueryException), match="nothing"):
        finished(stream_writer.start(path))
    assert not Path(path, "_delta_log").exists()


def test_rows_that_break_a_rule_stop_the_query(delta: SparkSession, path: str, feed: Feed) -> None:
    """Nothing of their batch lands; once they are corrected the query goes on where it stopped."""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING DEFAULT 'x', CONSTRAINT few CHECK (id < 10)) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    feed.put({"id": 1, "v": "a"})
    feed.put({"id": 2, "v": "b"}, {"id": 11, "v": "c"})
    cause = failure_of(writer(feed.frame(delta), feed).start(path), CheckConstraintViolationError)
    assert (cause.constraint, cause.columns, cause.row) == ("CHECK constraint few", ("id",), '{"id":11}')
    assert rows(delta, path) == [(1, "a")]
    delta.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT few")
    run(feed.frame(delta).select("id"), feed, path)
    assert rows(delta, path) == [(1, "a"), (2, "x"), (11, "x")]


def test_two_runs_of_one_checkpoint(delta: SparkSession, path: str, feed: Feed) -> None:
    """While a batch is computed, another process lands the same one: that run wins, and this one says so."""
    query_id = str(uuid.uuid4())
    feed.checkpoint.mkdir()
    (feed.checkpoint / "metadata").write_text(json.dumps({"id": query_id}))
    delta.range(0).write.format("delta").save(path)
    commit = Path(path) / "_delta_log" / "00000000000000000001.json"
    landed = {"txn": {"appId": query_id, "version": 0}}

    def other_run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        commit.write_text(json.dumps({"commitInfo": {"operation": "STREAMING UPDATE"}}) + "\n" + json.dumps(landed))
        yield from batches

    feed.put({"id": 1})
    stream = feed.frame(delta, "id long").mapInPandas(other_run, "id long")
    cause = failure_of(writer(stream, feed).start(path), ConcurrentTransactionException)
    assert (cause.operation, cause.version) == ("STREAMING UPDATE", 1)
    assert (rows(delta, path), last(delta, path).version) == ([], 1)


def test_streams_that_read_their_own_table(delta: SparkSession, path: str, feed: Feed) -> None:
    """They are no blind appends."""
    delta.range(3).write.format("delta").save(path)
    feed.put({"id": 1})
    frame = delta.read.format("delta").load(path)
    run(feed.frame(delta, "id long").join(frame, "id"), feed, path)
    assert rows(delta, path) == [(0,), (1,), (1,), (2,)]
    assert last(delta, path).isBlindAppend is False


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("outputMode", "update"),
        ("checkpointLocation", ""),
        ("replaceWhere", "id = 1"),
        ("partitionOverwriteMode", "dynamic"),
        ("txnAppId", "app"),
        ("mergeSchema", "perhaps"),
        ("path", None),
        ("path", "@v0"),
    ],
)
def test_invalid_options_of_a_stream(
    delta: SparkSession, path: str, feed: Feed, option: str, value: str | None
) -> None:
    """It is refused by name before anything is started."""
    stream_writer = writer(feed.frame(delta), feed)
    target: str | None = path
    if option == "outputMode":
        stream_writer.outputMode(value)
    elif option == "path":
        delta.range(1).write.format("delta").save(path)
        target = None if value is None else f"{path}{value}"
    else:
        stream_writer.option(option, value)
    with pytest.raises(InvalidOptionError) as refused:
        stream_writer.start(target)
    assert refused.value.option == option
    assert not feed.checkpoint.exists()


def test_tables_are_written_in_batches(delta: SparkSession, path: str, feed: Feed) -> None:
    """A stream that shall run without them says so, before it starts or as soon as it runs."""
    with pytest.raises((InvalidOptionError, StreamingQueryException), match=r"(?i)trigger"):
        finished(writer(feed.frame(delta), feed).trigger(continuous="1 second").start(path))


def test_checkpoints_below_a_folder_of_the_session(delta: SparkSession, path: str, feed: Feed) -> None:
    """Spark makes them so: the query's name is the folder's."""
    feed.put({"id": 1, "v": "a"})
    stream_writer = feed.frame(delta).writeStream.format("delta").trigger(availableNow=True)
    delta.conf.set("spark.sql.streaming.checkpointLocation", str(feed.checkpoint))
    try:
        finished(stream_writer.start(path, queryName="numbers"))
    finally:
        delta.conf.unset("spark.sql.streaming.checkpointLocation")
    assert (feed.checkpoint / "numbers" / "metadata").exists()
    assert rows(delta, path) == [(1, "a")]


def test_other_streams_are_left_alone(delta: SparkSession, path: str, feed: Feed) -> None:
    """They are streams of other formats, and with a function of the user's own."""
    feed.put({"id": 1, "v": "a"})
    stream_writer = feed.frame(delta).writeStream.format("delta").trigger(availableNow=True)
    counts = str(feed.folder) + "-counts"
    finished(stream_writer.foreachBatch(lambda batch, n: batch.write.mode("append").parquet(counts)).start())
    assert delta.read.parquet(counts).count() == 1
    stream_writer = feed.frame(delta).writeStream.format("parquet").option("checkpointLocation", str(feed.checkpoint))
    finished(stream_writer.trigger(availableNow=True).start(path))
    assert delta.read.parquet(path).count() == 1
