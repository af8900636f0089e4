"""What is written is read again: types, names, partitions, vectors, vagaries of files."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from anabranch.schema.column_mapping import ID, PHYSICAL_NAME, ColumnMappingMode
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.native.plan_reading import versions_read
from spark.engines import EngineTable, mapped, struct

pytestmark = [pytest.mark.spark]

MakeTable = Callable[..., EngineTable]
MAPPINGS = [ColumnMappingMode.NAME, ColumnMappingMode.ID]

ODD_TEXTS = ["plain", "a b", "a/b", "a%2Fb", "é☃\U0001f600", "x=1", "#?&", "[a]{b}*", "..", "a:b", "q'\"", "\t", "01"]


def only_id() -> StructType:
    return struct(("id", LongType()))


def long_and_text(table: EngineTable, count: int = 6, *, parts: int = 1) -> Any:
    return table.spark.range(0, count, 1, parts).selectExpr("id", "concat('name ', id) AS text")


def with_positions(table: EngineTable) -> DataFrame:
    """The rows, with file ids and positions as their last columns."""
    names = [f"`{name}`" for name in table.schema.names]
    return table.scan(with_positions=True).select(*names, FILE_ID_COLUMN, ROW_INDEX_COLUMN)


# Round trips


ALL_TYPES: list[tuple[str, DataType, str]] = [
    ("boolean", BooleanType(), "true"),
    ("byte", ByteType(), "-128"),
    ("short", ShortType(), "32767"),
    ("int", IntegerType(), "-2147483648"),
    ("long", LongType(), "9223372036854775807"),
    ("float", FloatType(), "0.1"),
    ("double", DoubleType(), "-1.5e300"),
    ("small decimal", DecimalType(5, 2), "'-999.99'"),
    ("long decimal", DecimalType(18, 4), "'12345678901234.5678'"),
    ("wide decimal", DecimalType(38, 10), "'1234567890123456789012345678.0123456789'"),
    ("string", StringType(), "'é☃ text'"),
    ("binary", BinaryType(), "X'00FF10'"),
    ("date", DateType(), "date'1582-10-04'"),
    ("timestamp", TimestampType(), "timestamp'2024-02-29 12:34:56.123456 UTC'"),
    ("ntz", TimestampNTZType(), "timestamp_ntz'0001-01-01 00:00:00.000001'"),
    ("array", ArrayType(ArrayType(IntegerType())), "array(array(1, null), null, array())"),
    ("map", MapType(StringType(), DecimalType(9, 1)), "map('a', 1.5, 'b', null)"),
    ("struct", struct(("x", LongType()), ("y", struct(("z", StringType())))), "named_struct('x', 1L, 'y', null)"),
    (
        "nested",
        ArrayType(MapType(StringType(), struct(("d", DateType()), ("l", ArrayType(StringType()))))),
        "array(map('k', named_struct('d', date'2020-01-01', 'l', array('p', null))))",
    ),
]


@pytest.mark.parametrize("mode", list(ColumnMappingMode))
def test_all_types_come_back_as_they_were_written(table_of: MakeTable, mode: ColumnMappingMode) -> None:
    schema = struct(("id", LongType()), *((name, kind) for name, kind, _ in ALL_TYPES))
    table = table_of(mapped(schema) if mode.maps else schema, mode=mode)
    values = [F.expr(text).cast(kind).alias(name) for name, kind, text in ALL_TYPES]
    nulls = [F.lit(None).cast(kind).alias(name) for name, kind, _ in ALL_TYPES]
    spark = table.spark
    frame = spark.range(2).select("id", *values).union(spark.range(2, 3).select("id", *nulls)).coalesce(1)
    written = table.write(frame)

    assert written.num_rows == 3
    assert written.size_bytes == sum(add.size for add in written.adds) > 0
    assert table.rows() == table.rows(frame)
    read = table.scan().schema
    assert [(field.name, field.dataType.simpleString()) for field in read] == [
        (field.name, field.dataType.simpleString()) for field in schema
    ]
    assert all(not field.metadata for field in read)


def test_variants_come_back(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("v", VariantType())))
    table.write(table.spark.sql('SELECT 1L AS id, parse_json(\'{"a": [1, "x"]}\') AS v UNION ALL SELECT 2L, NULL'))
    rows = table.scan().selectExpr("id", "to_json(v)")
    assert table.rows(rows) == [(1, '{"a":[1,"x"]}'), (2, None)]


def test_void_columns_are_null_and_in_no_file(table_of: MakeTable) -> None:
    inner = struct(("kept", LongType()), ("gone", NullType()))
    table = table_of(struct(("nothing", NullType()), ("id", LongType()), ("s", inner)))
    table.write(table.spark.range(1).selectExpr("NULL AS nothing", "id", "named_struct('kept', id, 'gone', NULL) AS s"))
    assert table.rows() == [(None, 0, (0, None))]
    assert pq.read_schema(Path(table.root) / table.adds[0].path).names == ["id", "s"]


def test_a_table_without_files_has_its_schema(table_of: MakeTable) -> None:
    table = table_of(struct(("a", LongType()), ("p", StringType())), partition_columns=("p",))
    frame = table.scan(with_positions=True)
    assert frame.columns == ["a", "p", ROW_INDEX_COLUMN, FILE_ID_COLUMN]
    assert frame.collect() == []


def test_no_rows_make_no_files(table_of: MakeTable) -> None:
    table = table_of(only_id())
    assert table.write(table.spark.range(0)).adds == ()
    assert not [name for name in os.listdir(table.root) if name.endswith(".parquet")]


def test_names_with_every_kind_of_character(table_of: MakeTable) -> None:
    names = ["a.b", "a b", "`tick`", "ünï", "_metadata", "UPPER", "x=1", "a,b;{}()\n\t"]
    schema = mapped(
        struct(("id", LongType()), *((name, StringType()) for name in names), ("in.ner", struct(("y.z", LongType()))))
    )
    table = table_of(schema, mode=ColumnMappingMode.NAME)
    columns = [F.concat(F.lit(name), F.col("id")).alias(name) for name in names]
    table.write(
        table.spark.range(3).select("id", *columns, F.struct(F.col("id").alias("y.z")).alias("in.ner")).coalesce(1)
    )
    table.hide(0, [1])
    assert table.rows() == [(i, *(f"{name}{i}" for name in names), (i,)) for i in (0, 2)]


# Partitions


@pytest.mark.parametrize("mode", list(ColumnMappingMode))
def test_partition_values_with_odd_characters(table_of: MakeTable, mode: ColumnMappingMode) -> None:
    schema = struct(("p", StringType()), ("id", LongType()), ("q r", IntegerType()))
    table = table_of(mapped(schema) if mode.maps else schema, mode=mode, partition_columns=("q r", "p"))
    texts = [*ODD_TEXTS, None]
    rows = [(text, i, None if i % 3 == 0 else i % 2) for i, text in enumerate(texts)]
    table.write(table.spark.createDataFrame(rows, schema))

    assert table.rows() == sorted(rows, key=repr)
    for i, text in enumerate(texts):
        condition = F.col("p").isNull() if text is None else F.col("p") == text
        assert [row[1] for row in table.rows(table.scan().where(condition))] == [i]
    physical = "col-0000" if mode.maps else "p"
    assert {add.partition_values[physical] for add in table.adds} == set(texts)


def test_empty_strings_become_null_in_partitions(table_of: MakeTable) -> None:
    """See "Partition Value Serialization"."""
    table = table_of(struct(("id", LongType()), ("p", StringType())), partition_columns=("p",))
    table.write(table.spark.sql("SELECT 1L AS id, '' AS p"))
    assert table.adds[0].partition_values == {"p": None}
    assert table.rows() == [(1, None)]


PARTITION_TYPES: list[tuple[DataType, list[str], list[str]]] = [
    (BooleanType(), ["true", "false"], ["true", "false"]),
    (ByteType(), ["-128"], ["-128"]),
    (ShortType(), ["12"], ["12"]),
    (IntegerType(), ["-5"], ["-5"]),
    (LongType(), ["9223372036854775807"], ["9223372036854775807"]),
    (FloatType(), ["0.5"], ["0.5"]),
    (DoubleType(), ["-2.25"], ["-2.25"]),
    (DecimalType(10, 2), ["'1.50'"], ["1.50"]),
    (DateType(), ["date'2024-02-29'", "date'0001-01-01'"], ["2024-02-29", "0001-01-01"]),
    (TimestampType(), ["timestamp'2024-01-01 05:06:07.000008 UTC'"], ["2024-01-01T05:06:07.000008Z"]),
    (TimestampNTZType(), ["timestamp_ntz'2024-01-01 05:06:07'"], ["2024-01-01 05:06:07"]),
    (BinaryType(), ["X'616263'"], ["abc"]),
]


@pytest.mark.parametrize(("kind", "values", "texts"), PARTITION_TYPES, ids=lambda value: str(value)[:20])
def test_partition_values_of_every_type(
    table_of: MakeTable, kind: DataType, values: list[str], texts: list[str]
) -> None:
    table = table_of(struct(("p", kind), ("id", LongType())), partition_columns=("p",))
    frames = [
        table.spark.range(i, i + 1).select(F.expr(text).cast(kind).alias("p"), "id")
        for i, text in enumerate([*values, "NULL"])
    ]
    frame = frames[0]
    for more in frames[1:]:
        frame = frame.union(more)
    table.write(frame)

    assert table.rows() == table.rows(frame)
    assert sorted(str(add.partition_values["p"]) for add in table.adds) == sorted([*texts, "None"])
    for i, text in enumerate(values):
        rows = table.scan().where(F.col("p") == F.expr(text).cast(kind))
        assert [row[1] for row in table.rows(rows)] == [i]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_timestamp_partitions_with_and_without_a_zone(table_of: MakeTable, spark: SparkSession, zone: str) -> None:
    """See "Partition Value Serialization": without a zone it is that of the session."""
    table = table_of(struct(("id", LongType()), ("p", TimestampType())), partition_columns=("p",))
    for i, text in enumerate(["2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z"]):
        table.write_file(f"p={i}/f.parquet", pa.table({"id": [i]}), {"p": text})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = table.scan().selectExpr("id", "unix_seconds(p)")
        offset = 0 if zone == "UTC" else 8 * 3600
        assert table.rows(rows) == [(0, 1704067200 + offset), (1, 1704067200)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_a_table_of_nothing_but_partition_columns_keeps_its_rows(table_of: MakeTable) -> None:
    table = table_of(
        struct(
            ("p", StringType()),
        ),
        partition_columns=("p",),
    )
    table.write_file("a.parquet", pa.table({"other": [1, 2, 3]}), {"p": "x"})
    table.write_file("p=y/b.parquet", pa.table({"other": [1]}), {"p": "y"})
    assert table.rows() == [("x",)] * 3 + [("y",)]


def test_directories_say_nothing_about_partition_values(table_of: MakeTable) -> None:
    """Only the log does: a directory may contradict it, or look like a partition where there is none."""
    table = table_of(struct(("id", LongType()), ("p", StringType())), partition_columns=("p",))
    table.write_file("p=wrong/a.parquet", pa.table({"id": [1]}), {"p": "right"})
    table.write_file("p=y/b.parquet", pa.table({"id": [2]}), {"p": "y"})
    table.write_file(
        "p=__HIVE_DEFAULT_PARTITION__/c.parquet", pa.table({"id": [3]}), {"p": "__HIVE_DEFAULT_PARTITION__"}
    )
    table.write_file("z=1/p=v/d.parquet", pa.table({"id": [4]}), {"p": "v"})
    assert table.rows() == [(1, "right"), (2, "y"), (3, "__HIVE_DEFAULT_PARTITION__"), (4, "v")]

    plain = table_of(struct(("id", LongType()), ("p", StringType())), root=table.root + "2")
    plain.write_file("p=wrong/a.parquet", pa.table({"id": [1]}))
    plain.write_file("p=7/b.parquet", pa.table({"id": [2]}))
    assert plain.rows() == [(1, None), (2, None)]


def test_files_of_one_name_in_many_directories(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("p", DoubleType())), partition_columns=("p",))
    for i in range(5):
        table.write_file(f"p={i}.0/x/part-0.parquet", pa.table({"id": [i, i + 100]}), {"p": f"{i}.0"})
    table.hide(3, [0])
    rows = table.rows(with_positions(table))
    expected = [(i + 100 * k, float(i), i, k) for i in range(5) for k in range(2) if (i, k) != (3, 0)]
    assert rows == sorted(expected, key=repr)


# Evolved schemas


def test_columns_that_files_lack_are_null(table_of: MakeTable) -> None:
    inner = struct(("x", LongType()), ("new", StringType()))
    schema = struct(
        ("id", LongType()),
        ("s", inner),
        ("l", ArrayType(inner)),
        ("m", MapType(StringType(), inner)),
        ("late", StringType()),
    )
    table = table_of(schema)
    old = pa.table(
        {
            "id": [1],
            "s": [{"x": 5}],
            "l": [[{"x": 6}, None]],
            "m": pa.array([[("k", {"x": 7})]], pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
        }
    )
    table.write_file("old.parquet", old)
    table.write(table.spark.sql(
        "SELECT 2L AS id, named_struct('x', 1L, 'new', 'n') AS s, array(named_struct('x', 2L, 'new', 'o')) AS l,"
        " map('k', named_struct('x', 3L, 'new', 'p')) AS m, 'late' AS late"
    ))  # fmt: skip
    rows = table.scan().selectExpr("id", "s.x", "s.new", "l.x", "l.new", "m['k'].x", "m['k'].new", "late")
    assert table.rows(rows) == [
        (1, 5, None, [6, None], [None, None], 7, None, None),
        (2, 1, "n", [2], ["o"], 3, "p", "late"),
    ]


def test_fields_are_matched_by_name_and_not_by_position(table_of: MakeTable) -> None:
    table = table_of(struct(("a", LongType()), ("s", struct(("x", LongType()), ("y", StringType())))))
    table.write_file("f.parquet", pa.table({"dropped": [9], "s": [{"y": "why", "x": 2, "z": 3}], "a": [1]}))
    assert table.rows() == [(1, (2, "why"))]


WIDENINGS: list[tuple[pa.DataType, Any, DataType, Any]] = [
    (pa.int8(), 5, ShortType(), 5),
    (pa.int8(), 5, LongType(), 5),
    (pa.int16(), 5, IntegerType(), 5),
    (pa.int32(), -5, LongType(), -5),
    (pa.int32(), 5, DoubleType(), 5.0),
    (pa.int32(), 5, DecimalType(12, 2), decimal.Decimal("5.00")),
    (pa.int64(), 5, DecimalType(21, 1), decimal.Decimal("5.0")),
    (pa.float32(), 0.5, DoubleType(), 0.5),
    (pa.date32(), datetime.date(2020, 1, 2), TimestampNTZType(), datetime.datetime(2020, 1, 2)),
    (pa.decimal128(6, 2), decimal.Decimal("1.25"), DecimalType(20, 4), decimal.Decimal("1.2500")),
]


@pytest.mark.parametrize(("stored", "value", "kind", "read"), WIDENINGS, ids=lambda value: str(value)[:20])
def test_files_from_before_a_type_was_widened(
    table_of: MakeTable, stored: pa.DataType, value: Any, kind: DataType, read: Any
) -> None:
    table = table_of(struct(("id", LongType()), ("v", kind)))
    table.write_file("old.parquet", pa.table({"id": [1, 2], "v": pa.array([value, None], stored)}))
    table.write(table.spark.range(3, 4).select("id", F.lit(read).cast(kind).alias("v")))
    assert table.rows() == [(1, read), (2, None), (3, read)]
    assert table.rows(table.scan().where(F.col("v") == F.lit(read).cast(kind)).select("id")) == [(1,), (3,)]


# Column mapping


@pytest.mark.parametrize("mode", MAPPINGS)
def test_mapped_files_have_physical_names_and_ids(table_of: MakeTable, mode: ColumnMappingMode) -> None:
    inner = struct(("x", LongType()), ("y", StringType()))
    schema = mapped(
        struct(("id", LongType()), ("s", inner), ("l", ArrayType(inner)), ("m", MapType(StringType(), inner)))
    )
    table = table_of(schema, mode=mode)
    value = "named_struct('x', id, 'y', 'why')"
    table.write(
        table.spark.range(1).selectExpr("id", f"{value} AS s", f"array({value}) AS l", f"map('k', {value}) AS m")
    )

    stored = pq.read_schema(Path(table.root) / table.adds[0].path)
    assert stored.names == [field.metadata[PHYSICAL_NAME] for field in schema]
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in stored]
    assert ids == [field.metadata[ID] for field in schema]
    below = stored.field(1).type.field(0)
    assert below.name == schema["s"].dataType["x"].metadata[PHYSICAL_NAME]
    assert int(below.metadata[b"PARQUET:field_id"]) == schema["s"].dataType["x"].metadata[ID]
    rows = table.scan().selectExpr("id", "s.x", "s.y", "l[0].y", "m['k'].y")
    assert table.rows(rows) == [(0, 0, "why", "why", "why")]
    assert json.loads(table.adds[0].stats or "")["minValues"][schema["id"].metadata[PHYSICAL_NAME]] == 0


def renamed(schema: StructType, **names: str) -> StructType:
    """New logical names for old ones; physical names and ids stay."""
    return StructType([StructField(names.get(f.name, f.name), f.dataType, f.nullable, f.metadata) for f in schema])


@pytest.mark.parametrize("mode", MAPPINGS)
def test_names_may_be_swapped_after_files_were_written(table_of: MakeTable, mode: ColumnMappingMode) -> None:
    schema = mapped(struct(("a", LongType()), ("b", LongType())))
    table = table_of(schema, mode=mode)
    table.write(table.spark.sql("SELECT 1L AS a, 2L AS b"))
    table.schema = renamed(schema, a="b", b="a")
    assert table.scan().selectExpr("a", "b").collect() == [(2, 1)]
    assert table.scan().where("a = 2 AND b = 1").count() == 1
    assert table.scan().where("a = 1").count() == 0


def with_ids(*fields: tuple[str, int, pa.Array]) -> pa.Table:
    schema = pa.schema(
        [pa.field(name, values.type, metadata={"PARQUET:field_id": str(number)}) for name, number, values in fields]
    )
    return pa.Table.from_arrays([values for _, _, values in fields], schema=schema)


def test_id_mode_finds_columns_by_id_alone(table_of: MakeTable) -> None:
    """Files of other writers may call their columns anything, even by the physical name of another column."""
    schema = mapped(struct(("a", LongType()), ("b", LongType()), ("c", StringType())))
    table = table_of(schema, mode=ColumnMappingMode.ID)
    physical = [field.metadata[PHYSICAL_NAME] for field in schema]
    table.write(table.spark.sql("SELECT 1L AS a, 10L AS b, 'x' AS c"))
    table.write_file("swapped.parquet", with_ids((physical[1], 1, pa.array([2])), (physical[0], 2, pa.array([20]))))
    table.write_file(
        "other.parquet", with_ids(("z", 2, pa.array([30])), ("y", 1, pa.array([3])), ("x", 3, pa.array(["w"])))
    )
    assert table.rows() == [(1, 10, "x"), (2, 20, None), (3, 30, "w")]
    assert table.rows(table.scan().where("a = 2")) == [(2, 20, None)]
    assert table.rows(table.scan().where("b = 30")) == [(3, 30, "w")]
    assert table.rows(table.scan().where("c IS NULL")) == [(2, 20, None)]


# Hidden rows


@pytest.mark.parametrize("partitioned", [False, True])
def test_hidden_rows_are_left_out(table_of: MakeTable, partitioned: bool) -> None:
    schema = struct(("id", LongType()), ("p", LongType()))
    table = table_of(schema, partition_columns=("p",) if partitioned else ())
    for p in range(3):
        table.write(table.spark.range(10_000).selectExpr("id", f"{p}L AS p").coalesce(1))
    hidden = {0: {0, 63, 64, 4095, 4096, 9_999}, 2: set(range(5_000, 10_000))}
    for file, positions in hidden.items():
        table.hide(file, sorted(positions))

    frame = with_positions(table)
    assert frame.count() == 30_000 - 6 - 5_000
    live = {(row.p, row[2], row[3]) for row in frame.collect()}
    assert {(p, p) for p, _, _ in live} == {(p, file) for p, file, _ in live}
    for file in range(3):
        assert {index for _, number, index in live if number == file} == set(range(10_000)) - hidden.get(file, set())
    assert table.rows(table.scan().where("id IN (63, 65)")) == [(63, 1), (63, 2), (65, 0), (65, 1), (65, 2)]


def test_a_vector_that_hides_a_row_beyond_its_file_is_an_error(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType())))
    table.write(table.spark.range(10).coalesce(1))
    table.hide(0, [50])
    with pytest.raises(Exception, match="it hides row 50 of a file with 10 rows"):
        table.rows()


def test_a_hidden_row_far_into_a_file_of_several_row_groups(table_of: MakeTable) -> None:
    table = table_of(only_id())
    rows = pa.table({"id": range(200_000)})
    table.write_file("f.parquet", rows)
    pq.write_table(rows, Path(table.root) / "f.parquet", row_group_size=10_000)
    table.hide(0, [123_456])
    assert table.scan().where("id BETWEEN 123455 AND 123457").orderBy("id").collect() == [(123_455,), (123_457,)]
    positions = table.scan(with_positions=True).where("id > 150000")
    assert positions.where(F.col("id") != F.col(ROW_INDEX_COLUMN)).count() == 0


# Paths


ODD_PATHS = ["a b/c d.parquet", "%41%2F.parquet", "é☃.parquet", "x#y?.parquet", "[1]{a,b}*.parquet", "_dir/f.parquet",
             ".dot/f.parquet", "_hidden.parquet", ".dotted.parquet", "a:b/f.parquet", "no extension",
             "plus+&=.parquet", "q'\"!~$^().parquet", "k=v/f.parquet"]  # fmt: skip


@pytest.mark.parametrize("root", ["plain", "a b%20[c]{d}é#?*", "p=1/q=2"])
def test_odd_paths(table_of: MakeTable, tmp_path: Path, root: str) -> None:
    table = table_of(struct(("id", LongType()), ("text", StringType())), root=str(tmp_path / root))
    for i, path in enumerate(ODD_PATHS):
        table.write_file(path, pa.table({"id": [i, i + 100], "text": [path, None]}))
    table.write(table.spark.range(900, 901).selectExpr("id", "'ours' AS text"))
    expected = [(i, path) for i, path in enumerate(ODD_PATHS)] + [(i + 100, None) for i in range(len(ODD_PATHS))]
    assert table.rows() == sorted([*expected, (900, "ours")], key=repr)

    for i in range(len(ODD_PATHS)):
        table.hide(i, [1])
    rows = table.rows(with_positions(table))
    visible = [(i, path, i, 0) for i, path in enumerate(ODD_PATHS)]
    assert rows == sorted([*visible, (900, "ours", len(ODD_PATHS), 0)], key=repr)


def test_odd_paths_with_partitions_and_mapping(table_of: MakeTable) -> None:
    schema = mapped(struct(("p", DateType()), ("s", struct(("x", LongType()))), ("q", StringType())))
    table = table_of(schema, mode=ColumnMappingMode.NAME, partition_columns=("p", "q"))
    names = [field.metadata[PHYSICAL_NAME] for field in schema]
    inner = schema["s"].dataType["x"].metadata[PHYSICAL_NAME]
    for i, path in enumerate(["_a.parquet", "x/.b.parquet", "fine.parquet"]):
        table.write_file(
            path, pa.table({names[1]: [{inner: i}]}), {names[0]: "2024-01-01", names[2]: None if i else "é"}
        )
    day = datetime.date(2024, 1, 1)
    assert table.rows() == [(day, (0,), "é"), (day, (1,), None), (day, (2,), None)]


def test_a_missing_file_is_an_error(table_of: MakeTable, spark: SparkSession) -> None:
    table = table_of(only_id())
    table.write(table.spark.range(4).repartition(2))
    os.unlink(Path(table.root) / table.adds[0].path)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"(?i)does not exist|not found|no such file|is not there"):
            table.scan().collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_many_files(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("p", LongType())), partition_columns=("p",))
    for i in range(150):
        directory = f"p={i}" if i % 2 else "other"
        table.write_file(f"{directory}/{i}.parquet", pa.table({"id": [i]}), {"p": str(i)})
    assert table.scan().where("id = p").count() == 150
    assert table.rows(table.scan().where("p IN (3, 4)")) == [(3, 3), (4, 4)]


# Writing


def test_max_records_per_file(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("p", LongType())), partition_columns=("p",))
    table.write(table.spark.range(0, 50, 1, 1).selectExpr("id", "id % 2 AS p"), max_records_per_file=10)
    counts = sorted(
        (add.partition_values["p"], stats["numRecords"]) for add, stats in zip(table.adds, table.stats(), strict=True)
    )
    assert counts == [("0", 5), ("0", 10), ("0", 10), ("1", 5), ("1", 10), ("1", 10)]
    assert len({add.path for add in table.adds}) == 6
    assert table.scan().count() == 50


def test_a_partition_has_one_file_a_task(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("p", DoubleType())), partition_columns=("p",))
    frame = table.spark.range(0, 1_000, 1, 1).selectExpr(
        "id", "CASE WHEN id % 4 = 0 THEN double('NaN') WHEN id % 4 = 1 THEN NULL ELSE id % 4 END AS p"
    )
    table.write(frame)
    assert sorted(str(add.partition_values["p"]) for add in table.adds) == ["2.0", "3.0", "NaN", "None"]
    assert table.scan().where("isnan(p)").count() == 250


def test_statistics(table_of: MakeTable) -> None:
    """Covers race 32: bounds are never narrower than the values."""
    columns = [
        ("i", IntegerType(), "3", "-1"),
        ("t", StringType(), "repeat('b', 40)", "'a'"),
        ("ts", TimestampType(), *(f"timestamp'2024-01-01 00:00:00.{at} UTC'" for at in ("0005", "0015"))),
        ("d", DecimalType(20, 3), "1.5BD", "-2BD"),
        ("s", struct(("x", DoubleType())), "named_struct('x', 0.5D)", "NULL"),
        ("date", DateType(), "date'2020-01-01'", "NULL"),
        ("none", StringType(), "NULL", "NULL"),
        ("b", BooleanType(), "true", "false"),
        ("bin", BinaryType(), "X'01'", "X'02'"),
        ("ntz", TimestampNTZType(), *["timestamp_ntz'1969-12-31 23:59:59.9999'"] * 2),
        ("f", FloatType(), "0.1", "0.2"),
    ]
    table = table_of(struct(*(column[:2] for column in columns)))
    rows = [table.spark.range(1).select(*[F.expr(c[i]).cast(c[1]).alias(c[0]) for c in columns]) for i in (2, 3)]
    table.write(rows[0].union(rows[1]).coalesce(1))
    (stats,) = table.stats()
    assert stats["numRecords"] == 2
    lows = {"i": -1, "t": "a", "d": -2.0, "s": {"x": 0.5}, "date": "2020-01-01", "f": 0.1}
    highs = {"i": 3, "t": "b" * 32 + "\x7f", "d": 1.5, "s": {"x": 0.5}, "date": "2020-01-01", "f": 0.2}
    assert stats["minValues"] == lows | {"ts": "2024-01-01T00:00:00.000Z", "ntz": "1969-12-31T23:59:59.999"}
    assert stats["maxValues"] == highs | {"ts": "2024-01-01T00:00:00.002Z", "ntz": "1970-01-01T00:00:00.000"}
    none_null = dict.fromkeys(["i", "t", "ts", "d", "b", "bin", "ntz", "f"], 0)
    assert stats["nullCount"] == none_null | {"s": {"x": 1}, "date": 1, "none": 2}


def test_which_columns_get_statistics(table_of: MakeTable) -> None:
    table = table_of(
        struct(("a", LongType()), ("b", LongType())), configuration={"delta.dataSkippingStatsColumns": "b"}
    )
    table.write(table.spark.sql("SELECT 1L AS a, 2L AS b"))
    assert table.stats()[0]["minValues"] == {"b": 2}


def test_not_a_number_is_larger_than_any_number(table_of: MakeTable) -> None:
    """Covers race 32."""
    table = table_of(struct(("id", LongType()), ("x", DoubleType())))
    table.write(table.spark.sql("SELECT 1L AS id, 1.0D AS x UNION ALL SELECT 2L, double('NaN')").coalesce(1))
    assert "x" not in table.stats()[0]["maxValues"]
    assert [row.id for row in table.scan().where("x > 5").collect()] == [2]
    rows = table.scan().where("id = 2").first()
    assert rows is not None
    assert math.isnan(rows.x)


def test_properties_and_options_of_a_write(table_of: MakeTable) -> None:
    configuration = {
        "delta.randomizeFilePrefixes": "true",
        "delta.randomPrefixLength": "4",
        "delta.parquet.compression.codec": "zstd",
    }
    table = table_of(
        struct(("id", LongType()), ("p", LongType())), partition_columns=("p",), configuration=configuration
    )
    table.write(table.spark.sql("SELECT 1L AS id, 2L AS p"))
    prefix, *_ = table.adds[0].path.split("/")
    assert len(prefix) == 4
    assert table.rows() == [(1, 2)]
    assert pq.read_metadata(Path(table.root) / table.adds[0].path).row_group(0).column(0).compression == "ZSTD"

    table.write(table.spark.sql("SELECT 5L AS id, 6L AS p"), options=[("compression", "gzip")])
    assert pq.read_metadata(Path(table.root) / table.adds[1].path).row_group(0).column(0).compression == "GZIP"


def test_a_failing_write_returns_no_files(table_of: MakeTable) -> None:
    table = table_of(only_id())
    frame = table.spark.range(0, 100, 1, 2).selectExpr(
        "CASE WHEN id = 99 THEN CAST(raise_error('stop here') AS BIGINT) ELSE id END AS id"
    )
    with pytest.raises(Exception, match="stop here"):
        table.write(frame)
    assert table.adds == []


def test_files_say_micros_in_utc(table_of: MakeTable) -> None:
    table = table_of(struct(("ts", TimestampType()), ("ntz", TimestampNTZType())))
    table.write(table.spark.sql("SELECT timestamp'2020-01-01 00:00:00 UTC' AS ts, timestamp_ntz'2020-01-01' AS ntz"))
    columns = pq.ParquetFile(Path(table.root) / table.adds[0].path).schema
    kinds = [json.loads(columns.column(i).logical_type.to_json()) for i in range(2)]
    assert [(kind["isAdjustedToUTC"], kind["timeUnit"]) for kind in kinds] == [
        (True, "microseconds"),
        (False, "microseconds"),
    ]


# What a frame reads


def test_versions_read(table_of: MakeTable) -> None:
    table = table_of(only_id(), version=12)
    table.write(table.spark.range(3))
    frame = table.scan()
    joined = table.spark.range(5).join(frame, "id").where("id > 0")
    assert versions_read(frame, table.root) == {12}
    assert versions_read(joined, table.root) == {12}
    assert versions_read(joined, table.root + "x") == frozenset()
    assert versions_read(table.spark.range(3), table.root) == frozenset()
    table.version = None
    assert versions_read(table.scan(), table.root) == frozenset()
