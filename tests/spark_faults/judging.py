"""What must hold of a table behind a fault, as readers without Spark see it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.clock import SystemClock
from anabranch.deletion_vectors.vector_reading import path_in_table
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from interop.readers import read_by_delta_rs, read_by_duckdb
from spark_faults.statements import Rows
from transactions.log_linter import lint

READERS = {"delta-rs": read_by_delta_rs, "DuckDB": read_by_duckdb}


def rows_at(path: Path) -> Rows:
    """The rows that all readers see, each once; none where there is no table."""
    if not any((path / "_delta_log").glob("*.json")):
        return {}
    by_reader = {name: _by_id(read(str(path))) for name, read in READERS.items()}
    first, *others = by_reader.values()
    assert all(other == first for other in others), {name: len(rows) for name, rows in by_reader.items()}
    return first


def _by_id(rows: pa.Table) -> Rows:
    ids, values = rows["id"].to_pylist(), rows["n"].to_pylist()
    by_id = dict(zip(ids, values, strict=True))
    assert len(by_id) == len(ids), "an id is there twice"
    return by_id


def problems_of(path: Path, *allowed: Rows) -> list[str]:
    """What is wrong with the table, whose rows must be one of those that are allowed."""
    problems = lint(LocalStore(str(path))) if (path / "_delta_log").exists() else []
    rows = rows_at(path)
    if rows not in allowed:
        problems.append(f"{len(rows)} rows, {list(rows.items())[:5]} …, are not those of {[len(it) for it in allowed]}")
    return problems


def problems_afterwards(spark: SparkSession, path: Path, rows: Rows) -> list[str]:
    """What is wrong with the table once the statement has landed, and VACUUM has removed what no version needs."""
    problems = problems_of(path, rows)
    left = left_by_vacuum(spark, path)
    return [*problems, f"VACUUM leaves {left}"] if left else problems


def left_by_vacuum(spark: SparkSession, path: Path) -> set[str]:
    """The files outside the log that no version needs and VACUUM does not remove."""
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    live = {file.rpartition("/")[2] for file in spark.read.format("delta").load(str(path)).inputFiles()}
    adds = SnapshotCache(LocalStore(str(path)), SystemClock()).latest().files.to_actions()
    descriptors = [add.deletion_vector for add in adds if add.deletion_vector is not None]
    of_table = (path_in_table(descriptor, table_root=str(path)) for descriptor in descriptors)
    vectors = {file.rpartition("/")[2] for file in of_table if file is not None}
    there = {file.name for file in path.rglob("*") if file.is_file() and "_delta_log" not in file.parts}
    # Hadoop writes a hidden checksum beside a file, and an empty file when a job has ended.
    kept = live | vectors | {"_SUCCESS"}
    return {name for name in there if name.removeprefix(".").removesuffix(".crc") not in kept}
