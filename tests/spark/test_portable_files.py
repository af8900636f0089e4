"""The parts of the portable engine that need no Spark: paths, groups of files, one file read, one file written."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from anabranch.errors.environment import DataFileMismatchError, DataFileUnknownToSparkError, DataTypeNotPortableError
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.portable.arrow_types import arrow_type, by_name, by_position, file_schema, fit
from anabranch.spark.portable.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.spark.portable.file_groups import Partitioning, groups_of
from anabranch.spark.portable.portable_write import adds_of, write_task
from anabranch.spark.portable.spark_paths import (
    are_simple,
    is_beyond_spark,
    spark_path,
    spelled_by_spark,
    tail_length,
    tails,
)
from anabranch.spark.rows.file_listing import FileListing
from anabranch.storage.memory_store import MemoryStore
from anabranch.storage.store_opening import open_store


def struct(*fields: tuple[str, Any]) -> StructType:
    return StructType([StructField(*field) for field in fields])


# Paths


def test_a_path_is_a_pattern_that_means_itself_alone() -> None:
    assert spark_path("/a b/[1]{x}*?\\.parquet") == "file:///a b/\\[1\\]\\{x\\}\\*\\?\\\\.parquet"
    assert spark_path("s3a://bucket/a*b") == "s3a://bucket/a\\*b"


@pytest.mark.parametrize(
    ("name", "beyond"),
    [
        ("/t/part-0.parquet", False),
        ("/t/_x.parquet", True),
        ("/t/_a=1", False),
        ("/t/.x.parquet", True),
        ("/t/x._COPYING_", True),
        ("/t/a:b.parquet", True),
        ("/t/a:b/c.parquet", False),
        ("/t/a:b/[c].parquet", True),
        ("s3a://bucket/t/[c].parquet", False),
        ("s3a://bucket:9000/t/[c].parquet", False),
        ("/_t/.d/x.parquet", False),
    ],
)
def test_which_files_spark_cannot_open(name: str, beyond: bool) -> None:
    assert is_beyond_spark(name) is beyond


def test_names_are_told_apart_by_as_few_segments_as_it_takes() -> None:
    names = pa.array(["/t/a/x", "/t/b/x", "/t/c/y"])
    assert tail_length(pa.array(["/t/a/x", "/t/b/y"])) == 1
    assert tail_length(names) == 2
    assert tails(names, 2).to_pylist() == ["a/x", "b/x", "c/y"]
    assert tails(names, 1).to_pylist() == ["x", "x", "y"]
    assert are_simple(pa.array(["part-00000-1b.c000.snappy.parquet", "a=1/x"]))
    assert not are_simple(pa.array(["plain", "a b"]))


def test_spelling_is_taken_from_spark() -> None:
    listed = ["file:///t/a%20b/x%2520y", "file:/t/é"]
    assert spelled_by_spark(["/t/é", "/t/a b/x%20y"], listed, table="t") == ["file:/t/é", "file:///t/a%20b/x%2520y"]
    with pytest.raises(DataFileUnknownToSparkError, match="/t/z"):
        spelled_by_spark(["/t/z"], listed, table="t")


def test_files_are_grouped_by_what_their_rows_need() -> None:
    listing = FileListing(
        names=pa.array(
            ["/t/p=a/1", "/t/p=b/2", "/t/wrong/3", "/t/p=a/_4", "/t/p=a/5", "/t/p=__HIVE_DEFAULT_PARTITION__/6"]
        ),
        sizes=np.zeros(6, np.int64),
        times_ms=np.zeros(6, np.int64),
        group_of=np.array([0, 1, 0, 0, 0, 2], np.int32),
        groups=(pa.array(["a", "b", None]),),
        group_count=3,
        has_vector=np.array([False, False, False, False, True, False]),
    )
    partitioning = Partitioning(table_root="/t", types={"p": StringType()})
    found = {
        (group.by_spark, group.by_directory, group.hides_rows): group.file_ids.tolist()
        for group in groups_of(listing, partitioning, layout_of=np.zeros(6, np.int32))
    }
    assert found == {
        (True, True, False): [0, 1, 5],
        (True, False, False): [2],
        (False, False, False): [3],
        (True, True, True): [4],
    }
    floats = Partitioning(table_root="/t", types={"p": DoubleType()})
    assert not any(group.by_directory for group in groups_of(listing, floats, layout_of=np.zeros(6, np.int32)))


# Arrays


def test_fields_move_and_missing_ones_are_null() -> None:
    given = pa.array([{"b": 1, "a": 2}, None, {"b": None, "a": 3}], pa.struct([("b", pa.int32()), ("a", pa.int64())]))
    target = arrow_type(struct(("a", LongType()), ("b", LongType()), ("c", ArrayType(StringType()))))
    expected = [{"a": 2, "b": 1, "c": None}, None, {"a": 3, "b": None, "c": None}]
    assert fit(given, target, by_name).to_pylist() == expected
    assert fit(given.slice(1, 2), target, by_name).to_pylist() == expected[1:]


_VALUES = st.lists(
    st.none()
    | st.lists(
        st.tuples(st.text(max_size=3), st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3)), max_size=3
    ),
    max_size=8,
)


@given(_VALUES, st.integers(0, 8), st.integers(0, 8))
def test_nested_values_survive_renaming_wherever_an_array_was_cut(values: list[Any], start: int, length: int) -> None:
    source = pa.map_(pa.string(), pa.list_(pa.field("item", pa.int32())))
    array = pa.array(values, source)
    target = arrow_type(MapType(StringType(), ArrayType(LongType())))
    found = fit(array.slice(start, length), target, by_position)
    found.validate(full=True)
    assert found.type == target
    assert found.to_pylist() == values[start : start + length]


def test_offsets_that_spark_leaves_out() -> None:
    """Spark 4.0 sends none of no lists, maps and strings: whoever counts bytes would look for them anywhere in memory."""
    nothing = pa.py_buffer(b"")
    numbers = pa.Array.from_buffers(pa.int32(), 0, [None, nothing])
    lists = pa.Array.from_buffers(pa.list_(pa.int32()), 0, [None, nothing], children=[numbers])
    strings = pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing])
    kind = pa.map_(pa.string(), pa.list_(pa.int32()))
    entries = pa.StructArray.from_arrays([strings, lists], fields=[kind.key_field, kind.item_field])
    maps = pa.Array.from_buffers(kind, 0, [None, nothing], children=[entries])
    sent = pa.Array.from_buffers(pa.list_(kind), 1, [None, pa.py_buffer(bytes(8))], children=[maps])
    for array in (sent, maps):
        fitted = fit(array, array.type, by_position)
        children = [fitted.values, fitted.values.items] if array is sent else [fitted, fitted.items]
        assert all(child.buffers()[1].size >= 4 for child in children)
        assert fitted.to_pylist() == ([[]] if array is sent else [])


def test_fractions_of_a_microsecond_are_cut_and_nothing_else() -> None:
    nanos = pa.array([1_999], pa.timestamp("ns"))
    assert fit(nanos, pa.timestamp("us", tz="UTC"), by_name).cast(pa.int64()).to_pylist() == [1]
    with pytest.raises(pa.ArrowInvalid):
        fit(pa.array([2**40]), pa.int32(), by_name)


def test_a_shredded_variant_is_refused() -> None:
    shredded = pa.array([{"metadata": b"", "value": b"", "typed_value": 1}])
    with pytest.raises(pa.ArrowNotImplementedError, match="variant"):
        fit(shredded, arrow_type(VariantType()), by_name)


def test_types_that_files_cannot_have_are_refused() -> None:
    from pyspark.sql.types import DayTimeIntervalType

    with pytest.raises(DataTypeNotPortableError, match="interval"):
        arrow_type(DayTimeIntervalType())


# One file read


def reader(root: str, schema: StructType, **facts: Any) -> RowReader:
    return RowReader(
        data_files=DataFiles(root, {}),
        schema=schema,
        **{"partition_columns": (), "column_mapping": ColumnMappingMode.NONE, "time_zone": "UTC", **facts},
    )


def read_all(rows: RowReader, name: str, hidden: BitMap64 | None = None, **values: str | None) -> list[tuple[Any, ...]]:
    batches = rows.read(DataFile(name=name, partition_values=values), hidden)
    return [
        (*(column[i].as_py() for column in batch.columns), positions[i].as_py())
        for batch, positions in batches
        for i in range(batch.num_rows)
    ]


def test_positions_count_hidden_rows_across_row_groups(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "f", row_group_size=3)
    rows = reader(str(tmp_path), struct(("id", LongType())))
    found = read_all(rows, str(tmp_path / "f"), BitMap64([0, 4, 9]))
    assert found == [(i, i) for i in range(10) if i not in {0, 4, 9}]


def test_constants_and_nothing_else(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(3)}), tmp_path / "f")
    rows = reader(str(tmp_path), struct(("p", TimestampType())), partition_columns=("p",), time_zone="Asia/Tokyo")
    at = datetime.datetime(2023, 12, 31, 15, tzinfo=datetime.UTC)
    assert read_all(rows, str(tmp_path / "f"), BitMap64([1]), p="2024-01-01 00:00:00") == [(at, 0), (at, 2)]


def test_a_file_that_does_not_fit_the_schema_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["text"]}), tmp_path / "f")
    with pytest.raises(DataFileMismatchError, match="column id as int"):
        read_all(reader(str(tmp_path), struct(("id", IntegerType()))), str(tmp_path / "f"))


def test_old_timestamps_of_twelve_bytes(tmp_path: Path) -> None:
    values = pa.array([0, -62_135_596_800_000_000, 253_402_300_799_999_999], pa.timestamp("us"))
    pq.write_table(pa.table({"at": values}), tmp_path / "f", use_deprecated_int96_timestamps=True)
    rows = reader(str(tmp_path), struct(("at", TimestampType())))
    batch, _ = next(rows.read(DataFile(name=str(tmp_path / "f"), partition_values={}), None))
    assert batch.column(0).cast(pa.int64()).to_pylist() == values.cast(pa.int64()).to_pylist()


def test_a_reader_travels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7]}), tmp_path / "f")
    rows = reader(str(tmp_path), struct(("id", LongType())))
    assert read_all(rows, str(tmp_path / "f")) == [(7, 0)]
    assert read_all(pickle.loads(pickle.dumps(rows)), str(tmp_path / "f")) == [(7, 0)]


# One task's files written


def task_for(root: str, schema: StructType, **facts: Any) -> Any:
    return write_task(
        table_root=root,
        schema=schema,
        **{
            "partition_columns": (),
            "column_mapping": ColumnMappingMode.NONE,
            "properties": TableProperties(),
            "file_system": {},
            **facts,
        },
    )


def run(task: Any, *batches: pa.RecordBatch) -> list[Any]:
    return [add for written in task(iter(batches)) for add in adds_of(written)]


def test_rows_in_any_order_make_one_file_a_partition(tmp_path: Path) -> None:
    schema = struct(("id", LongType()), ("p", StringType()))
    task = task_for(str(tmp_path), schema, partition_columns=("p",), open_files_max=3)
    batch = pa.RecordBatch.from_pydict({"id": range(9), "p": ["a", "b", None] * 3})
    adds = run(task, batch, batch)
    assert sorted((add.partition_values["p"] or "", json.loads(add.stats)["numRecords"]) for add in adds) == [
        ("", 6),
        ("a", 6),
        ("b", 6),
    ]
    few = run(task_for(str(tmp_path), schema, partition_columns=("p",)), batch)
    assert len(few) == 9


def test_a_store_that_is_no_disk(tmp_path: Path) -> None:
    root = f"memory:/{tmp_path.name}"
    (add,) = run(task_for(root, struct(("id", LongType()))), pa.RecordBatch.from_pydict({"id": [1, 2]}))
    store = open_store(root)
    assert isinstance(store, MemoryStore)
    with store.open(add.path) as file:
        assert pq.read_table(file).to_pydict() == {"id": [1, 2]}
    assert add.size == len(store.read(add.path))


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [1]})
        raise KeyError("stop")

    with pytest.raises(KeyError):
        list(task_for(str(tmp_path), struct(("id", LongType())))(batches()))
    assert list(tmp_path.rglob("*.parquet")) == []


def test_row_groups_hold_many_batches(tmp_path: Path) -> None:
    batches = [pa.RecordBatch.from_pydict({"id": range(i, i + 1_000)}) for i in range(0, 20_000, 1_000)]
    (add,) = run(task_for(str(tmp_path), struct(("id", LongType()))), *batches)
    assert pq.read_metadata(tmp_path / add.path).num_row_groups == 1


def test_bounds_leave_out_what_they_cannot_bound(tmp_path: Path) -> None:
    schema = struct(("x", DoubleType()), ("y", DoubleType()), ("a", ArrayType(LongType())), ("t", StringType()))
    rows = {
        "x": [1.0, math.nan, None],
        "y": [math.inf, 1.0, -math.inf],
        "a": [[None], None, []],
        "t": ["\U0010ffff" * 80, "b", None],
    }
    batch = pa.RecordBatch.from_pydict(rows, schema=pa.schema([(f.name, arrow_type(f.dataType)) for f in schema]))
    (add,) = run(task_for(str(tmp_path), schema), batch)
    stats = json.loads(add.stats)
    assert stats["minValues"] == {"x": 1.0, "t": "b"}
    assert stats["maxValues"] == {}
    assert stats["nullCount"] == {"x": 1, "y": 0, "a": 1, "t": 1}
    footer = pq.read_metadata(tmp_path / add.path).row_group(0)
    assert footer.column(0).statistics is None
    assert footer.column(3).statistics is not None


def test_ids_of_elements_keys_and_values_reach_the_file() -> None:
    """See "IcebergCompatV2"."""
    ids = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}
    nested = {"delta.columnMapping.nested.ids": {"c.key": 5, "c.value": 6, "c.value.element": 7}}
    field = StructField("m", MapType(StringType(), ArrayType(LongType())), True, {**ids, **nested})
    stored = file_schema(StructType([field]), ColumnMappingMode.ID).field(0)
    assert stored.metadata == {b"PARQUET:field_id": b"1"}
    assert stored.type.key_field.metadata == {b"PARQUET:field_id": b"5"}
    assert stored.type.item_field.metadata == {b"PARQUET:field_id": b"6"}
    assert stored.type.item_type.value_field.metadata == {b"PARQUET:field_id": b"7"}
