"""`clusterBy` of writers into tables that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.alterations import ClusteringMismatchError, ClusteringOfPartitionsError
from anabranch.tables import DeltaTable
from streaming.streams import Feed, finished, writer

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    folder = tmp_path / "feed"
    folder.mkdir()
    return Feed(folder)


def rows(delta: SparkSession) -> DataFrame:
    return delta.sql("SELECT 1 AS a, 2 AS b, named_struct('x', 3, 'p.q', 4) AS s")


def write(delta: SparkSession, *columns: str, mode: str = "append", **options: str) -> Any:
    return rows(delta).write.format("delta").clusterBy(*columns).mode(mode).options(**options)


def clustering(delta: SparkSession, table: str) -> list[str]:
    return list(delta.sql(f"DESCRIBE DETAIL {table}").first().clusteringColumns)


def test_appends_by_name(delta: SparkSession, name: str) -> None:
    """Covers bug B87. The line that made the table appends to it, nested columns too."""
    for columns in (["a"], ["s.x", "b"], ["s.`p.q`"]):
        write(delta, *columns).saveAsTable(name)
        write(delta, *columns).saveAsTable(name)
        assert (clustering(delta, name), delta.table(name).count()) == (columns, 2)
        with pytest.raises(IllegalArgumentException, match="partitioning or clustering columns do not match"):
            write(delta, "b").saveAsTable(name)
        listed = delta.catalog.listColumns(name)
        assert [column.name for column in listed if column.isCluster] == [c for c in columns if c in "ab"]
        delta.sql(f"DROP TABLE {name}")


def test_writes_by_path(delta: SparkSession, path: str) -> None:
    """Covers bug B87. Rows that are added, or replace some, leave the clustering as it is, so another is refused."""
    table = f"delta.`{path}`"
    write(delta, "s.x", "a").save(path)
    write(delta, "S.X", "A").save(path)
    write(delta, "s.x", "a", mode="overwrite", replaceWhere="a < 9").save(path)
    for columns in (["a", "s.x"], ["a"], ["b"], ["nothing"]):
        with pytest.raises(
            ClusteringMismatchError, match=r"clustered by s\.x, a, and the write has the clustering columns"
        ):
            write(delta, *columns).save(path)
        with pytest.raises(ClusteringMismatchError):
            write(delta, *columns, mode="overwrite", replaceWhere="a < 9").save(path)
    with pytest.raises(ClusteringMismatchError):
        write(delta, "b").option("mergeSchema", "true").save(path)
    assert (clustering(delta, table), delta.table(table).count()) == (["s.x", "a"], 1)
    delta.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    with pytest.raises(ClusteringMismatchError, match="clustered by nothing"):
        write(delta, "a").save(path)


def test_overwrites_set_the_clustering_again(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B87. As delta-spark's `saveAsTable` has it; without `clusterBy` the table's stays."""
    rows(delta).write.format("delta").option("path", path).saveAsTable(name)
    write(delta, "a", mode="overwrite").saveAsTable(name)
    assert clustering(delta, name) == ["a"]
    write(delta, "s.x", mode="overwrite").save(path)
    assert clustering(delta, name) == ["s.x"]
    rows(delta).write.format("delta").mode("overwrite").save(path)
    assert clustering(delta, name) == ["s.x"]
    write(delta, "b", mode="overwrite", overwriteSchema="true").save(path)
    assert (clustering(delta, name), delta.table(name).count()) == (["b"], 1)
    assert "clustering" in DeltaTable.forPath(delta, path).detail().first().tableFeatures


def test_partitioned_tables_are_not_clustered(delta: SparkSession, path: str) -> None:
    rows(delta).write.format("delta").partitionBy("b").save(path)
    with pytest.raises(ClusteringMismatchError):
        write(delta, "a").save(path)
    with pytest.raises(ClusteringOfPartitionsError):
        write(delta, "a", mode="overwrite").save(path)
    write(delta, "a", mode="overwrite", overwriteSchema="true").save(path)
    detail = DeltaTable.forPath(delta, path).detail().first()
    assert (detail.partitionColumns, detail.clusteringColumns) == ([], ["a"])


def test_streams(delta: SparkSession, path: str, feed: Feed) -> None:
    """Covers bug B87. A query is refused before it starts; one that runs goes on where the clustering changes."""
    feed.put({"id": 1, "v": "a"})
    finished(writer(feed.frame(delta), feed).clusterBy("id").start(path))
    feed.put({"id": 2, "v": "b"})
    finished(writer(feed.frame(delta), feed).clusterBy("ID").start(path))
    with pytest.raises(ClusteringMismatchError):
        writer(feed.frame(delta), feed).clusterBy("v").start(path)
    assert delta.read.format("delta").load(path).count() == 2
