"""Few rows that the driver has are written without a job, and in the same files as by one."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as ForeignTable
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.errors.constraints import CheckConstraintViolationError, NotNullViolationError
from anabranch.errors.environment import StorageError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

VALUES = """VALUES
    (1, 'a b/=%ü', 1.5D, 12.50BD, DATE'1582-10-04', TIMESTAMP'1899-12-31 23:59:59.123456', true, X'6162', array(1, NULL)),
    (2, '', double('nan'), NULL, NULL, NULL, NULL, X'', array()),
    (3, NULL, -0.0D, -1.00BD, DATE'9999-12-31', TIMESTAMP'2024-01-01 00:00:00', false, NULL, NULL)"""
COLUMNS = "id INT, s STRING, d DOUBLE, dec DECIMAL(10, 2), day DATE, at TIMESTAMP, ok BOOLEAN, bin BINARY, a ARRAY<INT>"


@contextlib.contextmanager
def jobs_of(delta: SparkSession, at_most: int) -> Iterator[None]:
    """A block that runs so many jobs at most."""
    context, group = delta.sparkContext, f"group-{uuid.uuid4()}"
    context.setJobGroup(group, "jobs are counted")
    try:
        yield
        assert len(context.statusTracker().getJobIdsForGroup(group)) <= at_most
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # PySpark's hint lacks None
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def parquet_files(path: str) -> list[Path]:
    return sorted(Path(path).rglob("*.parquet"))


def described(file: Path) -> tuple[pa.Schema, list[dict[str, Any]], list[Any]]:
    """The schema of a file with its metadata, its rows, and the statistics of its columns."""
    footer = pq.read_metadata(file)
    group = footer.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    statistics = [(c.statistics.to_dict() if c.statistics else None, c.encodings, c.compression) for c in columns]
    return footer.schema.to_arrow_schema(), pq.read_table(file, partitioning=None).to_pylist(), statistics


@pytest.fixture
def written_twice(delta: SparkSession, path: str) -> Callable[[str], tuple[str, str]]:
    """A function that makes two tables of one definition, and writes the rows to one in the driver, to one by a job."""

    def write(definition: str) -> tuple[str, str]:
        in_driver, by_job = f"{path}/in driver", f"{path}/by job"
        for table in (in_driver, by_job):
            delta.sql(f"CREATE TABLE delta.`{table}` ({COLUMNS}) USING delta {definition}")
        with jobs_of(delta, 0):
            delta.sql(f"INSERT INTO delta.`{in_driver}` {VALUES}")
        delta.sql(f"SELECT * FROM {VALUES}").repartition(1).createOrReplaceTempView("rows_by_job")
        delta.sql(f"INSERT INTO delta.`{by_job}` SELECT * FROM rows_by_job ORDER BY 1")
        rows = [delta.table(f"delta.`{table}`").orderBy("id").collect() for table in (in_driver, by_job)]
        assert repr(rows[0]) == repr(rows[1])
        assert len(rows[0]) == 3
        return in_driver, by_job

    return write


def test_values_are_written_as_a_task_writes_them(written_twice: Callable[[str], tuple[str, str]]) -> None:
    """One file without a job: schema, metadata, rows and statistics are those of a job's file."""
    in_driver, by_job = written_twice("TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    [file], [expected] = parquet_files(in_driver), parquet_files(by_job)
    assert repr(described(file)) == repr(described(expected))
    assert ForeignTable(in_driver).to_pyarrow_table().num_rows == 3


def test_partitions_are_the_directories_of_a_job(written_twice: Callable[[str], tuple[str, str]]) -> None:
    tables = written_twice("PARTITIONED BY (s, day, ok, bin)")
    in_driver, by_job = ({file.parent.relative_to(table) for file in parquet_files(table)} for table in tables)
    assert in_driver == by_job
    assert len(in_driver) == 3


def test_rows_of_one_partition_share_a_file(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p)")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL), (5, 'b'), (6, '')")
    assert len(parquet_files(path)) == 3
    assert {tuple(row) for row in delta.table(f"delta.`{path}`").collect()} == {
        (1, "a"), (2, "b"), (3, "a"), (4, None), (5, "b"), (6, None),
    }  # fmt: skip


@pytest.mark.parametrize(
    "rows", ["SELECT 1, 'x', 2.5", "WITH q AS (SELECT 1, 'x', 2.5) SELECT * FROM q", "VALUES (1, 'x', 2.5)"]
)
def test_rows_without_a_table_need_no_job(delta: SparkSession, path: str, rows: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, s STRING, v DOUBLE) USING delta")
    with jobs_of(delta, 0):
        delta.sql(f"INSERT INTO delta.`{path}` {rows}")
    assert [tuple(row) for row in delta.table(f"delta.`{path}`").collect()] == [(1, "x", 2.5)]


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT (SELECT max(id) FROM range(5)), 'x', 2.5",
        "SELECT id, 'x', rand() FROM range(3)",
        "SELECT explode(array(1, 2)), 'x', 2.5",
        "SELECT 1, uuid(), 2.5 WHERE false",
    ],
)
def test_other_rows_are_written_by_a_job(delta: SparkSession, path: str, rows: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, s STRING, v DOUBLE) USING delta")
    expected = delta.sql(rows).count()
    delta.sql(f"INSERT INTO delta.`{path}` {rows}")
    assert delta.table(f"delta.`{path}`").count() == expected


def test_many_rows_are_written_by_a_job(delta: SparkSession, path: str) -> None:
    """More than 10,000 would keep the driver busy."""
    rows = delta.createDataFrame(pa.table({"id": pa.array(range(10_001), pa.int64())}).to_pandas())
    rows.write.format("delta").save(path)
    assert delta.table(f"delta.`{path}`").count() == 10_001


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("VALUES (1, 1), (NULL, 2)", NotNullViolationError),
        ("VALUES (1, 1), (2, 20)", CheckConstraintViolationError),
        ("SELECT CAST(NULL AS INT), 2", NotNullViolationError),
        ("SELECT 2, 20", CheckConstraintViolationError),
    ],
)
def test_rules_of_the_table_are_checked(delta: SparkSession, path: str, rows: str, error: type[DeltaError]) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT NOT NULL, v INT) USING delta")
    delta.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (v < 10)")
    with pytest.raises(error):
        delta.sql(f"INSERT INTO delta.`{path}` {rows}")
    assert parquet_files(path) == []
    assert DeltaTable.forPath(delta, path).history(1).collect()[0]["operation"] == "ADD CONSTRAINT"


def test_settings_of_the_session_and_the_table_hold(delta: SparkSession, path: str) -> None:
    """Compression by the table's property, and the number of rows of a file."""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.parquet.compression.codec' = 'zstd')"
    )
    delta.conf.set("spark.sql.files.maxRecordsPerFile", "2")
    try:
        with jobs_of(delta, 0):
            delta.sql(f"INSERT INTO delta.`{path}` VALUES (1), (2), (3), (4), (5)")
    finally:
        delta.conf.unset("spark.sql.files.maxRecordsPerFile")
    files = [pq.read_metadata(file) for file in parquet_files(path)]
    assert sorted(file.num_rows for file in files) == [1, 2, 2]
    assert {file.row_group(0).column(0).compression for file in files} == {"ZSTD"}


def test_a_storage_that_refuses_is_a_typed_error(delta: SparkSession, path: str) -> None:
    """The partition's directory is a file: nothing can be written below it, and nothing is committed."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, p INT) USING delta PARTITIONED BY (p)")
    (Path(path) / "p=1").write_text("not a directory")
    with pytest.raises(StorageError):
        delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 0), (2, 1)")
    assert parquet_files(path) == []
    assert delta.table(f"delta.`{path}`").count() == 0
