"""`save`, `saveAsTable`, `insertInto` and `writeTo`, where Spark itself knows Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import (
    HistoricalTargetError,
    InvalidOptionError,
    UnsupportedOperationError,
)
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.errors.dml import FilterOverwriteError, PartitionOverwriteError
from anabranch.errors.schema import SchemaMismatchError
from anabranch.errors.tables import TableLocationMismatchError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def numbers(delta: SparkSession, *ids: int) -> DataFrame:
    return delta.createDataFrame([(id_, id_ % 2) for id_ in ids], "id long, part long")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def load(delta: SparkSession, path: str) -> DataFrame:
    return delta.read.format("delta").load(path)


def last(table: DeltaTable) -> Any:
    return table.history(1).first()


def test_options_of_save(delta: SparkSession, path: str) -> None:
    write = numbers(delta, *range(10)).coalesce(1).write.format("delta").clusterBy("id")
    write.options(userMetadata="nightly", maxRecordsPerFile=5, txnAppId="a", txnVersion=1).save(path)
    table = DeltaTable.forPath(delta, path)
    assert (last(table).userMetadata, table.detail().collect()[0].numFiles) == ("nightly", 2)
    assert table.detail().collect()[0].clusteringColumns == ["id"]
    numbers(delta, 1).write.format("delta").mode("append").options(txnAppId="a", txnVersion=1).save(path)
    assert len(ids(load(delta, path))) == 10
    wider = numbers(delta, 11).withColumn("extra", F.lit(1))
    with pytest.raises(SchemaMismatchError, match="extra"):
        wider.write.format("delta").mode("append").save(path)
    wider.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert load(delta, path).columns == ["id", "part", "extra"]
    numbers(delta, 1).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert load(delta, path).columns == ["id", "part"]


def test_what_an_overwrite_replaces(delta: SparkSession, path: str) -> None:
    numbers(delta, *range(6)).write.format("delta").partitionBy("part").save(path)
    overwrite = numbers(delta, 11).write.format("delta").mode("overwrite")
    overwrite.option("partitionOverwriteMode", "dynamic").save(path)
    assert ids(load(delta, path)) == [0, 2, 4, 11]
    numbers(delta, 2).write.format("delta").mode("overwrite").option("replaceWhere", "part = 0 AND id < 4").save(path)
    assert ids(load(delta, path)) == [2, 4, 11]
    with pytest.raises(ReplaceWhereMismatchError):
        numbers(delta, 1).write.format("delta").mode("overwrite").option("replaceWhere", "part = 0").save(path)
    using = numbers(delta, 4, 6).write.format("delta").mode("overwrite").option("replaceUsing", "id")
    using.save(path)
    assert ids(load(delta, path)) == [2, 4, 6, 11]
    on = numbers(delta, 8).alias("s").write.format("delta").mode("overwrite").option("targetAlias", "t")
    on.option("replaceOn", "t.id = s.id - 2").save(path)
    assert ids(load(delta, path)) == [2, 4, 8, 11]


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


def test_a_declared_schema_is_checked_for_readers_alone(delta: SparkSession, path: str) -> None:
    numbers(delta, 1).write.format("delta").save(path)
    with pytest.raises(InvalidOptionError, match="schema"):
        delta.read.format("delta").schema("id int").load(path)
    assert delta.read.format("delta").schema("id long, part long").load(path).count() == 1


def test_save_as_table_makes_properties_partitions_and_clusters(delta: SparkSession, name: str) -> None:
    numbers(delta, 1).write.format("delta").option("delta.appendOnly", "true").clusterBy("id").saveAsTable(name)
    detail = DeltaTable.forName(delta, name).detail().collect()[0]
    assert (detail.properties["delta.appendOnly"], detail.clusteringColumns) == ("true", ["id"])


def test_a_table_that_is_replaced_stays_where_it_is(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Bug B5: another path was ignored, and the old place overwritten."""
    numbers(delta, 1).write.format("delta").saveAsTable(name)
    elsewhere = str(tmp_path / "elsewhere")
    with pytest.raises(TableLocationMismatchError, match="elsewhere"):
        numbers(delta, 2).write.format("delta").mode("overwrite").option("path", elsewhere).saveAsTable(name)
    with pytest.raises(TableLocationMismatchError):
        delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta LOCATION '{elsewhere}' AS SELECT 1 AS id")
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


def test_write_to(delta: SparkSession, name: str) -> None:
    writer = numbers(delta, 1, 2).writeTo(name).using("delta").partitionedBy(F.col("part"))
    writer.tableProperty("delta.checkpointInterval", "7").option("delta.appendOnly", "false").create()
    properties = DeltaTable.forName(delta, name).detail().collect()[0].properties
    assert (properties["delta.checkpointInterval"], properties["delta.appendOnly"]) == ("7", "false")
    numbers(delta, 3).writeTo(name).append()
    numbers(delta, 5).writeTo(name).overwritePartitions()
    assert ids(delta.table(name)) == [2, 5]
    numbers(delta, 7).writeTo(name).overwrite(F.col("id") >= 5)
    assert ids(delta.table(name)) == [2, 7]
    with pytest.raises(ReplaceWhereMismatchError):
        numbers(delta, 0).writeTo(name).overwrite(F.col("id") >= 3)
    with pytest.raises(AnalysisException):
        numbers(delta, 9).writeTo(name).using("delta").create()
    numbers(delta, 9).writeTo(name).using("delta").replace()
    assert ids(delta.table(name)) == [9]
    with pytest.raises(UnsupportedOperationError):
        numbers(delta, 1).writeTo(name).using("delta").partitionedBy(F.partitioning.bucket(4, "id")).createOrReplace()


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
def test_partitions_by_columns_of_odd_names(delta: SparkSession, name: str, path: str, column: str) -> None:
    """The table is named by path and by name."""
    plain = column[1:-1]
    frame = delta.range(4).selectExpr("id", f"id % 2 AS {column}")
    mapped = frame.write.format("delta").option("delta.columnMapping.mode", "name")
    mapped.partitionBy(column).save(path)
    for _ in range(2):
        frame.write.format("delta").mode("append").save(path)
    detail = delta.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert (detail.partitionColumns, delta.read.format("delta").load(path).where(f"{column} = 1").count()) == (
        [plain],
        6,
    )
    mapped.partitionBy(column).saveAsTable(name)
    frame.write.format("delta").mode("append").partitionBy(column).saveAsTable(name)
    assert delta.sql(f"DESCRIBE DETAIL {name}").first().partitionColumns == [plain]
    assert delta.sql(f"DELETE FROM {name} WHERE {column} = 0").first() == (4,)
