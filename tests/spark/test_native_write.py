"""Writing through Spark's own Parquet writer."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.errors.environment import WrittenFileError
from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol.data_paths import decode_path, encode_path
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.native.native_engine import NativeEngine
from spark.native_tables import Files, mapped, rows_of

pytestmark = pytest.mark.spark


def files_below(root: Path) -> set[str]:
    return {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.name.endswith(".crc")
    }


def test_each_file_is_written_once_under_its_final_name(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Nothing else is left in the table's folder, and sizes are those on disk."""
    root = tmp_path / "a table%20{x}ü"
    frame = spark.range(0, 100, 1, 2).toDF("id")
    written = Files(engine, root, frame.schema).write(frame)
    names = {decode_path(add.path, table_root=str(root)) for add in written.adds}
    assert len(names) == 2
    assert names == files_below(root)
    assert all(re.fullmatch(r"part-0000\d-[0-9a-f-]{36}-c000\.snappy\.parquet", name) for name in names)
    assert written.num_rows == 100
    assert written.size_bytes == sum((root / name).stat().st_size for name in names)
    assert all(add.data_change and add.modification_time > 1_600_000_000_000 for add in written.adds)


def test_partitions_are_directories_and_come_back(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Values of every type, odd characters, nulls and empty strings, in a session of another zone."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql(
            """SELECT * FROM VALUES
            (1, 'a b/=%ü', 1.5D, 12.50BD, DATE'2024-02-29', TIMESTAMP'2024-01-01 00:00:00.123456', true, X'6162FF'),
            (2, '', double('nan'), NULL, NULL, NULL, NULL, X''),
            (3, NULL, -0.25D, -1.00BD, DATE'0001-01-01', TIMESTAMP'1950-01-01 00:00:00', false, NULL)
            AS t(id, s, d, dec, day, at, ok, bin)"""
        )
        columns = ("s", "d", "dec", "day", "at", "ok")
        files = Files(engine, tmp_path, frame.drop("bin").schema, columns)
        written = files.write(frame.drop("bin"))
        rows = files.scan().collect()
        expected = frame.drop("bin").withColumn("s", F.expr("nullif(s, '')")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    values = {json.loads(add.stats or "")["minValues"]["id"]: add.partition_values for add in written.adds}
    assert values[1] == {
        "s": "a b/=%ü",
        "d": "1.5",
        "dec": "12.50",
        "day": "2024-02-29",
        "at": "2024-01-01T05:00:00.123456Z",
        "ok": "true",
    }
    assert values[2] == {"s": None, "d": "NaN", "dec": None, "day": None, "at": None, "ok": None}


def test_binary_partition_values(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """A string of the log holds UTF-8 only; other bytes are refused, not changed."""
    frame = spark.sql("SELECT * FROM VALUES (1, X'61C3BC'), (2, NULL) AS t(id, bin)")
    files = Files(engine, tmp_path / "t", frame.schema, ("bin",))
    written = files.write(frame)
    assert {add.partition_values["bin"] for add in written.adds} == {"aü", None}
    assert rows_of(files.scan(), "id", "bin") == [(1, bytearray("aü".encode())), (2, None)]

    bad = spark.sql("SELECT 1 AS id, X'FF' AS bin")
    with pytest.raises(PartitionValueError):
        Files(engine, tmp_path / "u", bad.schema, ("bin",)).write(bad)


def test_empty_partitions_make_no_files(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    frame = spark.range(0, 10, 1, 4).where("id = 9").toDF("id")
    written = Files(engine, tmp_path, frame.schema).write(frame)
    assert len(written.adds) == 1
    assert files_below(tmp_path) == {written.adds[0].path}

    nothing = Files(engine, tmp_path / "n", frame.schema).write(frame.where("id < 0"))
    assert (nothing.adds, nothing.num_rows, nothing.size_bytes) == ((), 0, 0)
    assert files_below(tmp_path / "n") == set()


def test_a_failed_write_leaves_neither_files_nor_settings(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """What other writers have there stays. A task that outlived its job may leave a file for VACUUM."""
    theirs = Files(engine, tmp_path, T.StructType().add("id", "long"))
    kept = theirs.write(spark.range(5).toDF("id").coalesce(1))
    settings = dict(spark._jsparkSession.conf().getAllAsJava())  # type: ignore[attr-defined]
    failing = spark.range(0, 1000, 1, 4).selectExpr("if(id = 700, raise_error('no luck'), id) AS id")
    with pytest.raises(Exception, match="no luck"):
        Files(engine, tmp_path, T.StructType().add("id", "long")).write(failing)
    assert {add.path for add in kept.adds} <= files_below(tmp_path)
    assert theirs.scan().count() == 5
    assert dict(spark._jsparkSession.conf().getAllAsJava()) == settings  # type: ignore[attr-defined]


def test_a_write_after_one_that_failed_lists_only_its_own_files(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Covers fault F8, as far as a local session goes, which tries no task again."""
    flag = tmp_path / "flag"
    frame = spark.range(0, 100, 1, 2).toDF("id")

    def fail_once(batches: Any) -> Any:
        for batch in batches:
            if not flag.exists() and batch.num_rows and batch["id"][0].as_py() >= 50:
                flag.touch()
                raise RuntimeError("first attempt")
            yield batch

    files = Files(engine, tmp_path / "t", frame.schema)
    with pytest.raises(Exception, match="first attempt"):
        files.write(frame.mapInArrow(fail_once, frame.schema))
    files.write(frame.mapInArrow(fail_once, frame.schema))
    assert {add.path for add in files.adds} <= files_below(tmp_path / "t")
    assert files.scan().count() == 100


def test_max_records_per_file_and_options(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    frame = spark.range(0, 100, 1, 1).toDF("id")
    files = Files(engine, tmp_path, frame.schema)
    written = files.write(frame, max_records_per_file=30, options=[("compression", "zstd")])
    assert sorted(json.loads(add.stats or "")["numRecords"] for add in written.adds) == [10, 30, 30, 30]
    assert all(".zstd.parquet" in add.path for add in written.adds)
    metadata = pq.read_metadata(tmp_path / written.adds[0].path)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_codec_and_random_prefix_of_the_table(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 AS p").coalesce(1)
    files = Files(engine, tmp_path, frame.schema, ("p",))
    properties = {
        "delta.randomizeFilePrefixes": "true",
        "delta.randomPrefixLength": "5",
        "delta.parquet.compression.codec": "GZIP",
    }
    written = files.write(frame, properties)
    assert all(re.fullmatch(r"[A-Za-z0-9]{5}/p=[01]/part-.*\.gz\.parquet", add.path) for add in written.adds)
    assert rows_of(files.scan()) == [(0, 0), (1, 1), (2, 0), (3, 1)]


def test_timestamps_are_microseconds_and_dates_proleptic_under_all_settings(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """INT96 has no statistics, and other engines know nothing of the old calendar."""
    frame = spark.sql(
        "SELECT TIMESTAMP'1500-01-01 00:00:00' AS t, DATE'1500-01-01' AS d, TIMESTAMP_NTZ'1500-01-01 00:00:00' AS n"
    )
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        written = Files(engine, tmp_path, frame.schema).write(frame.coalesce(1))
        assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    row = pq.read_table(tmp_path / written.adds[0].path).to_pylist()[0]
    assert row["d"] == datetime.date(1500, 1, 1)
    assert row["t"] == datetime.datetime(1500, 1, 1, tzinfo=datetime.UTC)
    assert row["n"] == datetime.datetime(1500, 1, 1)


def test_executors_see_the_session_s_settings(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """A write outside a SQL execution would parse dates with defaults."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        frame = spark.range(1).selectExpr("to_date(concat('2024-1-', id + 1), 'yyyy-MM-dd') AS d")
        files = Files(engine, tmp_path, frame.schema)
        files.write(frame)
        assert rows_of(files.scan()) == [(datetime.date(2024, 1, 1),)]
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")


def test_files_have_nullable_columns(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("id", "named_struct('a', id) AS s", "array(id) AS l")
    written = Files(engine, tmp_path, frame.schema).write(frame)
    schema = pq.ParquetFile(tmp_path / written.adds[0].path).schema_arrow
    assert all(field.nullable for field in schema)
    assert schema.field("s").type.field(0).nullable


def stats_of(files: Files, frame: Any, properties: dict[str, str] | None = None) -> dict[str, Any]:
    (add,) = files.write(frame.coalesce(1), properties).adds
    stats: dict[str, Any] = json.loads(add.stats or "", parse_float=decimal.Decimal)
    return stats


def test_statistics_come_from_footers(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Statistics cover several row groups, nested fields and nulls, as far as a footer proves them."""
    frame = spark.range(0, 60_000, 1, 1).selectExpr(
        "id",
        "CASE WHEN id % 10 = 0 THEN NULL ELSE cast(id AS int) END AS i",
        "cast(id - 30000 AS decimal(30,4)) AS big",
        "cast(id AS decimal(9,2)) AS small",
        "concat('text-', repeat('x', 40), lpad(id, 6, '0')) AS s",
        "if(id = 7, NULL, named_struct('a', id, 'dotted.name', cast(id AS double))) AS st",
        "timestamp_micros(id * 1001) AS ts",
        "date_add(DATE'2024-01-01', cast(id % 10 AS int)) AS d",
        "id % 2 = 0 AS b",
        "array(id) AS l",
        "cast(NULL AS long) AS none",
        "cast(concat(id) AS binary) AS bin",
        "uuid() AS noise",
    )
    stats = stats_of(Files(engine, tmp_path, frame.schema), frame, {"delta.dataSkippingNumIndexedCols": "13"})
    assert stats["numRecords"] == 60_000
    low, high, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    assert (low["id"], high["id"], nulls["id"]) == (0, 59_999, 0)
    assert (low["i"], high["i"], nulls["i"]) == (1, 59_999, 6000)
    assert (low["big"], high["big"]) == (decimal.Decimal("-30000.0000"), decimal.Decimal("29999.0000"))
    assert (low["small"], high["small"]) == (decimal.Decimal("0.00"), decimal.Decimal("59999.00"))
    assert low["s"] == "text-" + "x" * 27
    assert high["s"] > "text-" + "x" * 40
    assert (low["st"]["a"], high["st"]["dotted.name"], nulls["st"]) == (0, 59_999, {"a": 1, "dotted.name": 1})
    assert low["ts"] == "1970-01-01T00:00:00.000Z"
    assert (low["d"], high["d"]) == ("2024-01-01", "2024-01-10")
    assert nulls["none"] == 60_000
    assert {"none", "b", "l", "bin"}.isdisjoint(low)
    assert "l" not in nulls
    assert "noise" not in nulls


def test_variants_are_not_shredded(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Shredding has a feature of its own, so that readers of other tables need not know it."""
    frame = spark.range(3).select("id", F.parse_json(F.lit('{"a": 1}')).alias("v"))
    [add] = Files(engine, tmp_path, frame.schema).write(frame.coalesce(1)).adds
    columns = pq.ParquetFile(tmp_path / decode_path(add.path, table_root=str(tmp_path))).metadata.schema
    assert {columns.column(i).path for i in range(len(columns.names))} == {"id", "v.metadata", "v.value"}
    assert json.loads(add.stats or "")["maxValues"] == {"id": 2}


def test_floats_with_nan_have_no_upper_bound(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Footers leave NaN out of bounds or in, by version; a bound that leaves it out would skip rows."""
    frame = spark.sql("SELECT * FROM VALUES (double('nan'), 1.5D, 0.0D), (1.0D, 2.5D, -0.0D) AS t(x, y, z)")
    stats = stats_of(Files(engine, tmp_path, frame.schema), frame)
    assert "x" not in stats["maxValues"]
    assert stats["minValues"].get("x", 1) in (1, decimal.Decimal("1.0"))
    assert (stats["minValues"]["y"], stats["maxValues"]["y"]) == (decimal.Decimal("1.5"), decimal.Decimal("2.5"))
    assert stats["minValues"]["z"] == 0
    assert stats["maxValues"]["z"] == 0


def test_nan_in_one_of_many_row_groups(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    frame = spark.range(0, 300_000, 1, 1).selectExpr("if(id = 299999, double('nan'), rand(1)) AS x", "uuid() AS noise")
    files = Files(engine, tmp_path, frame.schema)
    (add,) = files.write(frame, options=[("parquet.block.size", str(1 << 20))]).adds
    assert pq.read_metadata(tmp_path / add.path).num_row_groups > 1
    assert "x" not in json.loads(add.stats or "")["maxValues"]
    assert files.scan().where("isnan(x)").count() == 1


def test_statistics_of_mapped_and_chosen_columns(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    plain = T.StructType.fromDDL("a long, s struct<b: long, c: string>, p string")
    files = Files(engine, tmp_path, mapped(plain), ("p",), ColumnMappingMode.NAME)
    frame = spark.createDataFrame([(1, (2, "x"), "q")], plain)
    assert stats_of(files, frame)["minValues"] == {"col-1": 1, "col-2": {"col-3": 2, "col-4": "x"}}
    chosen = stats_of(files, frame, {"delta.dataSkippingStatsColumns": "s.c"})
    assert chosen["minValues"] == {"col-2": {"col-4": "x"}}


def test_a_file_cut_short_on_its_way_is_not_committed(
    spark: SparkSession, engine: NativeEngine, tmp_path: Path
) -> None:
    """Covers faults F2, F5 and F7: what does not have its size or its footer is no data file."""
    frame = spark.range(10).toDF("id").coalesce(1)

    def torn(path: str) -> Any:
        import pyarrow as pa

        return pa.BufferReader((tmp_path / path).read_bytes()[:-3])

    with pytest.raises(WrittenFileError, match="bytes"):
        Files(engine, tmp_path, frame.schema).write(frame, open_file=torn)


def test_tables_on_a_hadoop_file_system(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Footers are read and files are found through the file system that Spark writes to."""
    (tmp_path / "disk").mkdir()
    mounts = f"tests{uuid.uuid4().hex[:8]}"
    configuration = spark._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{mounts}.link./mounted", (tmp_path / "disk").as_uri())
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "concat(id % 2, ' %') AS p")
    files = Files(engine, f"viewfs://{mounts}/mounted/a t", frame.schema, ("p",))  # type: ignore[arg-type]
    written = files.write(frame)
    assert written.num_rows == 100
    assert {add.path for add in written.adds} == {
        encode_path(str(path)) for path in files_below(tmp_path / "disk" / "a t")
    }
    assert sum(json.loads(add.stats or "")["numRecords"] for add in written.adds) == 100
    files.hide(0, [0])
    assert files.scan().where("p = '1 %' OR id >= 0").count() == 99


def test_a_frame_of_our_own_scan_is_written(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> None:
    """Also one that sorts, shuffles and joins, with hidden rows in it."""
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "id % 5 AS k")
    files = Files(engine, tmp_path, frame.schema)
    files.write(frame)
    files.hide(0, range(10))
    rows = files.scan().join(files.scan().groupBy("k").count(), "k").select("id", "k").repartition(3).sort("id")
    copy = Files(engine, tmp_path / "copy", frame.schema)
    assert copy.write(rows).num_rows == 90
    assert rows_of(copy.scan()) == rows_of(files.scan())
