"""Overwrites and RESTORE behind an OPTIMIZE of ours, on Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.restore.restore_table import prepare_restore
from anabranch.commands.table_access import TableRef, TimeTravel
from anabranch.exceptions import DeltaConcurrentModificationException
from tables.made_tables import numbered_table
from tables.races import beaten

pytestmark = pytest.mark.spark


def table(native: SparkSession, path: str, vectors: str) -> TableRef:
    """Twenty rows in two partitions, each of two files."""
    table = numbered_table(native, path, by=("part",), enableDeletionVectors=vectors)
    native.sql(f"INSERT INTO delta.`{path}` VALUES (20, 20, 0), (21, 21, 1)")
    return table


def ids(native: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in native.read.format("delta").load(path).collect())


def test_an_overwrite_follows_an_optimize(native: SparkSession, path: str) -> None:
    """Bug B16: the files that it takes out were rearranged, as the row map of the OPTIMIZE says. Covers race 47 for overwrites."""
    table(native, path, "true")
    beaten(native, f"INSERT OVERWRITE delta.`{path}` VALUES (50, 0, 0)", f"OPTIMIZE delta.`{path}`")
    assert ids(native, path) == [50]


def test_an_overwrite_of_partitions_follows_an_optimize(native: SparkSession, path: str) -> None:
    """Bug B16."""
    table(native, path, "true")
    rows = f"INSERT OVERWRITE delta.`{path}` PARTITION (part = 0) VALUES (50, 0)"
    beaten(native, rows, f"OPTIMIZE delta.`{path}`")
    assert ids(native, path) == [*range(1, 22, 2), 50]


def test_a_dynamic_overwrite_follows_an_optimize(native: SparkSession, path: str) -> None:
    """Bug B16: by the partitions of the new rows."""
    table(native, path, "true")
    native.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        beaten(native, f"INSERT OVERWRITE delta.`{path}` VALUES (50, 0, 0)", f"OPTIMIZE delta.`{path}`")
    finally:
        native.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert ids(native, path) == [*range(1, 22, 2), 50]


def test_a_restore_follows_an_optimize(native: SparkSession, path: str) -> None:
    """Bug B16."""
    table_ref = table(native, path, "true")
    prepared = prepare_restore(table_ref, TimeTravel(version=0))
    assert prepared is not None
    native.sql(f"OPTIMIZE delta.`{path}` WHERE part = 0")
    prepared.commit()
    assert ids(native, path) == list(range(20))


def test_without_vectors_files_that_were_rearranged_are_a_conflict(native: SparkSession, path: str) -> None:
    """Bug B16: as the matrix says of such tables. Nothing can hide single rows of the file that an OPTIMIZE made."""
    table(native, path, "false")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(native, f"INSERT OVERWRITE delta.`{path}` VALUES (50, 0, 0)", f"OPTIMIZE delta.`{path}`")
    assert ids(native, path) == list(range(22))
