"""`save`, `saveAsTable`, `insertInto` and `writeTo`, where Spark itself knows Delta."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import HistoricalTargetError, InvalidOptionError
from anabranch.errors.dml import FilterOverwriteError, PartitionOverwriteError
from anabranch.errors.tables import TableLocationMismatchError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def numbers(delta: SparkSession, *ids: int) -> DataFrame:
    return delta.createDataFrame([(id_, id_ % 2) for id_ in ids], "id long, part long")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def load(delta: SparkSession, path: str) -> DataFrame:
    return delta.read.format("delta").load(path)


def test_save_clusters(delta: SparkSession, path: str) -> None:
    numbers(delta, *range(10)).write.format("delta").clusterBy("id").save(path)
    assert DeltaTable.forPath(delta, path).detail().collect()[0].clusteringColumns == ["id"]


def test_a_path_with_a_version_is_not_written(delta: SparkSession, path: str) -> None:
    """Bug B39."""
    numbers(delta, 1).write.format("delta").save(path)
    with pytest.raises(InvalidOptionError, match="old version"):
        numbers(delta, 1).write.format("delta").mode("append").save(f"{path}@v0")
    with pytest.raises(InvalidOptionError, match="path"):
        numbers(delta, 1).write.format("delta").mode("append").save()
    numbers(delta, 2).write.format("delta").mode("append").save(path)
    with pytest.raises(HistoricalTargetError, match="version 0"):
        delta.sql(f"INSERT INTO delta.`{path}@v0` VALUES (1, 1)")
    with pytest.raises(HistoricalTargetError, match="version 0"):
        numbers(delta, 1).writeTo(f"delta.`{path}@v0`").append()
    assert ids(load(delta, path)) == [1, 2]


def test_save_as_table_makes_properties_partitions_and_clusters(delta: SparkSession, name: str) -> None:
    numbers(delta, 1).write.format("delta").option("delta.appendOnly", "true").clusterBy("id").saveAsTable(name)
    detail = DeltaTable.forName(delta, name).detail().collect()[0]
    assert (detail.properties["delta.appendOnly"], detail.clusteringColumns) == ("true", ["id"])


def test_a_table_that_is_replaced_stays_where_it_is(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Bug B5: another path was ignored, and the old place overwritten. Other calls are in `tests/differential/programs/frames.txt`."""
    numbers(delta, 1).write.format("delta").saveAsTable(name)
    elsewhere = str(tmp_path / "elsewhere")
    with pytest.raises(TableLocationMismatchError, match="elsewhere"):
        numbers(delta, 2).write.format("delta").mode("overwrite").option("path", elsewhere).saveAsTable(name)
    assert ids(delta.table(name)) == [1]
    assert not Path(elsewhere).exists()
    location = str(DeltaTable.forName(delta, name).detail().collect()[0].location).removeprefix("file:")
    numbers(delta, 3).write.format("delta").mode("overwrite").option("path", location).saveAsTable(name)
    assert ids(delta.table(name)) == [3]


def test_save_as_table_over_a_table_of_another_format(delta: SparkSession, name: str) -> None:
    """Bug B47: overwrite replaces it, ignore leaves it, and so does CREATE TABLE IF NOT EXISTS."""
    delta.sql(f"CREATE TABLE {name} USING parquet AS SELECT 1 AS a")
    numbers(delta, 1).write.format("delta").mode("ignore").saveAsTable(name)
    delta.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta AS SELECT 2 AS a")
    delta.sql(f"CREATE TABLE IF NOT EXISTS {name} (b INT) USING delta")
    assert delta.table(name).collect() == [(1,)]
    numbers(delta, 1, 2).write.format("delta").mode("overwrite").partitionBy("part").saveAsTable(name)
    assert ids(delta.table(name)) == [1, 2]
    assert DeltaTable.forName(delta, name).detail().collect()[0].partitionColumns == ["part"]


def test_the_call_of_write_to_alone_says_which_rows_go(delta: SparkSession, name: str) -> None:
    numbers(delta, 1).writeTo(name).using("delta").create()
    with pytest.raises(InvalidOptionError, match="replaceWhere"):
        numbers(delta, 7).writeTo(name).option("replaceWhere", "id = 7").append()
    with pytest.raises(FilterOverwriteError):
        numbers(delta, 7).writeTo(name).option("replaceUsing", "id").overwrite(F.lit(True))
    with pytest.raises(PartitionOverwriteError):
        numbers(delta, 7).writeTo(name).option("replaceUsing", "id").overwritePartitions()
    assert ids(delta.table(name)) == [1]


ODD = ["`a b`", "`a.b`", "`ü=?%`", "`A,B`"]
"""Names of columns as Spark reads them in `partitionBy`."""


@pytest.mark.parametrize("column", ODD)
def test_partitions_by_columns_of_odd_names(delta: SparkSession, path: str, column: str) -> None:
    """The table is named by its path; by name it is in `tests/differential/programs/frames.txt`."""
    frame = delta.range(4).selectExpr("id", f"id % 2 AS {column}")
    frame.write.format("delta").option("delta.columnMapping.mode", "name").partitionBy(column).save(path)
    frame.write.format("delta").mode("append").save(path)
    detail = delta.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert detail.partitionColumns == [column[1:-1]]
    assert delta.read.format("delta").load(path).where(f"{column} = 1").count() == 4
