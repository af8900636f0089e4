"""Reading through Spark's own Parquet reader."""

from __future__ import annotations

import datetime
import decimal
import gc
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.errors.environment import StorageError
from anabranch.predicates.expressions import Column, Comparison, In, nodes_of, references
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.gateway.python_errors import original_error
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows import file_listing
from spark.native_tables import Files, mapped, rows_of

pytestmark = pytest.mark.spark


def people(spark: SparkSession, engine: NativeEngine, root: Path) -> Files:
    """1,000 rows in six files over three partitions."""
    frame = spark.range(0, 1000, 1, 2).selectExpr("id", "cast(id % 3 as string) AS part", "concat('n', id) AS name")
    files = Files(engine, root, frame.schema, ("part",))
    files.write(frame)
    return files


def test_scan_gives_rows_and_schema_of_the_table(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Columns in the table's order, with its types and nullability, for any name of the root."""
    files = people(spark, engine, tmp_path / "a b%20c{d,e}*ü")
    frame = files.scan()

    assert frame.columns == ["id", "part", "name"]
    assert frame.schema == files.schema
    assert frame.count() == 1000
    assert rows_of(frame.where("id = 5")) == [(5, "2", "n5")]


def test_a_file_that_skipping_rules_out_is_not_opened(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """The planner hands over resolved filters and takes the mask, also inside joins."""
    files = people(spark, engine, tmp_path)
    files.mask = lambda _: np.array([i == 0 for i in range(6)])
    (tmp_path / files.adds[1].path).unlink()

    first = files.scan().where("id < 10 AND name LIKE 'n%'")
    kept = pq.read_table(tmp_path / files.adds[0].path)["id"].to_pylist()
    assert {row.id for row in first.collect()} == {number for number in kept if number < 10}
    assert {("id",), ("name",)} <= references(files.predicates[-1])

    other = spark.range(100).withColumnRenamed("id", "other")
    joined = other.join(files.scan(), F.col("other") == F.col("id")).where("other < 4")
    assert {row.id for row in joined.collect()} == {number for number in kept if number < 4}


def test_partition_filters_are_exact(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Spark does not look at them again, so conditions that skipping does not understand must hold all the same."""
    files = people(spark, engine, tmp_path)
    assert files.scan().where("upper(concat(part, 'x')) = '1X'").count() == 333
    assert files.scan().where("part IN ('0', '2') AND part <> '2'").count() == 334
    assert files.scan().where("cast(part AS int) * 2 = 4 OR part IS NULL").count() == 333
    assert files.scan().where("part = '1' AND id % 2 = 0").count() == 166


def test_dynamic_partition_pruning_and_subqueries(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)
    wanted = spark.createDataFrame([("1", 1), ("7", 2)], "p string, n int").where("n = 1")
    assert files.scan().join(wanted, F.col("part") == F.col("p")).count() == 333

    files.scan().createOrReplaceTempView("scanned_people")
    assert spark.sql("SELECT * FROM scanned_people WHERE id = (SELECT max(id) FROM scanned_people)").count() == 1


PARTITION_TYPES: list[tuple[str, list[str | None], list[Any]]] = [
    ("string", ["a b", "ä/=%", None, "x\ny", "{a,b}*?", ""], ["a b", "ä/=%", None, "x\ny", "{a,b}*?", None]),
    ("int", ["-5", None], [-5, None]),
    ("bigint", ["9223372036854775807"], [2**63 - 1]),
    ("tinyint", ["-128"], [-128]),
    ("smallint", ["77"], [77]),
    ("boolean", ["true", "false", None], [True, False, None]),
    ("float", ["1.5"], [1.5]),
    ("double", ["-0.25", "1.0E10"], [-0.25, 1e10]),
    ("decimal(30,3)", ["123456789012345678901.250"], [decimal.Decimal("123456789012345678901.250")]),
    ("date", ["2024-02-29", "0001-01-01"], [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]),
    ("binary", ["abc"], [bytearray(b"abc")]),
    ("timestamp_ntz", ["2024-01-01 10:00:00.123456"], [datetime.datetime(2024, 1, 1, 10, 0, 0, 123456)]),
]


@pytest.mark.parametrize(("kind", "texts", "values"), PARTITION_TYPES, ids=[row[0] for row in PARTITION_TYPES])
def test_partition_values_of_every_type(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path, kind: str, texts: list[str | None], values: list[Any]
) -> None:
    """Values come from the log alone; files lie in one folder and have no such column."""
    schema = T.StructType(
        [T.StructField("p", T.StructType.fromDDL(f"p {kind}")[0].dataType), T.StructField("id", T.LongType())]
    )
    files = Files(engine, tmp_path, schema, ("p",))
    for number, text in enumerate(texts):
        files.adds.append(parquet_file(tmp_path, f"f{number}.parquet", pa.table({"id": [number]}), {"p": text}))

    rows = files.scan().orderBy("id").collect()
    assert [row.p for row in rows] == values
    assert files.scan().where("p IS NOT NULL").count() == sum(value is not None for value in values)


def test_partition_timestamps_name_their_zone_or_take_the_sessions(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    schema = T.StructType().add("p", "timestamp").add("id", "long")
    files = Files(engine, tmp_path, schema, ("p",))
    for number, text in enumerate(["2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00"]):
        files.adds.append(parquet_file(tmp_path, f"f{number}.parquet", pa.table({"id": [number]}), {"p": text}))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        seconds = [row[0] for row in files.scan().orderBy("id").selectExpr("unix_seconds(p)").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert seconds == [1704067200, 1704067200 + 5 * 3600]


def test_a_partition_value_that_is_none_is_an_error(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = Files(engine, tmp_path, T.StructType().add("p", "integer").add("id", "long"), ("p",))
    files.adds.append(parquet_file(tmp_path, "f.parquet", pa.table({"id": [1]}), {"p": "seven"}))
    with pytest.raises(Exception, match="seven"):
        files.scan().collect()


def test_hidden_rows_are_left_out(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Some files have a vector, some have none; vectors are read for files that survive skipping."""
    files = people(spark, engine, tmp_path)
    before = {row.id for row in files.scan().collect()}
    hidden = pq.read_table(tmp_path / files.adds[0].path)["id"].to_pylist()[1:4]
    files.hide(0, [1, 2, 3])
    all_of_one_file = pq.read_table(tmp_path / files.adds[3].path)["id"].to_pylist()
    files.hide(3, range(len(all_of_one_file)))
    hidden += all_of_one_file

    frame = files.scan()
    assert files.loaded == []
    assert frame.columns == ["id", "part", "name"]
    assert {row.id for row in frame.collect()} == before - set(hidden)
    assert frame.count() == 1000 - len(hidden)
    assert sorted(set(files.loaded)) == ["vector-0-0", "vector-3-1"]

    files.loaded.clear()
    files.mask = lambda _: np.array([i != 3 for i in range(6)])
    hides_again = Files(
        files.engine, files.root, files.schema, files.partition_columns, adds=files.adds[:], vectors=files.vectors
    )
    hides_again.hide(0, [0])
    hides_again.mask = files.mask
    hides_again.scan().count()
    assert "vector-3-1" not in hides_again.loaded


@pytest.mark.parametrize("code_bytes_max", ["65535", "1"])
def test_conditions_are_not_evaluated_for_hidden_rows(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path, code_bytes_max: str
) -> None:
    """They may fail for those. With code that is too long for the JVM's compiler Spark evaluates an expression instead."""
    frame = spark.range(0, 10, 1, 1).toDF("id")
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame)
    files.hide(0, [0])
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.codegen.hugeMethodLimit", code_bytes_max)
    try:
        assert rows_of(files.scan().where("1 / id > 0.3")) == [(1,), (2,), (3,)]
        assert files.scan().where("1 / id > 0.3").groupBy("id").count().count() == 3
    finally:
        spark.conf.unset("spark.sql.codegen.hugeMethodLimit")
        spark.conf.unset("spark.sql.ansi.enabled")


def test_hidden_rows_far_into_a_large_file(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Chunks that hide nothing, the first and the last row, and rows behind the last hidden one."""
    frame = spark.range(0, 50_000, 1, 1).toDF("id")
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame)
    hidden = {0, 63, 64, 4095, 4096, 12_288, 40_001}
    files.hide(0, hidden)
    assert {row.id for row in files.scan().collect()} == set(range(50_000)) - hidden

    files.hide(0, [49_999])
    assert files.scan().agg(F.max("id")).first()[0] == 49_998


def test_hidden_rows_of_a_file_that_is_split(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """One large file is read by several tasks, which still agree on positions."""
    frame = spark.range(0, 400_000, 1, 1).selectExpr("id", "uuid() AS noise")
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame, options=[("parquet.block.size", str(1 << 20))])
    files.hide(0, range(0, 400_000, 1000))
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 20))
    try:
        scan = files.scan()
        assert scan.rdd.getNumPartitions() > 3
        assert scan.count() == 399_600
        assert scan.where("id % 1000 = 0").count() == 0
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_hidden_rows_in_a_table_too_wide_for_batches(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Such a scan copies constants into every row; hidden rows are then joined."""
    columns = [f"id + {n} AS c{n}" for n in range(120)]
    frame = spark.range(0, 10_000, 1, 1).selectExpr("id", *columns)
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame)
    files.hide(0, range(5000, 9000))
    scan = files.scan()
    assert scan.columns == frame.columns
    assert scan.count() == 6000
    assert "BroadcastHashJoin" in scan._jdf.queryExecution().executedPlan().toString()
    assert rows_of(scan.where("id BETWEEN 4999 AND 9000"), "id", "c119") == [(4999, 5118), (9000, 9119)]
    assert files.scan(with_positions=True).where(f"{ROW_INDEX_COLUMN} = 9000").first()["c1"] == 9001


def test_positions(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """File ids are row numbers of the file table, positions count hidden rows; filters on ids open no other file."""
    files = people(spark, engine, tmp_path)
    files.hide(2, [0, 1])
    frame = files.scan(with_positions=True)
    assert frame.columns == ["id", "part", "name", ROW_INDEX_COLUMN, FILE_ID_COLUMN]
    for number, add in enumerate(files.adds):
        ids = pq.read_table(tmp_path / add.path)["id"].to_pylist()
        live = {(position, id_) for position, id_ in enumerate(ids) if number != 2 or position > 1}
        positions = frame.where(F.col(FILE_ID_COLUMN) == number).select(ROW_INDEX_COLUMN, "id").collect()
        assert {tuple(row) for row in positions} == live

    for add in files.adds[1:]:
        (tmp_path / add.path).unlink()
    assert frame.where(F.col(FILE_ID_COLUMN) == 0).count() > 0


def test_metadata_columns_can_still_be_selected(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)
    for _ in range(2):
        frame = files.scan(with_metadata=True).where("id = 30")
        row = frame.select("id", "_metadata.file_name", "_metadata.row_index").first()
        ids = pq.read_table(next(tmp_path.rglob(row.file_name)))["id"].to_pylist()
        assert ids[row.row_index] == 30
        files.hide(0, [1])


def test_scans_of_one_snapshot_are_equal_and_share_work(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Plan comparison, self-joins, exchange reuse and the cache work as for any table."""
    files = people(spark, engine, tmp_path)
    assert files.scan().sameSemantics(files.scan())
    assert not files.scan().sameSemantics(files.scan(tracked=True))
    assert files.scan().join(files.scan(), "id").count() == 1000

    cached = files.scan().cache()
    try:
        cached.count()
        plan = files.scan().groupBy("part").count()._jdf.queryExecution().executedPlan().toString()
        assert "InMemoryTableScan" in plan
        tracked = files.scan(tracked=True)._jdf.queryExecution().executedPlan().toString()
        assert "InMemoryTableScan" not in tracked
        fewer = Files(engine, tmp_path, files.schema, files.partition_columns, adds=files.adds[:3])
        assert fewer.scan().count() < 1000
    finally:
        cached.unpersist()


def test_an_error_of_ours_reaches_the_user(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)

    def fail(_: object) -> Any:
        raise StorageError(root="r", path="x", doing="read", cause="the disk is on fire")

    files.mask = fail
    with pytest.raises(Exception, match="the disk is on fire") as caught:
        files.scan().count()
    error = original_error(caught.value)
    assert isinstance(error, StorageError)


def test_an_unexpected_error_in_skipping_reads_all_files(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    files = people(spark, engine, tmp_path)
    files.mask = lambda _: 1 / 0  # type: ignore[return-value]
    assert files.scan().where("id < 10").count() == 10


def test_an_unreadable_vector_stops_the_query(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)
    files.hide(0, [1])
    files.vectors.clear()
    with pytest.raises((PySparkException, Exception)):
        files.scan().count()


def test_a_missing_file_is_an_error_under_all_settings(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Covers fault F48."""
    files = people(spark, engine, tmp_path)
    (tmp_path / files.adds[2].path).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|No such file"):
            files.scan().count()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_scans_from_many_threads_and_after_the_frame_is_gone(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Covers fault F62."""
    files = people(spark, engine, tmp_path)
    files.hide(0, [0])
    files.scan().createOrReplaceTempView("kept_people")
    gc.collect()
    counts: list[int] = []

    def count() -> None:
        counts.append(spark.sql("SELECT * FROM kept_people WHERE id >= 0").count())
        counts.append(files.scan().where("id >= 0").count())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [999] * 8


NESTED = T.StructType(
    [
        T.StructField("id", T.LongType(), False),
        T.StructField("odd name.with `ticks`", T.StringType()),
        T.StructField("st", T.StructType().add("x", "long").add("in ner", T.StructType().add("y", "string"))),
        T.StructField("list", T.ArrayType(T.StructType().add("a", "integer").add("b", "integer"))),
        T.StructField("map", T.MapType(T.StringType(), T.StructType().add("v", "double"))),
        T.StructField("part", T.StringType()),
    ]
)
NESTED_ROWS = [(n, f"s{n}", (n, (f"y{n}",)), [(n, n + 1)], {"k": (n / 2,)}, f"p{n % 2}") for n in range(20)] + [
    (20, None, None, None, None, None)
]


@pytest.mark.parametrize("mode", [ColumnMappingMode.NAME, ColumnMappingMode.ID])
def test_column_mapping(spark: SparkSession, engine: NativeEngine, tmp_path: Path, mode: ColumnMappingMode) -> None:
    """Files have physical names and ids at every level; rows and filters have logical ones."""
    schema = mapped(NESTED)
    files = Files(engine, tmp_path, schema, ("part",), mode)
    files.write(spark.createDataFrame(NESTED_ROWS, NESTED).coalesce(1))
    footer = pq.read_schema(tmp_path / files.adds[0].path)
    assert footer.names == ["col-1", "col-2", "col-3", "col-7", "col-10"]
    assert footer.field("col-3").type.field(0).name == "col-4"
    assert footer.field("col-3").metadata[b"PARQUET:field_id"] == b"3"
    assert footer.field("col-3").type.field(1).type.field(0).metadata[b"PARQUET:field_id"] == b"6"
    assert {tuple(add.partition_values) for add in files.adds} == {("col-12",)}

    frame = files.scan()
    assert frame.schema.simpleString() == NESTED.simpleString()
    assert rows_of(frame) == rows_of(spark.createDataFrame(NESTED_ROWS, NESTED))
    assert frame.where("st.x = 7 AND part = 'p1'").count() == 1
    assert references(files.predicates[-1]) <= {("col-3",), ("col-3", "col-4"), ("col-12",)}
    assert frame.where("`odd name.with ``ticks``` = 's3'").select("st.`in ner`.y").first()[0] == "y3"
    assert frame.select("LIST.A").where("id = 4").first()[0] == [4]
    files.hide(1, [0, 1, 2])
    assert files.scan().where("st.x >= 0").count() == 17


def test_pushed_filters_and_pruned_columns_use_physical_names(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Nested columns are pruned, and row groups are skipped, in mapped tables as in others."""
    schema = mapped(NESTED)
    files = Files(engine, tmp_path, schema, (), ColumnMappingMode.NAME)
    files.write(spark.createDataFrame(NESTED_ROWS, NESTED).coalesce(1))
    frame = files.scan().where("st.x > 100").select("st.x")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(st.x), GreaterThan(st.x,100)]" in plan
    assert "ReadSchema: struct<st:struct<x:bigint>>" in plan
    assert frame.count() == 0
    metrics = {}
    frame.collect()
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    metrics = scan.metrics().apply("numOutputRows").value()
    assert metrics == 0


def test_ids_find_columns_that_other_engines_named_otherwise(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Names in files mean nothing in id mode, and a column without its id in a file is null."""
    schema = mapped(T.StructType().add("a", "long").add("b", "long").add("c", "long"), prefix="name")
    files = Files(engine, tmp_path, schema, (), ColumnMappingMode.ID)
    fields = [
        pa.field("name2", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("else", pa.int64(), metadata={"PARQUET:field_id": "2"}),
    ]
    files.adds.append(parquet_file(tmp_path, "f.parquet", pa.table([[1, 2], [10, 20]], schema=pa.schema(fields)), {}))
    assert rows_of(files.scan()) == [(1, 10, None), (2, 20, None)]
    assert rows_of(files.scan().where("b = 20")) == [(2, 20, None)]


def test_a_file_without_ids_is_refused_in_id_mode(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Covers "Reader Requirements for Column Mapping": refuse, since names mean nothing."""
    schema = mapped(T.StructType().add("a", "long"), prefix="name")
    files = Files(engine, tmp_path, schema, (), ColumnMappingMode.ID)
    files.adds.append(parquet_file(tmp_path, "f.parquet", pa.table({"name1": [1]}), {}))
    with pytest.raises(Exception, match=r"(?i)field id"):
        files.scan().collect()


def test_columns_added_later_are_null_in_old_files(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Top-level, inside structs, and inside arrays of structs."""
    old = spark.range(3).selectExpr("id", "named_struct('a', id) AS s", "array(named_struct('a', id)) AS l")
    files = Files(engine, tmp_path, old.schema)
    files.write(old.coalesce(1))
    new = T.StructType.fromDDL("id long, s struct<a: long, b: string>, l array<struct<a: long, b: int>>, more string")
    files.schema = new
    files.write(spark.createDataFrame([(9, (9, "b"), [(9, 1)], "m")], new).coalesce(1))
    rows = {row.id: row for row in files.scan().collect()}
    assert rows[2].s.b is None
    assert rows[2].l[0].b is None
    assert rows[2].more is None
    assert rows[9].s.b == "b"
    assert files.scan().where("s.b IS NULL").count() == 3


WIDENED = [
    ("byte", "int", [1, 2], [2**31 - 1]),
    ("short", "long", [1, 2], [2**40]),
    ("int", "long", [1, 2], [2**40]),
    ("float", "double", [1.5], [1e300]),
    ("int", "double", [7], [1e300]),
    ("decimal(5,2)", "decimal(12,2)", [decimal.Decimal("1.25")], [decimal.Decimal("1234567890.25")]),
    ("decimal(5,2)", "decimal(20,5)", [decimal.Decimal("1.25")], [decimal.Decimal("1.23456")]),
    ("int", "decimal(12,1)", [5], [decimal.Decimal("7.5")]),
    ("date", "timestamp_ntz", [datetime.date(2024, 1, 2)], [datetime.datetime(2024, 1, 2, 3)]),
]


@pytest.mark.parametrize(("old", "new", "before", "after"), WIDENED, ids=[f"{row[0]}-{row[1]}" for row in WIDENED])
def test_files_from_before_a_column_was_widened(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path, old: str, new: str, before: list[Any], after: list[Any]
) -> None:
    """See "Type Widening" of PROTOCOL.md: old and new files in one scan."""
    old_type = T.StructType.fromDDL(f"v {old}")
    files = Files(engine, tmp_path, old_type)
    files.write(spark.createDataFrame([(value,) for value in before], old_type).coalesce(1))
    files.schema = T.StructType.fromDDL(f"v {new}")
    files.write(spark.createDataFrame([(value,) for value in after], files.schema).coalesce(1))
    widened = spark.createDataFrame([(value,) for value in before], old_type).selectExpr(f"CAST(v AS {new}) AS v")
    expected = [row.v for row in widened.collect()] + after
    assert sorted(row.v for row in files.scan().collect()) == sorted(expected)
    largest = max(expected)
    assert files.scan().where(F.col("v") >= F.lit(largest).cast(new)).count() == 1


def test_types_that_need_care(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Void, variant, timestamps with and without zone, char and varchar."""
    frame = spark.range(2).selectExpr(
        "id",
        "NULL AS nothing",
        "named_struct('a', id, 'none', NULL) AS s",
        "parse_json('{\"k\": 1}') AS v",
        "TIMESTAMP_NTZ'2024-01-01 00:00:00' AS ntz",
        "TIMESTAMP'1500-01-01 00:00:00' AS old",
    )
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame.coalesce(1))
    read = files.scan()
    assert read.columns == frame.columns
    row = (
        read.where("id = 1")
        .selectExpr(
            "nothing", "s.a", "s.none", "variant_get(v, '$.k', 'int')", "ntz", "old = TIMESTAMP'1500-01-01 00:00:00'"
        )
        .first()
    )
    assert tuple(row) == (None, 1, None, 1, datetime.datetime(2024, 1, 1), True)


def test_char_columns_are_padded(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    schema = T.StructType([T.StructField("c", T.StringType(), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"})])
    files = Files(engine, tmp_path, schema)
    files.adds.append(parquet_file(tmp_path, "f.parquet", pa.table({"c": ["ab"]}), {}))
    assert files.scan().first().c == "ab  "
    assert files.scan().where("c = 'ab'").count() == 1


def test_legacy_dates_and_int96(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Files of old Sparks are read as Spark's own reader reads them."""
    for key in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
        spark.conf.set(f"spark.sql.parquet.{key}", "LEGACY")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    frame = spark.sql("SELECT DATE'1000-01-01' AS d, TIMESTAMP'1000-01-01 00:00:00' AS t")
    try:
        frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    finally:
        for key in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite", "outputTimestampType"):
            spark.conf.unset(f"spark.sql.parquet.{key}")
    files = Files(engine, tmp_path / "t", frame.schema)
    (name,) = [path.name for path in (tmp_path / "t").glob("*.parquet")]
    files.adds.append(add_of(tmp_path / "t", name, {}))
    assert files.scan().where("d = DATE'1000-01-01' AND t = TIMESTAMP'1000-01-01 00:00:00'").count() == 1


def test_files_elsewhere_need_leave(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Absolute paths, as shallow clones have them."""
    source = tmp_path / "source x"
    files = Files(engine, tmp_path / "clone", T.StructType().add("id", "long"))
    add = parquet_file(source, "f 1.parquet", pa.table({"id": [5]}), {})
    files.adds.append(
        AddFile(
            path=(source / "f 1.parquet").as_uri(),
            partition_values={},
            size=add.size,
            modification_time=0,
            data_change=True,
        )
    )
    assert rows_of(files.scan(allowed_prefixes=(str(source),))) == [(5,)]
    with pytest.raises(Exception, match="outside"):
        files.scan()


def test_versions_read(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Scans are found below joins, in subqueries and under cached frames; time travel does not count."""
    files = people(spark, engine, tmp_path / "t(1) of")
    root = str(files.root)
    nested = files.scan().where("id > 1").groupBy("part").count().join(spark.range(3))
    assert versions_read(nested, root) == {3}
    assert versions_read(nested, root + "2") == set()
    assert versions_read(files.scan(version=None), root) == set()
    assert versions_read(spark.range(3), root) == set()
    assert versions_read(files.scan(version=8).union(files.scan()), root) == {3, 8}
    files.scan().createOrReplaceTempView("read_people")
    assert versions_read(spark.sql("SELECT (SELECT max(id) FROM read_people) AS m"), root) == {3}


def test_no_files(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = Files(engine, tmp_path, T.StructType().add("id", "long").add("p", "integer"), ("p",))
    assert files.scan().where("p = 1").collect() == []
    assert files.scan(with_positions=True).count() == 0


@pytest.mark.long
def test_many_files_are_handed_over_at_once(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """100,000 files, each in a partition of its own; not one is opened."""
    count = 100_000
    schema = T.StructType().add("p", "long").add("id", "long")
    files = Files(engine, tmp_path, schema, ("p",))
    files.adds += [
        AddFile(
            path=f"p={n}/part-{n:08d}.parquet",
            partition_values={"p": str(n)},
            size=1000,
            modification_time=n,
            data_change=True,
        )
        for n in range(count)
    ]
    request = files.request()
    frame = engine.scan(request)
    assert frame.where("p < 0").count() == 0
    assert engine.scan(request).where("p BETWEEN 5 AND 7").rdd.getNumPartitions() <= 2
    assert len(frame.inputFiles()) == count


def test_paths_are_sent_in_parts(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part ends in the middle of a character."""
    monkeypatch.setattr(file_listing, "SENT_BYTES_MAX", 7)
    files = people(spark, engine, tmp_path / "Flüsse, 河")
    frame = files.scan()
    assert {Path(unquote(name)).name for name in frame.inputFiles()} == {Path(add.path).name for add in files.adds}
    assert rows_of(frame.where("id IN (5, 999)")) == [(5, "2", "n5"), (999, "0", "n999")]


def test_unused_scans_are_released(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """The JVM holds what it calls back for as long as a plan can, and no longer."""
    files = people(spark, engine, tmp_path)
    pool = spark.sparkContext._gateway.gateway_property.pool
    for _ in range(50):
        files.scan()
    filled = len(pool)
    assert filled > 20
    for _ in range(20):
        gc.collect()
        spark._jvm.java.lang.System.gc()
        time.sleep(0.1)
        if len(pool) < filled / 2:
            break
    assert len(pool) < filled / 2
    assert files.scan().where("id = 1").count() == 1


def test_a_mask_of_the_wrong_length_stops_the_query(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)
    files.mask = lambda _: np.ones(2, dtype=np.bool_)
    with pytest.raises(Exception, match="expected a byte for each of 6 files"):
        files.scan().count()


def test_predicates_are_those_of_the_query(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    files = people(spark, engine, tmp_path)
    files.scan().where("id = 5 AND part = '1'").count()
    compared = {part.left.path[0] for part in nodes_of(files.predicates[-1]) if isinstance(part, Comparison)}
    assert compared == {"id", "part"}
    many = list(range(0, 4000, 2))
    files.scan().where(F.col("id").isin(many)).count()
    assert Column(("id",)) in {part.column for part in nodes_of(files.predicates[-1]) if isinstance(part, In)}


def parquet_file(root: Path, name: str, table: pa.Table, partition_values: dict[str, str | None]) -> AddFile:
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, root / name)
    return add_of(root, name, partition_values)


def add_of(root: Path, name: str, partition_values: dict[str, str | None]) -> AddFile:
    size = (root / name).stat().st_size
    return AddFile(path=name, partition_values=partition_values, size=size, modification_time=0, data_change=True)
