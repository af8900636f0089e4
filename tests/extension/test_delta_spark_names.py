"""Java classes under delta-spark's names, as programs call them through Py4J."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.tables import NotADeltaTableError

pytestmark = pytest.mark.spark


def version_as_mlflow_reads_it(table: Any) -> int:
    """Line by line `_get_delta_table_latest_version` of `mlflow/data/spark_delta_utils.py`."""
    latest_commit_jdf = table.history(1)
    latest_commit_row = latest_commit_jdf.head()
    version_field_idx = latest_commit_row.fieldIndex("version")
    return int(latest_commit_row.get(version_field_idx))


def test_what_mlflow_calls(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B109. Where this fails, MLflow's `load_delta` and `from_spark` lose the version without an error."""
    jvm: Any = delta._jvm
    for _ in range(3):
        delta.range(2).write.format("delta").option("path", path).mode("append").saveAsTable(name)
    table = jvm.io.delta.tables.DeltaTable.forPath(delta._jsparkSession, path)
    assert version_as_mlflow_reads_it(table) == 2
    quoted = ".".join(f"`{part}`" for part in ("spark_catalog", "default", name))
    for table_name in (name, quoted, f"delta.`{path}`"):
        table = jvm.io.delta.tables.DeltaTable.forName(delta._jsparkSession, table_name)
        assert version_as_mlflow_reads_it(table) == 2
    is_delta = delta.sql(f"DESCRIBE DETAIL {name}").filter("format = 'delta'").count()
    assert is_delta == 1


def test_other_calls(delta: SparkSession, path: str, tmp_path: Any) -> None:
    jvm: Any = delta._jvm
    tables = jvm.io.delta.tables.DeltaTable
    delta.range(3).write.format("delta").save(path)
    table = tables.forPath(path)
    assert (table.history().count(), table.toDF().count()) == (1, 3)
    assert table.detail().head().getAs("format") == "delta"
    folder = str(tmp_path / "nothing")
    assert tables.isDeltaTable(delta._jsparkSession, path)
    assert not tables.isDeltaTable(folder)
    delta.range(1).write.mode("overwrite").parquet(folder)
    assert not tables.isDeltaTable(folder)
    for missing in (lambda: tables.forPath(folder), lambda: tables.forName(delta._jsparkSession, "no_such_table")):
        with pytest.raises(NotADeltaTableError):
            missing()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
