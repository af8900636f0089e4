"""Streams from tables on sessions of every kind. Positions and files: `test_source.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.base import DeltaError
from anabranch.errors.dml import ChangesNotRecordedError, ChangesStartMissingError
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
from streaming.stream_reading import Reading, put, stream
from streaming.streams import finished, last, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("active")]


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path / "checkpoint")


def failure_of(run: Callable[[], Any], error: type[DeltaError], *words: str) -> None:
    """The query fails with `error`, as its cause and by its text."""
    with pytest.raises(StreamingQueryException) as raised:
        run()
    text = str(raised.value)
    for word in (error.condition, *words):
        assert word in text, text[:4000]
    assert isinstance(raised.value.__cause__, error)


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
    assert len(reading.offsets()) == 3
    positions = [(1, 0, True), (2, -1, False), (3, -1, False)]
    offsets = [json.loads(offset) for offset in reading.offsets()]
    assert offsets == [
        {
            "sourceVersion": 1,
            "reservoirId": offsets[0]["reservoirId"],
            "reservoirVersion": version,
            "index": index,
            "isStartingVersion": snapshot,
        }
        for version, index, snapshot in positions
    ]
    # delta-spark compares positions as text.
    assert reading.offsets() == [json.dumps(offset, separators=(",", ":")) for offset in offsets]
    assert query.recentProgress[0]["sources"][0]["description"] == f"DeltaSource[{path}]"


def test_by_name_and_in_sql(delta: SparkSession, name: str, tmp_path: Path) -> None:
    delta.sql(f"CREATE TABLE {name} (id BIGINT, c CHAR(3), p INT) USING delta PARTITIONED BY (p)")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'a', 7), (2, 'b', NULL)")
    expected = sorted(map(tuple, delta.table(name).where("id = 1").collect()))
    sources = [delta.readStream.table(name), delta.readStream.format("delta").table(name)]
    assert all(source.isStreaming for source in sources)
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


def test_paths_left_out_wide_rows_and_joins(delta: SparkSession, path: str, reading: Reading) -> None:
    """Rows that Spark reads one by one are hidden by a join; a table that the stream is joined with is read as it is."""
    wide = [f"id AS c{number}" for number in range(120)]
    frame = delta.range(0, 6, 1, 1).selectExpr("id", "id % 2 AS p", *wide)
    frame.write.format("delta").partitionBy("p").save(path)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    table = delta.read.format("delta").load(path).select("id", F.col("c7").alias("known"))
    source = stream(delta, path, excludeRegex="^p=0/").join(table, "id").select("id", "c119", "known")
    query = reading.run(source)
    assert reading.rows == [(1, 1, 1), (5, 5, 5)]
    assert query.exception() is None


def test_a_table_into_itself(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Its own appends come back as later batches; here, those that are available at the start."""
    put(delta, path, 1)
    writer = stream(delta, path).select((F.col("id") + 1).alias("id"), "v").writeStream.format("delta")
    finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(path))
    assert rows(delta, path) == [(1, "v"), (2, "v")]


def test_errors_of_deletes_and_changes_have_delta_s_conditions(delta: SparkSession, path: str, tmp_path: Path) -> None:
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

    assert StreamedRowsDeletedError.condition == "DELTA_SOURCE_IGNORE_DELETE"
    failure_of(read, StreamedRowsDeletedError, "Version 2")
    assert StreamedRowsChangedError.condition == "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
    failure_of(lambda: read(ignoreDeletes=True), StreamedRowsChangedError, "Version 3", "(DELETE)")
    assert read(skipChangeCommits=True) == [1, 2, 3, 4, 5]
    assert read(ignoreChanges=True) == [1, 2, 2, 3, 3, 4, 5]


@pytest.mark.long
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
    assert StreamedSchemaChangedError.condition == "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    failure_of(lambda: query.awaitTermination(60), StreamedSchemaChangedError, "w is new (int)")
    failure_of(lambda: reading.run(source), StreamedSchemaStaleError)
    reading.run(stream(delta, path))
    assert reading.rows == [(1, "v"), (2, "v", 5)]


def test_a_renamed_column_stops_the_query(delta: SparkSession, path: str, reading: Reading) -> None:
    columns = "(id BIGINT, v STRING) USING delta"
    delta.sql(f"CREATE TABLE delta.`{path}` {columns} TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'v')")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w")
    failure_of(lambda: reading.run(stream(delta, path, startingVersion=0)), StreamedColumnsRemappedError)
    assert StreamedColumnsRemappedError.condition == "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"


def test_a_recreated_or_dropped_table(delta: SparkSession, path: str, reading: Reading, tmp_path: Path) -> None:
    put(delta, path, 1)
    reading.run(stream(delta, path))
    Path(path).rename(tmp_path / "moved")
    with pytest.raises(NotADeltaTableError):
        stream(delta, path)
    put(delta, path, 1)
    assert StreamedTableReplacedError.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    failure_of(lambda: reading.run(stream(delta, path)), StreamedTableReplacedError)


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
    """Times are as Spark reads them, in the session's zone."""
    put(delta, path, 1)
    put(delta, path, 2)
    at = DeltaTable.forPath(delta, path).history(1).select(F.col("timestamp").cast("string")).first()[0]
    reading = Reading(tmp_path / "timestamp")
    reading.run(stream(delta, path, startingTimestamp=at))
    assert reading.ids == [2]
    with pytest.raises((InvalidOptionError, StreamingQueryException), match="startingTimestamp"):
        Reading(tmp_path / "soon").run(stream(delta, path, startingTimestamp="soon"))
    latest = Reading(tmp_path / "latest")
    latest.run(stream(delta, path, startingVersion="latest"))
    put(delta, path, 3)
    latest.run(stream(delta, path, startingVersion="latest"))
    assert latest.ids == [3]


def test_versions_and_early_times_to_start_with(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1)
    put(delta, path, 2)
    for option, value, expected in (("startingVersion", "1", [2]), ("startingTimestamp", "2000-01-01", [1, 2])):
        reading = Reading(tmp_path / option)
        reading.run(stream(delta, path, **{option: value}))
        assert reading.ids == expected


def test_triggers(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Once takes all at once; a continuous one is refused."""
    for number in range(3):
        put(delta, path, number)
    once = Reading(tmp_path / "once")
    once.run(stream(delta, path, maxFilesPerTrigger=1), once=True)
    assert once.sizes == [3]
    continuous = stream(delta, path).writeStream.format("console").trigger(continuous="1 second")
    refusals = (AnalysisException, StreamingQueryException, UnsupportedOperationException)
    with pytest.raises(refusals, match=r"(?i)continuous"):
        continuous.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(60)


@pytest.mark.long
def test_killed_in_any_batch_each_row_comes_once(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Covers fault F52, the source's part."""
    for number in range(3):
        put(delta, path, number)
    batches = [1, 1, 1]
    behind = len(batches)
    for fail_at in range(behind + 1):
        reading = Reading(tmp_path / str(fail_at))
        source = stream(delta, path, maxFilesPerTrigger=1)
        if fail_at < behind:
            reading.fail_at(fail_at)
            with pytest.raises(StreamingQueryException, match="the process dies"):
                reading.run(source)
        else:
            reading.run(source)
            reading.forget_last_commit()
        put(delta, path, 3)
        delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
        reading.run(stream(delta, path, maxFilesPerTrigger=1, skipChangeCommits=True))
        assert (reading.ids[:3], reading.sizes[:behind]) == ([0, 1, 2], batches)


def test_refused_by_name(delta: SparkSession, path: str, tmp_path: Path) -> None:
    put(delta, path, 1)
    for option in ({"versionAsOf": 0}, {"endingVersion": 1}, {"maxFilesPerTrigger": 0}):
        with pytest.raises(InvalidOptionError):
            stream(delta, path, **option)
    with pytest.raises(InvalidOptionError, match="startingVersion"):
        stream(delta, f"{path}@v0")
    with pytest.raises(InvalidOptionError, match="schema"):
        delta.readStream.schema("id long, other int").format("delta").load(path)
    with pytest.raises(InvalidOptionError, match="schema"):
        delta.readStream.schema(StructType.fromDDL("id long")).format("delta").load(path)
    assert delta.readStream.schema("id long, v string").format("delta").load(path).isStreaming
    with pytest.raises(NotADeltaTableError):
        stream(delta, str(tmp_path / "nothing"))
