"""`df.writeTo(name)` on Delta tables."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.errors.schema import SchemaMismatchError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def numbers(delta: SparkSession, *ids: int) -> DataFrame:
    return delta.createDataFrame([(id_, id_ % 2) for id_ in ids], "id long, part long")


def ids(delta: SparkSession, name: str) -> list[int]:
    return sorted(row.id for row in delta.table(name).collect())


def test_a_table_is_created_and_written_to(delta: SparkSession, name: str) -> None:
    writer = numbers(delta, 1, 2).writeTo(name).using("delta").partitionedBy("part")
    writer.tableProperty("delta.checkpointInterval", "7").option("delta.appendOnly", "false").create()
    numbers(delta, 3).writeTo(name).append()
    assert ids(delta, name) == [1, 2, 3]
    numbers(delta, 5).writeTo(name).overwritePartitions()
    assert ids(delta, name) == [2, 5], "the rows of the other partition stay"
    detail = DeltaTable.forName(delta, name).detail().collect()[0]
    assert detail.partitionColumns == ["part"]
    assert detail.properties["delta.checkpointInterval"] == "7"
    with pytest.raises(AnalysisException):
        numbers(delta, 9).writeTo(name).using("delta").create()


def test_columns_match_by_name_and_are_cast(delta: SparkSession, name: str) -> None:
    numbers(delta, 1).writeTo(name).using("delta").create()
    numbers(delta, 2).select(F.col("part").cast("int"), "id").writeTo(name).append()
    assert delta.table(name).where("id = 2").collect() == [(2, 0)]
    with pytest.raises(SchemaMismatchError):
        numbers(delta, 3).withColumn("extra", F.lit(1)).writeTo(name).append()
    numbers(delta, 3).withColumn("extra", F.lit(1)).writeTo(name).option("mergeSchema", "true").append()
    assert delta.table(name).columns == ["id", "part", "extra"]


def test_rows_of_a_condition_are_overwritten(delta: SparkSession, name: str) -> None:
    numbers(delta, 1, 2, 3, 4).coalesce(1).writeTo(name).using("delta").create()
    numbers(delta, 13).writeTo(name).overwrite(F.col("id") >= 3)
    assert ids(delta, name) == [1, 2, 13]
    with pytest.raises(ReplaceWhereMismatchError):
        numbers(delta, 0).writeTo(name).overwrite(F.col("id") >= 3)
    numbers(delta, 7).writeTo(name).overwrite(F.lit(True))
    assert ids(delta, name) == [7]
    with pytest.raises(InvalidOptionError, match="replaceWhere"):
        numbers(delta, 7).writeTo(name).option("replaceWhere", "id = 7").append()


def test_a_table_is_replaced(delta: SparkSession, name: str) -> None:
    with pytest.raises(AnalysisException):
        numbers(delta, 1).writeTo(name).using("delta").replace()
    numbers(delta, 1).writeTo(name).using("delta").createOrReplace()
    delta.range(5).writeTo(name).using("delta").replace()
    assert delta.table(name).columns == ["id"]
    assert ids(delta, name) == [0, 1, 2, 3, 4]
    operations = [row.operation for row in DeltaTable.forName(delta, name).history().collect()]
    assert operations == ["REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT"]


def test_what_it_refuses(delta: SparkSession, name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match="bucket"):
        numbers(delta, 1).writeTo(name).using("delta").partitionedBy(F.partitioning.bucket(4, "id")).create()
    assert not delta.catalog.tableExists(name)
