"""Converting Parquet, and writing manifests."""

from __future__ import annotations

import os

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.convert import NotAParquetTableError, PartitionFoldersMismatchError
from anabranch.errors.other_formats import ManifestsHideVectorsError, UnknownGenerateModeError
from session.documented import statement

pytestmark = pytest.mark.spark


@statement("CONVERT TO DELTA {t | parquet.`path`} [NO STATISTICS] [PARTITIONED BY (column type, …)]")
def test_convert(delta: SparkSession, path: str) -> None:
    """Converts a folder of Parquet files, or a Parquet table of the catalog, to a Delta table without moving a file. A
    Delta table is left as it is."""
    delta.range(0, 4, 1, 1).selectExpr("id", "id % 2 AS k").write.partitionBy("k").parquet(path)
    with pytest.raises(PartitionFoldersMismatchError, match="`k` INT"):
        delta.sql(f"CONVERT TO DELTA parquet.`{path}`")
    converted = delta.sql(f"CONVERT TO DELTA PARQUET.`{path}` NO STATISTICS PARTITIONED BY (k INT)")
    assert (converted.columns, converted.collect()) == ([], [])
    assert delta.sql(f"SELECT id FROM delta.`{path}` WHERE k = 1 ORDER BY id").collect() == [(1,), (3,)]
    parameters = delta.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()[0].operationParameters
    assert (parameters["collectStats"], parameters["partitionedBy"], parameters["numFiles"]) == ("false", '["k"]', "2")
    for again in (f"parquet.`{path}`", f"delta.`{path}`", f"IDENTIFIER('parquet.`' || '{path}' || '`')"):
        delta.sql(f"CONVERT TO DELTA {again}")
    assert delta.sql(f"DESCRIBE HISTORY delta.`{path}`").count() == 1
    with pytest.raises(NotAParquetTableError, match="orc"):
        delta.sql(f"CONVERT TO DELTA orc.`{path}`")
    with pytest.raises(PySparkException, match="nonsense"):
        delta.sql(f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (k nonsense)")


@statement("GENERATE symlink_format_manifest FOR TABLE t")
def test_generate(delta: SparkSession, path: str) -> None:
    """Writes `_symlink_format_manifest`, a list of data files for each partition, for engines that do not know Delta.
    Tables with deletion vectors or column mapping are refused."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(0, 4, 1, 1)")
    with pytest.raises(UnknownGenerateModeError, match="else"):
        delta.sql(f"GENERATE something_else FOR TABLE {table}")
    generated = delta.sql(f"GENERATE symlink_format_manifest FOR TABLE {table}")
    assert (generated.columns, generated.collect()) == ([], [])
    assert os.listdir(f"{path}/_symlink_format_manifest") == ["manifest"]
    delta.sql(f"DELETE FROM {table} WHERE id = 1")
    with pytest.raises(ManifestsHideVectorsError, match="PURGE"):
        delta.sql(f"GENERATE symlink_format_manifest FOR TABLE {table}")
