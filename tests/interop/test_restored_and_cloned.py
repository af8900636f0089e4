"""Restored tables and clones, read by independent readers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs, read_by_duckdb

pytestmark = pytest.mark.spark


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def test_others_read_what_was_restored_and_cloned(native: SparkSession, tmp_path: Path) -> None:
    """Rows that a vector in a file hides, seen through the clone by the vector's absolute path."""
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    native.range(0, 3000, 1, 1).write.format("delta").save(source)
    table = DeltaTable.forPath(native, source)
    table.delete("id % 3 = 0")
    native.range(5000, 5001, 1, 1).write.format("delta").mode("append").save(source)
    table.delete("id = 1")
    table.clone(clone, isShallow=True)
    table.restoreToVersion(1)
    kept = [number for number in range(3000) if number % 3]
    assert ids(read_by_delta_rs(source)) == ids(read_by_duckdb(source)) == kept
    # DuckDB and Polars take absolute URIs for relative paths.
    assert ids(read_by_delta_rs(clone)) == [*kept[1:], 5000]
