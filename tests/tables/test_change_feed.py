"""The change data feed: what statements write for it, and what is read of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from anabranch.commands.dml.update import prepare_update
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import (
    ChangesBoundTwiceError,
    ChangesDataSchemaError,
    ChangesNotRecordedError,
    ChangesRangeError,
    ChangesSchemaError,
    ChangesStartAfterLatestError,
    ChangesStartMissingError,
)
from anabranch.errors.log import TimestampAfterLatestCommitError, TimestampEarlierThanFirstCommitError
from anabranch.errors.schema import ReservedColumnsError
from anabranch.tables import DeltaTable
from tables.changes_read import changes_of, feed, replayed
from tables.made_tables import numbered_table
from tables.played_changes import Played, change_files, merge
from tables.statements import delete, update

pytestmark = pytest.mark.spark

OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


@pytest.fixture(scope="module")
def changed(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A partitioned table with vectors, four versions old."""
    path = str(tmp_path_factory.mktemp("changed") / "a table")
    table = numbered_table(delta, path, rows=4, by=("part",), enableChangeDataFeed="true")
    update(table, {"n": "-n", "part": "0"}, "id = 1")
    delete(table, "id = 2")
    merge(delta, table, [0, 3, 7])
    return path


def test_every_change_of_every_row(delta: SparkSession, changed: str) -> None:
    assert changes_of(feed(delta, changed)) == [
        *[(id_, id_, id_ % 2, "insert", 0) for id_ in range(4)],
        (1, -1, 0, "update_postimage", 1),
        (1, 1, 1, "update_preimage", 1),
        (2, 2, 0, "delete", 2),
        (3, 3, 1, "delete", 3),
        (7, 0, 1, "insert", 3),
        (0, -1, 0, "update_postimage", 3),
        (0, 0, 0, "update_preimage", 3),
    ]


def test_ranges(delta: SparkSession, changed: str) -> None:
    """Both ends are included; an end that is not there yet is the newest."""
    assert [row[0] for row in changes_of(feed(delta, changed, startingVersion=1, endingVersion=2))] == [1, 1, 2]
    times = {row.version: row.timestamp for row in DeltaTable.forPath(delta, changed).history().collect()}
    frame = feed(delta, changed, startingTimestamp=f"{times[2]:%Y-%m-%d %H:%M:%S.%f}", endingVersion=99)
    rows = {(row._commit_version, row._commit_timestamp) for row in frame.collect()}
    assert rows == {(2, times[2]), (3, times[3])}


def test_filters_and_columns(delta: SparkSession, changed: str) -> None:
    """They are on the feed's own columns as on the table's; the older option; a frame like any other."""
    frame = delta.read.format("delta").option("readChangeData", "true").option("startingVersion", 0).load(changed)
    assert frame.columns == ["id", "n", "part", "_change_type", "_commit_version", "_commit_timestamp"]
    assert frame.where("part = 1 AND _change_type = 'insert' AND _commit_version > 0").select("id").collect() == [(7,)]
    by_change = {row._change_type: row["count"] for row in frame.groupBy("_change_type").count().collect()}
    assert by_change == {"insert": 5, "delete": 2, "update_preimage": 2, "update_postimage": 2}


def test_invalid_arguments(delta: SparkSession, changed: str) -> None:
    for error, options in (
        (ChangesStartMissingError, {"endingVersion": 1}),
        (ChangesBoundTwiceError, {"startingVersion": 1, "startingTimestamp": "2020-01-01"}),
        (ChangesRangeError, {"startingVersion": 3, "endingVersion": 2}),
        (ChangesStartAfterLatestError, {"startingVersion": 9}),
        (TimestampAfterLatestCommitError, {"startingTimestamp": "2999-01-01"}),
        (TimestampAfterLatestCommitError, {"startingVersion": 0, "endingTimestamp": "2999-01-01"}),
        (TimestampEarlierThanFirstCommitError, {"startingVersion": 0, "endingTimestamp": "2000-01-01"}),
        (InvalidOptionError, {"startingVersion": "latest"}),
        (InvalidOptionError, {"startingTimestamp": "soon"}),
        (InvalidOptionError, {"startingVersion": 0, "versionAsOf": 1}),
        (InvalidOptionError, {"startingVersion": 0, "readChangeFeed": "maybe"}),
    ):
        with pytest.raises(error):
            feed(delta, changed, **options).collect()
    delta.conf.set(OUT_OF_RANGE, "true")
    try:
        assert feed(delta, changed, startingVersion=9).collect() == []
        assert feed(delta, changed, startingTimestamp="2999-01-01").columns[:3] == ["id", "n", "part"]
        assert feed(delta, changed, startingVersion=2, endingTimestamp="2999-01-01").count() == 5
    finally:
        delta.conf.unset(OUT_OF_RANGE)


def test_versions_without_a_feed(delta: SparkSession, path: str) -> None:
    """The feed lacks changes made while it was off, and a column with a name of the feed's own is refused."""
    numbered_table(delta, path, rows=2)
    table = f"delta.`{path}`"
    for value in ("true", "false"):
        delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{value}')")
        if value == "true":
            with pytest.raises(ReservedColumnsError):
                delta.sql(f"ALTER TABLE {table} ADD COLUMN _change_type STRING")
    for start in (0, 1, 2):
        with pytest.raises(ChangesNotRecordedError) as refused:
            feed(delta, path, startingVersion=start).collect()
        assert refused.value.version == (2 if start else 0)
    assert feed(delta, path, startingVersion=1, endingVersion=1).collect() == []


def test_columns_that_changed(delta: SparkSession, path: str) -> None:
    """Under column mapping the end of the range names the columns, and no range goes over a rename."""
    table_ref = numbered_table(
        delta, path, rows=2, enableChangeDataFeed="true", enableTypeWidening="true", **{"columnMapping.mode": "id"}
    )
    table = f"delta.`{path}`"
    delta.sql(f"ALTER TABLE {table} ADD COLUMN small SMALLINT")
    delta.sql(f"INSERT INTO {table} VALUES (2, 2, 0, 7)")
    update(table_ref, {"small": "8"}, "id = 2")
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN small TYPE INT")
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN n TO m")
    widened = feed(delta, path, startingVersion=0, endingVersion=4)
    assert dict(widened.dtypes)["small"] == "int"
    assert changes_of(widened) == [
        (0, 0, 0, None, "insert", 0),
        (1, 1, 1, None, "insert", 0),
        (2, 2, 0, 7, "insert", 2),
        (2, 2, 0, 8, "update_postimage", 3),
        (2, 2, 0, 7, "update_preimage", 3),
    ]
    with pytest.raises(ChangesSchemaError, match="column m was called n") as refused:
        feed(delta, path, startingVersion=1).collect()
    assert (refused.value.version, refused.value.read_version) == (1, 5)


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_rows_removed_by_what_undoes_a_change_of_columns(delta: SparkSession, path: str, mapping: str) -> None:
    """Covers bug B111: a RESTORE that undoes a widening removes rows that the narrow column cannot hold; so does an overwrite
    that gives a column another type. From the next version on the feed is read; a dropped column is no problem."""
    properties = {"enableChangeDataFeed": "true", "enableTypeWidening": "true", "columnMapping.mode": mapping}
    numbered_table(delta, path, rows=2, **properties)
    table = f"delta.`{path}`"
    delta.sql(f"ALTER TABLE {table} ADD COLUMN small SMALLINT")
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN small TYPE INT")
    delta.sql(f"INSERT INTO {table} VALUES (2, 2, 0, 5000000)")
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    refused = []
    for end in ({}, {"endingVersion": 4}):
        with pytest.raises(ChangesDataSchemaError, match="small was of type int") as raised:
            feed(delta, path, startingVersion=4, **end).collect()
        refused.append((raised.value.version, raised.value.read_version))
    assert refused == [(4, 4), (4, 4)]
    with pytest.raises(PySparkException, match="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"):
        delta.sql(f"SELECT * FROM table_changes_by_path('{path}', 4)").collect()
    stream = delta.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "4").load(path)
    query = (
        stream.writeStream.format("noop").option("checkpointLocation", f"{path} checkpoint").trigger(availableNow=True)
    )
    with pytest.raises(StreamingQueryException, match="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"):
        query.start().awaitTermination()
    delta.sql(f"INSERT INTO {table} VALUES (3, 3, 0, 7)")
    assert changes_of(feed(delta, path, startingVersion=5)) == [(3, 3, 0, 7, "insert", 5)]
    if mapping == "none":
        shrunk = delta.sql("SELECT 9L AS id, 9L AS n, 'text' AS small")
        shrunk.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        with pytest.raises(ChangesDataSchemaError, match="small was of type smallint"):
            feed(delta, path, startingVersion=6).collect()
        shrunk.drop("n").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        assert sorted(row[:3] for row in feed(delta, path, startingVersion=7).collect()) == [
            (9, "text", "delete"),
            (9, "text", "insert"),
        ]


def test_merge_without_updates(delta: SparkSession, path: str) -> None:
    """Rows that many rows of the source match are deleted once, and in the feed once."""
    table = numbered_table(delta, path, rows=4, enableChangeDataFeed="true", enableDeletionVectors="false")
    source = delta.createDataFrame([(1,), (1,), (2,)], "id long").alias("s")
    DeltaTable.forPath(delta, path).alias("t").merge(source, "t.id = s.id").whenMatchedDelete().execute()
    assert changes_of(feed(delta, path, startingVersion=1)) == [(1, 1, 1, "delete", 1), (2, 2, 0, "delete", 1)]
    written = change_files(table)
    assert all(file.path.startswith("_change_data/") and not file.data_change for file in written)
    (metrics,) = [row.operationMetrics for row in DeltaTable.forPath(delta, path).history(1).collect()]
    assert metrics["numTargetChangeFilesAdded"] == str(len(written)) != "0"


def test_a_statement_that_ends_between_its_change_files_and_its_commit(delta: SparkSession, path: str) -> None:
    """Covers fault F12: the files are in no version's feed, VACUUM removes them, and the next statement writes its own."""
    table = numbered_table(delta, path, rows=4, enableChangeDataFeed="true")
    with prepare_update(table, {"n": "-n"}, "id > 1"):
        left = list(Path(path, "_change_data").rglob("*.parquet"))
    assert left
    before = changes_of(feed(delta, path))
    assert {version for *_, version in before} == {0}
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        DeltaTable.forPath(delta, path).vacuum(0)
    finally:
        delta.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert not any(path.exists() for path in left)
    version = update(table, {"n": "-n"}, "id = 1").committed
    assert version is not None
    assert changes_of(feed(delta, path, startingVersion=version.version)) == [
        (1, -1, 1, "update_postimage", version.version),
        (1, 1, 1, "update_preimage", version.version),
    ]
    assert changes_of(feed(delta, path, startingVersion=0, endingVersion=0)) == before


Record = Callable[[str, object], None]


def test_replaying_the_feed_gives_every_version(delta: SparkSession, path: str, record_property: Record) -> None:
    """Statements in random order, some of them overtaken by others. Covers race 82 on Spark.

    The feed of a commit that lost and was fitted behind the winners has its own rows and no others.
    """
    record_property("told", replay(delta, path, vectors=True))


def test_replaying_the_feed_of_rewritten_files(native: SparkSession, path: str, record_property: Record) -> None:
    """The same without deletion vectors; another engine reads the same feed."""
    record_property("told", replay(native, path, vectors=False))
    assert by_delta_rs(path) == changes_of(feed(native, path))


def replay(delta: SparkSession, path: str, *, vectors: bool, seed: int = 1) -> str:
    """Play with a table, and compare its feed at every version with what should be there."""
    enabled = {"enableChangeDataFeed": "true", "enableDeletionVectors": str(vectors).lower()}
    table = numbered_table(delta, path, by=("part",), checkpointInterval="3", **enabled)
    played = Played(delta, table, random.Random(f"{seed} {vectors}"))
    # Without vectors two changes of one file are in each other's way, and OPTIMIZE in everybody's.
    steps: list[Callable[[], None]] = [
        lambda: played.update(0, behind=lambda: played.delete(0 if vectors else 1)),
        played.merge,
        lambda: played.delete(1, behind=played.optimize if vectors else played.append),
        played.overwrite,
    ]
    played.chance.shuffle(steps)
    for step in steps:
        step()
    changes = changes_of(feed(delta, path))
    for version, rows in enumerate(played.versions):
        assert replayed(changes, upto=version) == rows, (seed, version)
    assert Counter(map(tuple, delta.read.format("delta").load(path).collect())) == played.versions[-1]
    return f"a feed of {len(played.versions)} versions, {len(changes)} changes, seed {seed}"


def by_delta_rs(path: str) -> list[tuple[Any, ...]]:
    """The feed as another engine reads it; it does not look at vectors."""
    rows = pa.table(deltalake.DeltaTable(path).load_cdf(0).read_all()).to_pylist()
    names = ("id", "n", "part", "_change_type", "_commit_version")
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: (row[-1], row[-2], str(row)))


def test_a_feed_that_delta_rs_wrote(delta: SparkSession, path: str) -> None:
    table = pa.table({"id": [1, 2, 3], "n": [1, 2, 3], "part": [0, 0, 1]})
    properties = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, table, configuration=properties, partition_by=["part"])
    theirs = deltalake.DeltaTable(path)
    theirs.update(updates={"n": "n + 10"}, predicate="id = 1")
    theirs.delete("id = 2")
    changes = changes_of(feed(delta, path))
    assert changes == by_delta_rs(path)
    assert changes[3:] == [
        (1, 11, 0, "update_postimage", 1),
        (1, 1, 0, "update_preimage", 1),
        (2, 2, 0, "delete", 2),
    ]


def test_old_files_and_new_ones(delta: SparkSession, path: str) -> None:
    """Copy on write: the rows that stayed are not in the feed, those of whole removed files are; partitions are in folders."""
    table = numbered_table(
        delta, path, rows=6, by=("part",), enableChangeDataFeed="true", enableDeletionVectors="false"
    )
    delete(table, "id = 1 OR part = 0")
    assert [row[0] for row in changes_of(feed(delta, path, startingVersion=1))] == [0, 1, 2, 4]
    assert sorted(folder.name for folder in Path(path, "_change_data").iterdir() if folder.is_dir()) == [
        "part=0",
        "part=1",
    ]
    delete(table, "part = 1")
    assert change_files(table) == []
    assert [row[:1] + row[-2:] for row in changes_of(feed(delta, path, startingVersion=2))] == [
        (3, "delete", 2),
        (5, "delete", 2),
    ]
