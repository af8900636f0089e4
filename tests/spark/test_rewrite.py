"""Rewriting files in a known order, which OPTIMIZE is built on."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, NullType, StringType

from anabranch.errors.maintenance import RowOrderError
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.spark.write import rewrite_request
from spark import rewritten
from spark.engines import mapped, struct
from spark.rewritten import (
    COUNTS,
    HIDDEN,
    MakeTable,
    expected_ids,
    ids_and_texts,
    rewrite,
    several_files,
    stored,
)

pytestmark = [pytest.mark.spark]


@pytest.fixture(params=[1, 3], ids=["one task", "three tasks"], autouse=True)
def several_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrites have as many tasks, however small the files are."""
    monkeypatch.setattr(rewrite_request, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(rewritten, "TASKS_MAX", request.param)


@pytest.mark.parametrize("mode", list(ColumnMappingMode))
def test_rows_come_file_after_file_in_ascending_order(table_of: MakeTable, mode: ColumnMappingMode) -> None:
    schema = ids_and_texts()
    table = table_of(mapped(schema) if mode.maps else schema, mode=mode)
    several_files(table)
    result = rewrite(table, row_counts=COUNTS)

    names = [physical_name(field, mode) for field in table.schema]
    rows = stored(table, result)
    assert sorted(result.order) == list(range(len(COUNTS)))
    assert rows.column_names == names
    assert rows[names[0]].to_pylist() == expected_ids(result)
    assert rows[names[1]].to_pylist() == [f"name {n}" for n in expected_ids(result)]
    (add,) = result.written.adds
    assert result.written.num_rows == len(expected_ids(result)) == json.loads(add.stats or "")["numRecords"]
    assert json.loads(add.stats or "")["maxValues"][names[0]] == sum(COUNTS) - 1


def test_a_partition_keeps_its_values_and_its_directory(table_of: MakeTable) -> None:
    schema = struct(("id", LongType()), ("text", StringType()), ("part", StringType()))
    table = table_of(schema, partition_columns=("part",))
    several_files(table, extra="'a/b c' AS part")
    result = rewrite(table, row_counts=COUNTS)

    (add,) = result.written.adds
    assert add.partition_values == {"part": "a/b c"}
    assert add.path.rsplit("/", 1)[0] == table.adds[0].path.rsplit("/", 1)[0]
    assert stored(table, result).column_names == ["id", "text"]
    assert stored(table, result)["id"].to_pylist() == expected_ids(result)
    table.adds = list(result.written.adds)
    assert {row[2] for row in table.rows()} == {"a/b c"}


def test_the_sessions_limits_change_neither_tasks_nor_files(table_of: MakeTable) -> None:
    table = table_of(ids_and_texts())
    several_files(table)
    settings = {
        "spark.sql.files.maxPartitionBytes": "1000",
        "spark.sql.files.maxRecordsPerFile": "100",
        "spark.sql.files.openCostInBytes": "100000000",
        "spark.sql.files.maxPartitionNum": "1",
    }
    for key, value in settings.items():
        table.spark.conf.set(key, value)
    try:
        result = rewrite(table, row_counts=COUNTS)
    finally:
        for key in settings:
            table.spark.conf.unset(key)
    assert stored(table, result)["id"].to_pylist() == expected_ids(result)


def test_several_row_groups_and_another_row_reader(table_of: MakeTable) -> None:
    """Spark may skip or reorder row groups for a query; a rewrite has them all, one after the other."""
    table = table_of(struct(("id", LongType()), ("deep", ArrayType(struct(("x", LongType()))))))
    for number in range(3):
        ids = list(range(1000 * number, 1000 * number + 700))
        rows = pa.table({"id": ids, "deep": [[{"x": n}] for n in ids]})
        table.write_file(f"f{number}.parquet", rows)
        pq.write_table(rows, f"{table.root}/f{number}.parquet", row_group_size=90)
        size = len(open(f"{table.root}/f{number}.parquet", "rb").read())
        fields = {name: getattr(table.adds[number], name) for name in table.adds[number].__struct_fields__}
        table.adds[number] = type(table.adds[number])(**{**fields, "size": size})
    table.hide(1, list(range(650)))
    table.spark.conf.set("spark.sql.parquet.enableNestedColumnVectorizedReader", "false")
    try:
        result = rewrite(table, row_counts=[700, 700, 700])
    finally:
        table.spark.conf.unset("spark.sql.parquet.enableNestedColumnVectorizedReader")
    due = {0: range(700), 1: range(1650, 1700), 2: range(2000, 2700)}
    assert stored(table, result)["id"].to_pylist() == [n for file in result.order for n in due[file]]


def test_files_older_than_columns_and_types(table_of: MakeTable) -> None:
    table = table_of(struct(("id", LongType()), ("later", IntegerType()), ("nothing", NullType())))
    table.write_file("old.parquet", pa.table({"id": pa.array([1, 2, 3], pa.int32()), "dropped": ["a", "b", "c"]}))
    table.write_file("new.parquet", pa.table({"id": pa.array([4], pa.int64()), "later": pa.array([5], pa.int32())}))
    result = rewrite(table, row_counts=[3, 1])

    rows = stored(table, result)
    assert rows.schema.names == ["id", "later"]
    assert rows.schema.field("id").type == pa.int64()
    due: dict[int, list[Any]] = {0: [(1, None), (2, None), (3, None)], 1: [(4, 5)]}
    values = list(zip(rows["id"].to_pylist(), rows["later"].to_pylist(), strict=True))
    assert values == [row for file in result.order for row in due[file]]


def test_no_row_left_makes_no_file(table_of: MakeTable) -> None:
    table = table_of(ids_and_texts())
    table.write(table.spark.range(0, 3, 1, 1).selectExpr("id", "'x' AS text"))
    table.hide(0, [0, 1, 2])
    result = rewrite(table, row_counts=[3])
    assert result.written.adds == ()
    assert result.written.num_rows == 0


@pytest.mark.parametrize("row_counts", [[10, 5, 2000, 8, 8999, 1, 10], [10, 5, 2000, 8, 9001, 1, 10]])
def test_row_counts_that_are_not_true_fail_the_job(table_of: MakeTable, row_counts: list[int]) -> None:
    """Word of where rows went that rests on wrong counts would lead later deletes to the wrong rows."""
    table = table_of(ids_and_texts())
    several_files(table)
    with pytest.raises(RowOrderError):
        rewrite(table, row_counts=row_counts)
    assert rewrite(table, row_counts=None).written.num_rows == sum(COUNTS) - sum(map(len, HIDDEN.values()))


def test_a_cached_frame_does_not_replace_the_files(table_of: MakeTable) -> None:
    table = table_of(ids_and_texts())
    several_files(table)
    cached = table.scan().repartition(3).cache()
    plain = table.scan().cache()
    try:
        assert cached.count() == plain.count()
        assert stored(table, (result := rewrite(table, row_counts=COUNTS)))["id"].to_pylist() == expected_ids(result)
    finally:
        cached.unpersist()
        plain.unpersist()


def test_a_wide_table_is_read_row_by_row(table_of: MakeTable) -> None:
    """Beyond `spark.sql.codegen.maxFields` Spark neither reads by columns nor compiles a filter."""
    names = [f"c{n}" for n in range(120)]
    table = table_of(struct(("id", LongType()), *((name, LongType()) for name in names)))
    for start in (0, 10, 20):
        table.write(table.spark.range(start, start + 10, 1, 1).selectExpr("id", *(f"id AS {name}" for name in names)))
    table.hide(1, [0, 9])
    result = rewrite(table, row_counts=[10, 10, 10])
    due = {0: range(10), 1: range(11, 19), 2: range(20, 30)}
    assert stored(table, result)["id"].to_pylist() == [n for file in result.order for n in due[file]]


def test_statistics_and_compression_follow_the_table(table_of: MakeTable) -> None:
    table = table_of(ids_and_texts(), configuration={"delta.dataSkippingNumIndexedCols": "1"})
    several_files(table)
    result = rewrite(table, row_counts=COUNTS, options=(("compression", "zstd"),))
    (add,) = result.written.adds
    assert set(json.loads(add.stats or "")["minValues"]) == {"id"}
    file = pq.ParquetFile(f"{table.root}/{add.path}")
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert dataclasses.replace(result.written).size_bytes == add.size
