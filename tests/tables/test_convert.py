"""A folder of Parquet files becomes a Delta table where it is."""

from __future__ import annotations

import datetime
import glob
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.convert.convert_source import convert_source
from anabranch.commands.convert.convert_table import convert_to_delta, prepare_conversion
from anabranch.commands.dml.statement import Prepared
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.errors.commits import ConflictReason, RowIdsNeedStatisticsError
from anabranch.errors.convert import (
    CatalogPartitioningError,
    ConvertPropertiesMismatchError,
    ConvertPropertyError,
    ConvertSourceMissingError,
    FileNotConvertibleError,
    NotAParquetTableError,
    NothingToConvertError,
    PartitionFoldersMismatchError,
    UnconvertibleNamesError,
)
from anabranch.exceptions import ProtocolChangedException
from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import delta_session
from tables.races import commit_with_retries, lose

pytestmark = pytest.mark.spark
WORDS = ["a b/c%", "ü=1", "it's; {x}", None]


def convert(delta: SparkSession, path: str, partitions: str | StructType | None = None) -> DeltaTable:
    return DeltaTable.convertToDelta(delta, f"parquet.`{path}`", partitions)


def put(folder: str, name: str, columns: dict[str, Any], **how: Any) -> None:
    """A file that another program wrote."""
    Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), f"{folder}/{name}", **how)


def commit(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path, "_delta_log", f"{0:020}.json").read_text().splitlines()]


def files(path: str) -> list[str]:
    names = glob.glob("**/*", root_dir=path, recursive=True)
    return sorted(name for name in names if not name.startswith("_delta_log") and Path(path, name).is_file())


def test_a_partitioned_folder(delta: SparkSession, path: str) -> None:
    """Same rows, same files; values come from folders; the table then works as any other."""
    words = F.element_at(F.lit([word or "?" for word in WORDS]), (F.col("id") % 4 + 1).cast("int"))
    rows = delta.range(0, 12, 1, 2).select(
        "id",
        (F.col("id") / 2).alias("x"),
        F.expr("timestamp'2020-01-01 10:00:00' + make_interval(0, 0, 0, id)").alias("at"),
        F.expr("named_struct('d', date'2020-02-01' + cast(id as int), 'many', array(id, null))").alias("s"),
        (F.col("id") % 2).cast("int").alias("k"),
        F.when(words != "?", words).alias("w"),
    )
    rows.write.partitionBy("k", "w").parquet(path)
    before = files(path)
    kinds = StructType.fromDDL("k INT, w STRING")
    assert isinstance(kinds, StructType)
    table = convert(delta, path, kinds)
    assert files(path) == before
    frame = table.toDF()
    assert sorted(map(tuple, frame.select(*rows.columns).collect())) == sorted(map(tuple, rows.collect()))
    assert frame.dtypes == rows.dtypes
    assert frame.where(f"w = '{WORDS[0]}' AND k >= 0").count() == frame.where("w IS NULL").count() == 3
    adds = [action["add"] for action in commit(path) if "add" in action]
    assert {add["partitionValues"]["w"] for add in adds} == set(WORDS)
    assert {(add["size"], add["modificationTime"]) for add in adds} == {
        (status.st_size, status.st_mtime_ns // 1_000_000)
        for status in (os.stat(f"{path}/{name}") for name in before if name.endswith(".parquet") and "/." not in name)
    }
    for read in (read_by_delta_rs, read_by_duckdb):
        foreign = read(path).select(["id", "k", "w"]).to_pylist()
        expected = [{"id": i, "k": i % 2, "w": WORDS[i % 4]} for i in range(12)]
        assert sorted(foreign, key=lambda row: row["id"]) == expected
    table.delete("id = 3")
    table.update("id = 4", {"x": "100"})
    assert (table.toDF().count(), table.toDF().where("x = 100").count()) == (11, 1)


def test_the_commit(delta: SparkSession, path: str) -> None:
    """CONVERT with its parameters and metrics; the session's defaults count; what has no row needs no file."""
    put(path, "day=2020-01-01/one", {"id": [1, 2], "text": ["x", "y"]})
    put(path, "day=2020-01-02/run-1/two.parquet", {"id": pa.array([], pa.int64())})
    delta.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    try:
        table = convert(delta, path, "day DATE COMMENT 'when'")
    finally:
        delta.conf.unset("spark.databricks.delta.properties.defaults.appendOnly")
    [last] = table.history().collect()
    assert last.operation == "CONVERT"
    assert last.operationParameters == {
        "numFiles": "1",
        "partitionedBy": '["day"]',
        "collectStats": "true",
        "sourceFormat": "parquet",
    }
    assert last.operationMetrics == {"numConvertedFiles": "1"}
    detail = table.detail().collect()[0]
    assert (detail.partitionColumns, detail.properties["delta.appendOnly"]) == (["day"], "true")
    assert table.toDF().schema["day"].metadata == {"comment": "when"}
    [add] = [action["add"] for action in commit(path) if "add" in action]
    assert (add["path"], add["partitionValues"]) == ("day=2020-01-01/one", {"day": "2020-01-01"})
    assert json.loads(add["stats"])["maxValues"] == {"id": 2, "text": "y"}
    assert table.toDF().where("day = '2020-01-01' AND id > 1").collect() == [(2, "y", datetime.date(2020, 1, 1))]
    convert(delta, path)
    assert len(table.history().collect()) == 1, "a Delta table is left as it is"


def test_files_of_other_writers(delta: SparkSession, path: str) -> None:
    """Columns are merged, in any case; statistics hide no row: NaN is the greatest number, and old times have none."""
    old, new = datetime.datetime(1200, 3, 4), datetime.datetime(2020, 1, 1)
    put(path, "1.parquet", {"Id": pa.array([1, 2], pa.int8()), "x": [1.0, float("nan")]})
    put(path, "2.parquet", {"id": pa.array([300], pa.int32()), "at": [new]}, use_deprecated_int96_timestamps=True)
    put(
        path,
        "3.parquet",
        {"at": pa.array([old, new], pa.timestamp("us", tz="UTC")), "u": pa.array([1, 2], pa.uint32())},
    )
    Path(path, "_notes").write_text("no Parquet")
    Path(path, ".x.crc").write_text("neither")
    table = convert(delta, path).toDF()
    assert table.dtypes == [("Id", "int"), ("x", "double"), ("at", "timestamp"), ("u", "bigint")]
    # Spark's own reader believes the bounds of such a file.
    delta.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        assert table.where("x > 100").count() == 1
    finally:
        delta.conf.unset("spark.sql.parquet.filterPushdown")
    assert table.where("at > timestamp'2019-01-01'").count() == 2
    assert table.where("at < timestamp'1300-01-01'").count() == 1
    assert sorted(row[0] for row in table.where("id >= 1").select("id").collect()) == [1, 2, 300]
    assert table.where("u IS NULL").count() == 3


def test_what_cannot_be_converted(delta: SparkSession, path: str) -> None:
    """Each by its own error, with the way out; no log is begun."""
    with pytest.raises(NothingToConvertError):
        convert(delta, path)
    put(path, "k=1/a b/f.parquet", {"id": [1]})
    with pytest.raises(PartitionFoldersMismatchError, match=r"Write PARTITIONED BY \(`k` INT\)"):
        convert(delta, path)
    with pytest.raises(ConvertPropertyError, match="columnMapping"):
        converted_with(delta, path, "columnMapping.mode", "name")
    put(path, "k=1/g.parquet", {"a b": [1]})
    with pytest.raises(UnconvertibleNamesError, match="a b"):
        convert(delta, path, "k INT")
    os.symlink(f"{path}/k=1", f"{path}/k=2")
    with pytest.raises(FileNotConvertibleError, match="k=2 is a link"):
        convert(delta, path, "k INT")
    os.unlink(f"{path}/k=2")
    Path(path, "k=1/g.parquet").write_text("not yet written")
    with pytest.raises(FileNotConvertibleError, match="k=1/g"):
        convert(delta, path, "k INT")
    for name, error in [
        (f"`{path}`", ConvertSourceMissingError),
        ("no.such", ConvertSourceMissingError),
        (f"csv.`{path}`", NotAParquetTableError),
        (f"iceberg.`{path}`", UnsupportedOperationError),
    ]:
        with pytest.raises(error):
            DeltaTable.convertToDelta(delta, name)
    with pytest.raises(InvalidArgumentError, match="partitionSchema"):
        DeltaTable.convertToDelta(delta, f"parquet.`{path}`", 7)  # type: ignore[arg-type]
    assert not os.path.exists(f"{path}/_delta_log")


def converted_with(delta: SparkSession, path: str, name: str, value: str) -> None:
    key = f"spark.databricks.delta.properties.defaults.{name}"
    delta.conf.set(key, value)
    try:
        convert(delta, path, "k INT")
    finally:
        delta.conf.unset(key)


def test_row_ids_need_statistics(delta: SparkSession, path: str) -> None:
    put(path, "f.parquet", {"id": [1]})
    key = "spark.databricks.delta.properties.defaults.enableRowTracking"
    delta.conf.set(key, "true")
    try:
        with pytest.raises(RowIdsNeedStatisticsError):
            convert_to_delta(delta_session(delta), ("parquet", path), collects_statistics=False)
        convert(delta, path)
    finally:
        delta.conf.unset(key)
    assert [action["add"]["baseRowId"] for action in commit(path) if "add" in action] == [0]


def test_only_one_can_make_the_table(delta: SparkSession, path: str) -> None:
    """And a file that came while ours was read is in the other's table, or in none."""
    put(path, "f.parquet", {"id": [1]})
    ours, theirs = conversion(delta, path), f"{path} of others"
    put(path, "late.parquet", {"id": [2]})
    commit_with_retries(conversion(delta, path))
    assert lose(ours, ProtocolChangedException).reason is ConflictReason.TABLE_CREATED
    assert {row.id for row in delta.read.format("delta").load(path).collect()} == {1, 2}
    put(theirs, "f.parquet", {"id": [1]})
    ours = conversion(delta, theirs)
    DeltaTable.createOrReplace(delta).location(theirs).addColumn("id", "BIGINT").execute()
    lose(ours, ProtocolChangedException)
    assert convert(delta, theirs).toDF().count() == 0


def conversion(delta: SparkSession, path: str) -> Prepared:
    """All of one but its commit."""
    source = convert_source(delta_session(delta), ("parquet", path), None)
    return prepare_conversion(source, collects_statistics=True)


def test_a_folder_that_a_stream_wrote(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Files that no batch committed are not the table's."""
    put(f"{path}", "k=1/in", {"id": [1]})
    put(f"{path}", "k=1/out", {"id": [2]})
    entry = {
        "path": f"file://{path}/k=1/in".replace(" ", "%20"),
        "size": os.path.getsize(f"{path}/k=1/in"),
        "isDir": False,
    }
    entry |= {"modificationTime": 0, "blockReplication": 1, "blockSize": 1, "action": "add"}
    Path(path, "_spark_metadata").mkdir()
    Path(path, "_spark_metadata", "0").write_text("v1\n" + json.dumps(entry))
    assert convert(delta, path, "k INT").toDF().collect() == [(1, 1)]


def test_a_table_of_the_catalog(delta: SparkSession, name: str) -> None:
    """Its files are those of the partitions that the catalog knows; its comment and properties stay."""
    columns = "id BIGINT COMMENT 'the key', P STRING"
    delta.sql(
        f"CREATE TABLE {name} ({columns}) USING parquet PARTITIONED BY (P) COMMENT 'mine' TBLPROPERTIES ('a' = 'b')"
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, 'x y'), (2, NULL)")
    folder = (
        delta.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0].data_type[len("file:") :]
    )
    put(folder, "P=unknown/f.parquet", {"id": [3]})
    with pytest.raises(CatalogPartitioningError, match="P string"):
        DeltaTable.convertToDelta(delta, name, "P INT")
    table = DeltaTable.convertToDelta(delta, name, "p STRING")
    assert sorted(table.toDF().collect()) == [(1, "x y"), (2, None)]
    detail = table.detail().collect()[0]
    assert (detail.description, detail.properties["a"], detail.partitionColumns) == ("mine", "b", ["P"])
    assert table.toDF().schema["id"] == StructField("id", LongType(), True, {"comment": "the key"})
    assert table.history().collect()[0].operationParameters["catalogTable"] == f"`spark_catalog`.`default`.`{name}`"
    described = {row.col_name: row.data_type for row in delta.sql(f"DESCRIBE EXTENDED {name}").collect()}
    assert (described["Provider"], described["Comment"]) == ("delta", "mine")
    delta.sql(f"INSERT INTO {name} VALUES (4, 'z')")
    assert delta.table(name).count() == 3
    DeltaTable.convertToDelta(delta, name)
    assert len(table.history().collect()) == 2


def test_two_names_for_one_folder(delta: SparkSession, name: str, path: str) -> None:
    """The second one follows, unless its properties say something else; a view never does."""
    other = f"{name}_2"
    delta.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet LOCATION '{path}' TBLPROPERTIES ('a' = '1')")
    delta.sql(f"CREATE TABLE {other} (id BIGINT) USING parquet LOCATION '{path}' TBLPROPERTIES ('a' = '2')")
    try:
        delta.sql(f"INSERT INTO {name} VALUES (1)")
        DeltaTable.convertToDelta(delta, name)
        with pytest.raises(ConvertPropertiesMismatchError, match="a"):
            DeltaTable.convertToDelta(delta, other)
        delta.conf.set("spark.databricks.delta.convert.metadataCheck.enabled", "false")
        table = DeltaTable.convertToDelta(delta, other)
        assert table.detail().collect()[0].properties["a"] == "2"
        assert delta.table(other).collect() == [Row(id=1)]
        delta.range(1).createOrReplaceTempView(f"{name}_view")
        with pytest.raises(NotAParquetTableError, match="view"):
            DeltaTable.convertToDelta(delta, f"{name}_view")
    finally:
        delta.conf.unset("spark.databricks.delta.convert.metadataCheck.enabled")
        delta.sql(f"DROP TABLE {other}")


def test_a_failed_cast_can_be_null(delta: SparkSession, path: str) -> None:
    put(path, "k=x/f.parquet", {"id": [1]})
    delta.conf.set("spark.databricks.delta.convert.partitionValues.ignoreCastFailure", "true")
    try:
        assert convert(delta, path, "k INT").toDF().collect() == [(1, None)]
    finally:
        delta.conf.unset("spark.databricks.delta.convert.partitionValues.ignoreCastFailure")
