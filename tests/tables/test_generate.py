"""Manifests for engines that do not know Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from anabranch.errors.other_formats import (
    ManifestsExcludeVectorsError,
    ManifestsHideVectorsError,
    ManifestsNeedPlainColumnsError,
    UnknownGenerateModeError,
)
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark
ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"


def manifests(path: str) -> dict[str, list[str]]:
    root = Path(path, "_symlink_format_manifest")
    files = [file for file in root.rglob("*") if file.is_file() and not file.name.startswith(".")]
    return {str(file.relative_to(root)): file.read_text().splitlines() for file in files}


def rows_listed(path: str) -> list[Any]:
    """What an engine sees that reads the files of the manifests, as Parquet."""
    listed = [name.removeprefix("file:") for lines in manifests(path).values() for name in lines]
    return sorted(
        duckdb.sql("SELECT id, k FROM read_parquet($f, hive_partitioning = true)", params={"f": listed}).fetchall()
    )


def test_manifests_on_demand_and_after_each_commit(delta: SparkSession, path: str) -> None:
    """Who reads their files sees the rows of the table; setting the property is what turns them on."""
    frame = delta.range(0, 8, 1, 1).selectExpr("id", "CAST(id % 3 AS INT) AS k")
    frame.write.format("delta").partitionBy("k").option("delta.enableDeletionVectors", "false").save(path)
    table = DeltaTable.forPath(delta, path)
    table.generate("SYMLINK_FORMAT_MANIFEST")
    assert sorted(manifests(path)) == [f"k={k}/manifest" for k in range(3)]
    assert rows_listed(path) == [(i, i % 3) for i in range(8)]
    with pytest.raises(UnknownGenerateModeError):
        table.generate("other")
    table.delete("k = 2")
    assert len(rows_listed(path)) == 8, "nobody asked for it"
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{ENABLED}' = 'true')")
    assert rows_listed(path) == [(i, i % 3) for i in range(8) if i % 3 != 2]
    table.update("id = 1", {"k": "7"})
    assert rows_listed(path) == [(0, 0), (1, 7), (3, 0), (4, 1), (6, 0), (7, 1)]
    assert sorted(manifests(path)) == ["k=0/manifest", "k=1/manifest", "k=7/manifest"]
    with pytest.raises(ManifestsExcludeVectorsError):
        delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    with pytest.raises(ManifestsNeedPlainColumnsError):
        delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")


def test_tables_that_keep_manifests_have_no_vectors(delta: SparkSession, path: str) -> None:
    """A new one has none from the start; an old one must get rid of those it has."""
    new = f"{path} new"
    delta.range(0, 2, 1, 1).selectExpr("id", "1 AS k").write.format("delta").option(ENABLED, "true").save(new)
    assert rows_listed(new) == [(0, 1), (1, 1)]
    assert "delta.enableDeletionVectors" not in DeltaTable.forPath(delta, new).detail().collect()[0].properties
    delta.range(0, 2, 1, 1).write.format("delta").save(path)
    DeltaTable.forPath(delta, path).delete("id = 0")
    with pytest.raises(ManifestsHideVectorsError):
        DeltaTable.forPath(delta, path).generate("symlink_format_manifest")
    off = f"'delta.enableDeletionVectors' = 'false', '{ENABLED}' = 'true'"
    with pytest.raises(ManifestsHideVectorsError, match="PURGE"):
        delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({off})")
