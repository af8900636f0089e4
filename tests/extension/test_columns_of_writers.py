"""`partitionBy` and `clusterBy` of columns whose names SQL would have in backticks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs, read_by_duckdb
from streaming.streams import Feed, finished, writer

pytestmark = pytest.mark.spark

PLAIN = ("é", "a-b", "a:b", "x%20x", "a.b", "a`b", "1a", "select")
MAPPED = ("x y", "a=b", "a,b")
"""Names that a table takes only with column mapping."""
MAPPING = {"delta.columnMapping.mode": "name"}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows(delta: SparkSession, names: Sequence[str], *values: str) -> DataFrame:
    frame = delta.createDataFrame([(value,) for value in values], ["v"])
    return frame.withColumns({quoted(name): F.col("v") for name in names}).toDF("v", *names)


def folders(path: Path) -> set[str]:
    return {str(file.relative_to(path).parent) for file in path.rglob("*=*/*.parquet")}


@pytest.mark.parametrize("names", [PLAIN, MAPPED], ids=["plain", "mapped"])
def test_saves(delta: SparkSession, tmp_path: Path, names: tuple[str, ...]) -> None:
    """Covers bug B86. Names are plain or in backticks; folders are Spark's, and others read them."""
    frame = rows(delta, names, "1", "b/c=%")
    path = str(tmp_path / "t")
    options = MAPPING if names is MAPPED else {}
    for columns in (names, tuple(map(quoted, names))):
        frame.write.format("delta").options(**options).mode("append").partitionBy(*columns).save(path)
    for option, value in (("replaceWhere", f"{quoted(names[0])} = '1'"), ("partitionOverwriteMode", "dynamic")):
        replacing = frame.where("v = '1'").write.format("delta").mode("overwrite").partitionBy(*names)
        replacing.option(option, value).save(path)
    expected = [(value,) * (1 + len(names)) for value in ("1", "b/c=%", "b/c=%")]
    assert sorted(map(tuple, delta.read.format("delta").load(path).collect())) == expected
    assert list(DeltaTable.forPath(delta, path).detail().first().partitionColumns) == list(names)
    if names is PLAIN:
        frame.write.partitionBy(*names).parquet(str(tmp_path / "p"))
        assert folders(Path(path)) == folders(tmp_path / "p")
        for read in (read_by_delta_rs, read_by_duckdb):
            table = read(path)
            assert sorted(zip(*(table[column].to_pylist() for column in ("v", *names)), strict=True)) == expected


def test_other_writers(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Covers bug B86. By name Spark itself reads the columns of writers as SQL: there, they need backticks."""
    for number, (how, odd) in enumerate(itertools.product(("partitionBy", "clusterBy"), ("x y", "a.b"))):
        frame = rows(delta, [odd], "1")
        feed = Feed(tmp_path / f"feed{number}")
        feed.folder.mkdir()
        feed.put({"id": 1, "v": "a"})
        path = str(tmp_path / f"stream{number}")
        stream = feed.frame(delta).withColumnRenamed("v", odd)
        finished(getattr(writer(stream, feed, **MAPPING), how)(odd).start(path))
        saved = str(tmp_path / f"saved{number}")
        for _ in range(2):
            getattr(frame.write.format("delta").options(**MAPPING).mode("append"), how)(odd).save(saved)
        write = frame.write.format("delta").options(**MAPPING).mode("append")
        with pytest.raises((AnalysisException, ParseException)):
            getattr(write, how)(odd).saveAsTable(name)
        for _ in range(2):
            getattr(write, how)(quoted(odd)).saveAsTable(name)
        assert delta.table(name).where(F.col(quoted(odd)) == "1").count() == 2
        for table in (
            DeltaTable.forPath(delta, path),
            DeltaTable.forPath(delta, saved),
            DeltaTable.forName(delta, name),
        ):
            detail = table.detail().first()
            columns = (detail.partitionColumns, detail.clusteringColumns)
            assert columns == (([odd], []) if how == "partitionBy" else ([], [quoted(odd)]))
        delta.sql(f"DROP TABLE {name}")
