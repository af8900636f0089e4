"""Streams from tables, through Spark's own interface for sources. Positions and files: tests/streaming/test_source.py."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.change_feed import ChangesNotRecordedError, ChangesStartMissingError
from anabranch.errors.streaming import (
    StreamedColumnsRemappedError,
    StreamedRowsChangedError,
    StreamedRowsDeletedError,
    StreamedSchemaChangedError,
    StreamedSchemaStaleError,
    StreamedTableReplacedError,
)
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from streaming.streams import finished, last, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    made = f"t_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


@dataclasses.dataclass
class Reading:
    """A query of which the rows of each batch are kept; its checkpoint stays from run to run."""

    checkpoint: Path
    batches: list[list[Row]] = dataclasses.field(default_factory=list)
    fail_at: int | None = None
    """The batch in which the next run dies."""

    def run(self, stream: DataFrame, **trigger: Any) -> Any:
        """To the end of what there is. Raises `StreamingQueryException`."""
        return finished(self.start(stream, **(trigger or {"availableNow": True})))

    def start(self, stream: DataFrame, **trigger: Any) -> Any:
        writer = stream.writeStream.foreachBatch(self._take).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def _take(self, batch: DataFrame, number: int) -> None:
        if number == self.fail_at:
            self.fail_at = None
            raise ValueError("the process dies")
        found = batch.collect()
        if number < len(self.batches):
            assert sorted(self.batches[number]) == sorted(found), "a batch that is read again has the same rows"
        else:
            self.batches.append(found)

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for batch in self.batches for row in batch)

    @property
    def ids(self) -> list[int]:
        return sorted(row.id for batch in self.batches for row in batch)

    def offsets(self) -> list[str]:
        """What the checkpoint says of each batch."""
        files = sorted(
            (int(file.name), file) for file in (self.checkpoint / "offsets").iterdir() if file.name.isdigit()
        )
        return [file.read_text("utf-8").splitlines()[-1] for _, file in files]

    def forget_last_commit(self) -> None:
        """The process died before Spark noted that its last batch was done."""
        notes = self.checkpoint / "commits"
        newest = max(int(file.name) for file in notes.iterdir() if file.name.isdigit())
        (notes / str(newest)).unlink()
        (notes / f".{newest}.crc").unlink(missing_ok=True)


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path / "checkpoint")


def stream(delta: SparkSession, path: str, **options: Any) -> DataFrame:
    return delta.readStream.format("delta").options(**options).load(path)


def put(delta: SparkSession, path: str, *ids: int) -> None:
    """One more commit, of one file."""
    delta.createDataFrame([(each, "v") for each in ids], "id long, v string").coalesce(1).write.format("delta").mode(
        "append"
    ).save(path)


def failure_of(run: Callable[[], Any], error: type[Exception]) -> Any:
    with pytest.raises(StreamingQueryException) as raised:
        run()
    assert isinstance(raised.value.__cause__, error), str(raised.value)[:2000]
    return raised.value.__cause__


def test_the_table_then_what_is_added(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1, 2)
    put(delta, path, 3)
    source = stream(delta, path, maxFilesPerTrigger=1)
    assert source.isStreaming
    assert source.schema == delta.read.format("delta").load(path).schema
    query = reading.run(source)
    assert reading.sizes == [2, 1]
    put(delta, path, 4)
    reading.run(source)
    assert reading.ids == [1, 2, 3, 4]
    assert reading.run(source).exception() is None
    assert len(reading.batches) == 3
    table = json.loads(reading.offsets()[0])["reservoirId"]
    positions = [(1, 0, True), (2, -1, False), (3, -1, False)]
    assert reading.offsets() == [
        f'{{"sourceVersion":1,"reservoirId":"{table}","reservoirVersion":{version},"index":{index},'
        f'"isStartingVersion":{str(snapshot).lower()}}}'
        for version, index, snapshot in positions
    ]
    assert query.recentProgress[0]["sources"][0]["description"] == f"DeltaSource[{path}]"


def test_progress_tells_rows_and_what_is_outstanding(delta: SparkSession, path: str, reading: Reading) -> None:
    for number in range(3):
        put(delta, path, number)
    query = reading.run(stream(delta, path, maxFilesPerTrigger=1))
    told = [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]
    assert [source["numInputRows"] for source in told] == [1, 1, 1]
    assert [source["metrics"]["numFilesOutstanding"] for source in told] == ["2", "1", "0"]
    assert int(told[0]["metrics"]["numBytesOutstanding"]) > int(told[1]["metrics"]["numBytesOutstanding"]) > 0


def test_by_name_and_in_sql(delta: SparkSession, name: str, tmp_path: Path) -> None:
    delta.sql(f"CREATE TABLE {name} (id BIGINT, c CHAR(3), p INT) USING delta PARTITIONED BY (p)")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'a', 7), (2, 'b', NULL)")
    expected = sorted(map(tuple, delta.table(name).where("id = 1").collect()))
    sources = [delta.readStream.table(name), delta.readStream.format("delta").table(name)]
    if not delta.version.startswith("4.0"):
        # Its grammar has no word for streams.
        sources += [delta.sql(f"SELECT * FROM STREAM {name}"), delta.sql(f"SELECT * FROM STREAM({name})")]
    for number, source in enumerate(sources):
        assert source.isStreaming
        reading = Reading(tmp_path / str(number))
        reading.run(source.where("id = 1 AND p = 7"))
        assert reading.rows == expected


def test_paths_are_names(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1)
    put(delta, path, 2)
    reader = delta.readStream.option("startingVersion", 1)
    sources = {(1, 2): [delta.readStream.table(f"delta.`{path}`")], (2,): [reader.table(f"delta.`{path}`")]}
    if not delta.version.startswith("4.0"):
        sources[1, 2] += [
            delta.sql(f"SELECT * FROM STREAM {text}") for text in (f"delta.`{path}`", f"(delta.`{path}`)")
        ]
    for ids, streams in sources.items():
        for number, source in enumerate(streams):
            assert source.isStreaming
            reading = Reading(tmp_path / f"{ids} {number}")
            reading.run(source)
            assert tuple(reading.ids) == ids
    with pytest.raises(InvalidOptionError, match="startingVersion"):
        delta.readStream.table(f"delta.`{path}@v0`")
    with pytest.raises(AnalysisException):
        delta.readStream.table(f"delta.`{tmp_path}/nothing`")


def test_from_the_jvm(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """As a program in Scala reads it, into a table."""
    put(delta, path, 1)
    frame: Any = delta._jsparkSession.readStream().format("delta").load(path)
    target = str(tmp_path / "target")
    query = frame.writeStream().format("delta").option("checkpointLocation", str(tmp_path / "c")).start(target)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows(delta, target) == [(1, "v")]


def test_from_table_to_table_each_batch_once(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Appends of a stream are blind, also where both tables are one."""
    put(delta, path, 1)
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "c")

    def copy() -> Any:
        source = stream(delta, path).writeStream.format("delta").trigger(availableNow=True)
        return finished(source.option("checkpointLocation", checkpoint).start(target))

    copy()
    put(delta, path, 2)
    copy()
    Reading(tmp_path / "c").forget_last_commit()
    copy()
    assert rows(delta, target) == [(1, "v"), (2, "v")]
    assert (last(delta, target).version, last(delta, target).isBlindAppend) == (1, True)


def test_hidden_rows_renamed_columns_and_partitions(delta: SparkSession, path: str, reading: Reading) -> None:
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING, p DATE) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    delta.sql(f"INSERT INTO delta.`{path}` SELECT id, 'v', DATE'2024-01-01' FROM range(0, 5, 1, 1)")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w")
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    source = stream(delta, path)
    reading.run(source)
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'x', NULL)")
    reading.run(source)
    assert reading.rows == sorted(map(tuple, delta.read.format("delta").load(path).collect()))
    assert reading.batches[0][0].asDict().keys() == {"id", "w", "p"}


def test_filters_skip_files_of_a_batch(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1)
    put(delta, path, 2)
    query = reading.run(stream(delta, path).where("id = 2"))
    assert reading.ids == [2]
    assert query.recentProgress[0]["numInputRows"] == 1


def test_paths_left_out_wide_rows_and_joins(delta: SparkSession, path: str, reading: Reading) -> None:
    """Rows that Spark reads one by one are hidden by a join; a table that the stream is joined with is read as it is."""
    wide = [f"id AS c{number}" for number in range(120)]
    frame = delta.range(0, 6, 1, 1).selectExpr("id", "id % 2 AS p", *wide)
    frame.write.format("delta").partitionBy("p").save(path)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    known = delta.read.format("delta").load(path).select("id", F.col("c7").alias("known"))
    source = stream(delta, path, excludeRegex="^p=0/").join(known, "id").select("id", "c119", "known")
    query = reading.run(source)
    assert reading.rows == [(1, 1, 1), (5, 5, 5)]
    assert query.exception() is None


def test_a_table_into_itself(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Its own appends come back as later batches; here, those that are available at the start."""
    put(delta, path, 1)
    writer = stream(delta, path).select((F.col("id") + 1).alias("id"), "v").writeStream.format("delta")
    finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(path))
    assert rows(delta, path) == [(1, "v"), (2, "v")]


def test_deletes_and_changes_are_told_by_delta_s_names(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1, 2, 3)
    put(delta, path, 4)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 4")
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    put(delta, path, 5)
    numbers = iter(range(9))

    def read(**options: Any) -> list[int]:
        reading = Reading(tmp_path / str(next(numbers)))
        reading.run(stream(delta, path, startingVersion=0, **options))
        return reading.ids

    deleted = failure_of(read, StreamedRowsDeletedError)
    assert (deleted.getCondition(), deleted.version) == ("DELTA_SOURCE_IGNORE_DELETE", 2)
    changed = failure_of(lambda: read(ignoreDeletes=True), StreamedRowsChangedError)
    assert (changed.getCondition(), changed.operation) == ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELETE")
    assert read(skipChangeCommits=True) == [1, 2, 3, 4, 5]
    assert read(ignoreChanges=True) == [1, 2, 2, 3, 3, 4, 5]


def test_beside_merges_and_compactions_a_stream_goes_on(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1, 2)
    put(delta, path, 3)
    query = reading.start(stream(delta, path, skipChangeCommits=True), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        for number in range(10, 14):
            put(delta, path, number)
            delta.sql(
                f"MERGE INTO delta.`{path}` t USING (SELECT 1L AS id) s ON t.id = s.id "
                f"WHEN MATCHED THEN UPDATE SET v = 'm{number}'"
            )
            delta.sql(f"OPTIMIZE delta.`{path}`")
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert reading.ids == [1, 2, 3, 10, 11, 12, 13]


def test_a_new_column_stops_the_query_and_a_restart_reads_on(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1)
    source = stream(delta, path)
    query = reading.start(source, processingTime="0 seconds")
    query.processAllAvailable()
    delta.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (w INT)")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'v', 5)")
    failure = failure_of(lambda: query.awaitTermination(60), StreamedSchemaChangedError)
    assert failure.getCondition() == "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    assert "w is new (int)" in str(failure)
    failure_of(lambda: reading.run(source), StreamedSchemaStaleError)
    reading.run(stream(delta, path))
    assert reading.rows == [(1, "v"), (2, "v", 5)]


def test_a_renamed_column_stops_the_query(delta: SparkSession, path: str, reading: Reading) -> None:
    columns = "(id BIGINT, v STRING) USING delta"
    delta.sql(f"CREATE TABLE delta.`{path}` {columns} TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'v')")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w")
    failure = failure_of(lambda: reading.run(stream(delta, path, startingVersion=0)), StreamedColumnsRemappedError)
    assert failure.getCondition() == "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"


def test_a_table_made_anew_or_gone(delta: SparkSession, path: str, reading: Reading, tmp_path: Path) -> None:
    put(delta, path, 1)
    reading.run(stream(delta, path))
    Path(path).rename(tmp_path / "moved")
    with pytest.raises(NotADeltaTableError):
        stream(delta, path)
    put(delta, path, 1)
    failure = failure_of(lambda: reading.run(stream(delta, path)), StreamedTableReplacedError)
    assert failure.getCondition() == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


def test_changes_as_a_stream(delta: SparkSession, path: str, reading: Reading) -> None:
    """The table as inserts, then what became of its rows."""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    put(delta, path, 1, 2, 3)
    source = stream(delta, path, readChangeFeed=True)
    reading.run(source)
    delta.sql(f"UPDATE delta.`{path}` SET v = 'w' WHERE id = 1")
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    put(delta, path, 4)
    reading.run(source)
    batch = delta.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(path)
    assert source.columns == batch.columns == ["id", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    assert reading.rows == sorted(map(tuple, batch.collect()))
    with pytest.raises(ChangesStartMissingError):
        delta.read.format("delta").option("readChangeFeed", True).load(path)


def test_changes_that_are_not_recorded(delta: SparkSession, path: str, reading: Reading) -> None:
    put(delta, path, 1)
    failure_of(lambda: reading.run(stream(delta, path, readChangeFeed=True)), ChangesNotRecordedError)


def test_where_a_stream_starts(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1)
    put(delta, path, 2)
    at = DeltaTable.forPath(delta, path).history(1).select(F.col("timestamp").cast("string")).first()[0]
    for number, (option, value, expected) in enumerate(
        (("startingVersion", "1", [2]), ("startingTimestamp", at, [2]), ("startingTimestamp", "2000-01-01", [1, 2]))
    ):
        reading = Reading(tmp_path / str(number))
        reading.run(stream(delta, path, **{option: value}))
        assert reading.ids == expected
    latest = Reading(tmp_path / "latest")
    latest.run(stream(delta, path, startingVersion="latest"))
    put(delta, path, 3)
    latest.run(stream(delta, path, startingVersion="latest"))
    assert latest.ids == [3]


def test_triggers(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Once takes all at once; a continuous one is refused."""
    for number in range(3):
        put(delta, path, number)
    once = Reading(tmp_path / "once")
    once.run(stream(delta, path, maxFilesPerTrigger=1), once=True)
    assert once.sizes == [3]
    continuous = stream(delta, path).writeStream.format("console").trigger(continuous="1 second")
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"(?i)continuous"):
        continuous.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(60)


def test_killed_in_any_batch_each_row_comes_once(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Covers fault F52, the source's part."""
    for number in range(3):
        put(delta, path, number)
    for fail_at in range(4):
        reading = Reading(tmp_path / str(fail_at), fail_at=fail_at)
        source = stream(delta, path, maxFilesPerTrigger=1)
        if fail_at < 3:
            with pytest.raises(StreamingQueryException, match="the process dies"):
                reading.run(source)
        else:
            reading.run(source)
            reading.forget_last_commit()
        reading.run(source)
        assert (reading.ids, reading.sizes) == ([0, 1, 2], [1, 1, 1])


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


def test_refused_by_name(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1)
    for option in ({"versionAsOf": 0}, {"endingVersion": 1}, {"maxFilesPerTrigger": 0}):
        with pytest.raises(InvalidOptionError):
            stream(delta, path, **option)
    with pytest.raises(InvalidOptionError, match="startingVersion"):
        stream(delta, f"{path}@v0")
    with pytest.raises(InvalidOptionError, match="schema"):
        delta.readStream.schema("id long, other int").format("delta").load(path)
    with pytest.raises(NotADeltaTableError):
        stream(delta, str(tmp_path / "nothing"))
