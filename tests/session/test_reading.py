"""`spark.read.format("delta")`, `spark.table` and `spark.sql` on Delta tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.log import VersionNotFoundError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = pytest.mark.spark


def ids(frame: DataFrame) -> list[Any]:
    return sorted(row[0] for row in frame.collect())


@pytest.fixture
def three_versions(delta: SparkSession, path: str) -> str:
    for start in (0, 10, 20):
        delta.range(start, start + 10).write.format("delta").mode("append").save(path)
        time.sleep(0.01)
    return path


def test_version_as_of(delta: SparkSession, three_versions: str) -> None:
    reader = delta.read.option("versionAsOf", 1).format("delta")
    assert reader.load(three_versions).count() == 20
    assert delta.read.format("delta").load(f"{three_versions}@v0").count() == 10
    with pytest.raises(VersionNotFoundError, match="9"):
        delta.read.format("delta").option("versionAsOf", "9").load(three_versions).collect()
    with pytest.raises(InvalidOptionError, match="whole number"):
        delta.read.format("delta").option("versionAsOf", "x").load(three_versions).collect()


@pytest.mark.parametrize("suffix", ["@v0", "@20240131093000000"])
def test_a_folder_whose_name_ends_as_a_version_does(
    delta: SparkSession, path: str, suffix: str, tmp_path: Path
) -> None:
    """Its table is read and written, though its path ends like one with a version."""
    folder = path + suffix
    ten = delta.range(10)
    for _ in range(2):
        ten.write.format("delta").mode("append").save(folder)
    assert delta.read.format("delta").load(folder).count() == 20
    assert delta.read.format("delta").load(f"{folder}@v0").count() == 10
    assert delta.read.format("delta").option("versionAsOf", 0).load(folder).count() == 10
    assert delta.sql(f"SELECT * FROM delta.`{folder}`").count() == 20
    assert delta.sql(f"SELECT * FROM delta.`{folder}@v0`").count() == 10
    assert delta.sql(f"SELECT * FROM delta.`{folder}` VERSION AS OF 0").count() == 10

    # A table of the name before the sign changes nothing of this.
    delta.range(3).write.format("delta").save(path)
    delta.sql(f"INSERT INTO delta.`{folder}` VALUES (77)")
    delta.sql(f"UPDATE delta.`{folder}` SET id = 78 WHERE id = 77")
    delta.range(100, 101).writeTo(f"delta.`{folder}`").append()
    table = DeltaTable.forPath(delta, folder)
    table.delete("id < 10")
    assert ids(table.toDF()) == [78, 100]
    assert table.history(1).first().version == 5
    assert DeltaTable.isDeltaTable(delta, folder)

    copy = f"{tmp_path}/copy{suffix}"
    stream = delta.readStream.format("delta").option("ignoreDeletes", "true").load(folder)
    query = stream.writeStream.format("delta").option("checkpointLocation", f"{tmp_path}/checkpoint")
    for _ in range(2):
        assert query.trigger(availableNow=True).start(copy).awaitTermination(120)
        delta.range(5, 6).write.format("delta").mode("append").save(folder)
    assert ids(delta.read.format("delta").load(copy)) == [5, 78, 100]
    assert ids(delta.read.format("delta").load(path)) == [0, 1, 2]


def test_timestamp_as_of(delta: SparkSession, three_versions: str) -> None:
    times = {row.version: row.timestamp for row in DeltaTable.forPath(delta, three_versions).history().collect()}
    for version, at in times.items():
        text = at.strftime("%Y-%m-%d %H:%M:%S.%f")
        of_time = delta.read.format("delta").option("timestampAsOf", text).load(three_versions)
        assert of_time.count() == 10 * (version + 1)
    with pytest.raises(InvalidOptionError, match="timestamp"):
        delta.read.format("delta").option("timestampAsOf", "yesterday-ish").load(three_versions).collect()
    with pytest.raises(InvalidOptionError, match="either"):
        delta.read.format("delta").options(versionAsOf=1, timestampAsOf="2024-01-01").load(three_versions).collect()


def test_sql_timestamp_as_of(delta: SparkSession, three_versions: str) -> None:
    first = DeltaTable.forPath(delta, three_versions).history().collect()[-1].timestamp
    text = first.strftime("%Y-%m-%d %H:%M:%S.%f")
    query = f"SELECT count(*) FROM delta.`{three_versions}` TIMESTAMP AS OF '{text}'"
    assert delta.sql(query).first()[0] == 10
    assert delta.sql(query.replace(f"'{text}'", f"CAST('{text}' AS TIMESTAMP)")).first()[0] == 10


def test_other_formats_are_left_alone(delta: SparkSession, path: str) -> None:
    delta.range(3).write.parquet(path)
    assert delta.read.parquet(path).count() == 3
    assert delta.read.format("parquet").load(path).count() == 3


def test_what_is_no_delta_table(delta: SparkSession, path: str) -> None:
    with pytest.raises(NotADeltaTableError, match="not a Delta table"):
        delta.read.format("delta").load(path).collect()
    with pytest.raises(NotADeltaTableError):
        DeltaTable.forPath(delta, path)
    assert not DeltaTable.isDeltaTable(delta, path)
    delta.range(1).createOrReplaceTempView("some_view")
    with pytest.raises(NotADeltaTableError, match="view"):
        DeltaTable.forName(delta, "some_view")


@classic
def test_joins_skip_files_of_both_sides(native: SparkSession, path: str) -> None:
    """Files are chosen inside Spark's planner, so a filter behind a join counts too."""
    delta = native
    for start in (0, 1000, 2000):
        delta.range(start, start + 10, 1, 1).write.format("delta").mode("append").save(path)
    table = delta.read.format("delta").load(path)
    joined = table.alias("a").join(table.alias("b"), "id").where("id = 1005")
    assert joined.collect() == [(1005,)]
    assert _files_of_scans(joined) == [1, 1]


def _files_of_scans(frame: DataFrame) -> list[int]:
    """How many files each scan of the plan selected."""
    plan = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    return [plan.apply(i).selectedPartitions().totalNumberOfFiles() for i in range(plan.size())]


@classic
def test_every_object_of_a_session_knows_delta(native: SparkSession, three_versions: str) -> None:
    """PySpark makes a new object for the active session at each call."""
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active.sql(f"SELECT count(*) FROM delta.`{three_versions}` VERSION AS OF 0").first()[0] == 10
