"""Tables with Iceberg compatibility: each way to change them, and what readers of Iceberg see of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors.other_formats import (
    IcebergCompatFilesError,
    IcebergCompatPartitioningError,
    IcebergCompatTypeChangeError,
    IcebergCompatTypeError,
    IcebergCompatVectorsError,
    IcebergCompatVersionError,
)
from anabranch.tables import DeltaTable
from interop.readers import read_iceberg_by_duckdb, read_iceberg_by_pyiceberg
from session_kinds import table_ref

pytestmark = pytest.mark.spark

UNIFORM = {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"}


def latest(delta: SparkSession, path: str) -> Any:
    return table_ref(delta, path).latest()


def rows_agree(delta: SparkSession, path: str) -> list[dict[str, Any]]:
    """The rows, which are the same for Spark and for readers of Iceberg."""

    def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: str(row))

    ours = in_order([row.asDict(recursive=True) for row in delta.read.format("delta").load(path).collect()])
    assert in_order(read_iceberg_by_duckdb(path).to_pylist(maps_as_pydicts="strict")) == ours
    version = json.loads((Path(path) / "metadata" / f"v{latest(delta, path).version}.metadata.json").read_text())
    assert version["properties"]["delta-version"] == str(latest(delta, path).version)
    return ours


def test_every_change_of_rows(delta: SparkSession, path: str) -> None:
    """Partitions with awkward names, copy on write, columns that come and get other names."""
    frame = delta.range(6).select(
        "id",
        F.expr("CASE id % 3 WHEN 0 THEN 'a/b c%' WHEN 1 THEN '' END AS p"),
        F.expr("if(id = 5, null, cast(id / 4 AS decimal(10,2))) AS v"),
    )
    writer = frame.coalesce(1).write.format("delta").partitionBy("p")
    writer.options(**UNIFORM).save(path)
    properties = latest(delta, path).metadata.configuration
    assert properties["delta.columnMapping.mode"] == "name"
    assert properties["delta.enableDeletionVectors"] == "false"
    assert len(rows_agree(delta, path)) == 6
    table = DeltaTable.forPath(delta, path)
    table.update("id = 1", {"v": "9"})
    table.delete("id = 2")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO key")
    delta.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (x ARRAY<STRUCT<a: INT, b: MAP<STRING, BIGINT>>>)")
    source = delta.sql("SELECT k, array(named_struct('a', 1, 'b', map('q', 2L))) AS x FROM VALUES (3L), (7L) AS t(k)")
    (
        table.alias("t")
        .merge(source.alias("s"), "t.key = s.k")
        .whenMatchedUpdate(set={"x": "s.x"})
        .whenNotMatchedInsert(values={"key": "s.k", "p": "'new'", "x": "s.x"})
        .execute()
    )
    before = rows_agree(delta, path)
    delta.range(10, 12).select(F.col("id").alias("key"), F.lit("new").alias("p")).coalesce(1).write.format(
        "delta"
    ).mode("append").save(path)
    table.optimize().executeCompaction()
    rows = rows_agree(delta, path)
    assert len(rows) == len(before) + 2
    assert {row["p"] for row in rows} == {"a/b c%", None, "new"}
    snapshot = latest(delta, path)
    for add in snapshot.files.to_actions():
        assert add.tags["ICEBERG_COMPAT_VERSION"] == "2"
        assert "numRecords" in json.loads(add.stats)
    assert read_iceberg_by_pyiceberg(path).num_rows == len(rows)


def test_files_carry_ids_and_partition_columns(delta: SparkSession, path: str) -> None:
    """As "Writer Requirements for IcebergCompatV2" demands, from the first write and through OPTIMIZE."""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (p BINARY, id BIGINT, at TIMESTAMP, l ARRAY<MAP<STRING, INT>>) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true')"
    )
    for number in range(2):
        delta.sql(f"INSERT INTO delta.`{path}` VALUES (X'61', {number}, timestamp'2024-01-01 01:02:03.456', array())")
    fields = latest(delta, path).schema.fields
    names = [field.metadata["delta.columnMapping.physicalName"] for field in fields]
    nested = {f"{names[3]}.element": 5, f"{names[3]}.element.key": 6, f"{names[3]}.element.value": 7}
    assert fields[3].metadata["delta.columnMapping.nested.ids"] == nested
    assert latest(delta, path).properties.column_mapping_max_id == 7
    DeltaTable.forPath(delta, path).optimize().executeCompaction()
    files = [str(file) for file in Path(path).rglob("*.parquet") if "_delta_log" not in str(file)]
    assert len(files) == 3
    for file in files:
        stored = pq.read_schema(file)
        assert stored.names == [*names[1:], names[0]]
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in stored] == [2, 3, 4, 1]
        assert str(pq.read_metadata(file).schema.column(1).physical_type) == "INT64"
        inner = stored.field(2).type.value_field
        ids = [inner, inner.type.key_field, inner.type.item_field]
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in ids] == [5, 6, 7]
        assert bytes(pq.read_table(file, partitioning=None).column(3)[0].as_py()) == b"a"
    assert {bytes(row.p) for row in delta.read.format("delta").load(path).collect()} == {b"a"}
    assert not (Path(path) / "metadata").exists()


def test_an_existing_table_is_upgraded(delta: SparkSession, path: str) -> None:
    """Vectors go, partition columns come into the files; done twice, it does nothing."""
    upgraded(delta, path, version=2)


def test_the_first_version_and_from_there_to_the_second(native: SparkSession, path: str) -> None:
    """The files of version 1 are good for version 2, and stay."""
    upgraded(native, path, version=1)
    native.sql(f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))")
    assert latest(native, path).metadata.configuration["delta.enableIcebergCompatV1"] == "false"
    native.sql(f"INSERT INTO delta.`{path}` VALUES (100, 1, null)")
    assert read_iceberg_by_pyiceberg(path).num_rows == 8


def upgraded(delta: SparkSession, path: str, *, version: int) -> None:
    """A table as most are, and what becomes of it."""
    vectors = {"delta.enableDeletionVectors": str(version == 2).lower()}
    frame = delta.range(8).select("id", (F.col("id") % 2).alias("p"), F.expr("timestamp'2024-01-01 12:00:00' AS at"))
    frame.coalesce(1).write.format("delta").partitionBy("p").options(**vectors).save(path)
    DeltaTable.forPath(delta, path).delete("id = 3")
    before = delta.read.format("delta").load(path).orderBy("id").collect()
    with pytest.raises(IcebergCompatFilesError, match="2 data files"):
        delta.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
            f"'delta.enableIcebergCompatV{version}' = 'true', 'delta.enableDeletionVectors' = 'false')"
        )
    upgrade = f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = {version}))"
    (done,) = delta.sql(upgrade).collect()
    assert (done.metrics.numFilesRemoved, done.metrics.numFilesAdded) == (2, 2)
    assert delta.sql(upgrade).collect() == []
    assert delta.read.format("delta").load(path).orderBy("id").collect() == before
    snapshot = latest(delta, path)
    assert all(add.deletion_vector is None for add in snapshot.files.to_actions())
    history = DeltaTable.forPath(delta, path).history(3).orderBy("version").collect()
    assert [row.operation for row in history] == ["REORG TABLE UPGRADE UNIFORM", "REORG", "SET TBLPROPERTIES"]
    assert f'"delta.enableIcebergCompatV{version}":"true"' in history[0].operationParameters["properties"]
    ids = [row["id"] for row in read_iceberg_by_pyiceberg(path).to_pylist()]
    assert sorted(ids) == [0, 1, 2, 4, 5, 6, 7]


def test_what_would_break_a_rule_is_refused(delta: SparkSession, path: str) -> None:
    """It is refused on every path, and the table stays as it was."""
    table = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {table} (id INT, p INT, d INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableIcebergCompatV2' = 'true', 'delta.enableTypeWidening' = 'true')"
    )
    other = delta.sql("SELECT 1 AS id, 2 AS p, 3 AS d")
    refused = {
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')": IcebergCompatVectorsError,
        f"ALTER TABLE {table} ADD COLUMNS (v VARIANT)": IcebergCompatTypeError,
        f"ALTER TABLE {table} ALTER COLUMN d TYPE DOUBLE": IcebergCompatTypeChangeError,
        f"REORG TABLE {table} APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 3))": IcebergCompatVersionError,
        f"CREATE OR REPLACE TABLE {table} (id INT, q INT) USING delta PARTITIONED BY (q) "
        "TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true')": IcebergCompatPartitioningError,
    }
    for statement, error in refused.items():
        with pytest.raises(error):
            delta.sql(statement)
    with pytest.raises(IcebergCompatPartitioningError):
        other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("d").save(path)
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN p TO q")
    assert latest(delta, path).version == 2
