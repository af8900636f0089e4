"""Files that several tasks have written, put together by their row groups."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import RewriteRequest, ScanRequest
from anabranch.spark.gateway.jvm_classes import JvmValues
from anabranch.spark.native import native_write, row_groups
from anabranch.spark.write import rewrite_request
from anabranch.spark.write.rewrite_request import reading_plan
from anabranch.storage.memory_store import MemoryStore
from spark.engines import EngineTable
from spark.rewritten import (
    COUNTS,
    MakeTable,
    expected_ids,
    ids_and_texts,
    parquet_file,
    rewrite,
    several_files,
    stored,
)

pytestmark = [pytest.mark.spark]


@pytest.fixture(autouse=True)
def every_file_is_worth_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_request, "TASK_BYTES_MIN", 1)


def files_in(table: EngineTable) -> set[str]:
    return {path.name for path in Path(table.root).iterdir()}


def test_row_groups_of_several_tasks_are_one_file(table_of: MakeTable) -> None:
    """Files of 9,000 and 2,000 rows are most of the bytes, so two tasks read one each, and the second also the rest."""
    table = table_of(ids_and_texts())
    several_files(table)
    before = files_in(table)
    result = rewrite(table, row_counts=COUNTS, tasks_max=3)
    metadata = parquet_file(table, result).metadata
    assert metadata.num_row_groups > 1
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert all(group.column(0).has_column_index and group.column(0).has_offset_index for group in groups)
    (add,) = result.written.adds
    assert files_in(table) - before == {add.path, f".{add.path}.crc"}
    assert stored(table, result)["id"].to_pylist() == expected_ids(result)


def test_rows_are_left_in_some_tasks_only(table_of: MakeTable) -> None:
    table = table_of(ids_and_texts())
    for start in (0, 100, 200):
        table.write(table.spark.range(start, start + 100, 1, 1).selectExpr("id", "concat('name ', id) AS text"))
    sizes = [add.size for add in table.adds]
    largest = sizes.index(max(sizes))
    table.hide(largest, list(range(100)))
    result = rewrite(table, row_counts=[100, 100, 100], tasks_max=3)
    assert result.order[0] == largest
    assert stored(table, result)["id"].to_pylist() == [
        100 * file + row for file in result.order if file != largest for row in range(100)
    ]


@pytest.mark.parametrize("why", ["encryption", "variants", "row counts"])
def test_what_may_not_be_put_together_has_one_task(
    table_of: MakeTable, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    shreds = {"delta.enableVariantShredding": "true"} if why == "variants" else {}
    table = table_of(ids_and_texts(), configuration=shreds)
    several_files(table)
    if why == "encryption":
        monkeypatch.setattr(native_write, "can_be_joined", lambda _: False)
    counts = None if why == "row counts" else COUNTS
    assert parquet_file(table, rewrite(table, row_counts=counts, tasks_max=3)).metadata.num_row_groups == 1


def test_encryption_is_seen(spark: SparkSession) -> None:
    values = JvmValues(spark)
    assert row_groups.can_be_joined(values)
    spark.conf.set("parquet.crypto.factory.class", "a.Factory")
    try:
        assert not row_groups.can_be_joined(values)
    finally:
        spark.conf.unset("parquet.crypto.factory.class")


def test_files_that_cannot_be_put_together_are_removed(table_of: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers fault F56: OPTIMIZE stops between the files of its tasks and the one that it adds."""
    table = table_of(ids_and_texts())
    several_files(table)
    before = files_in(table)

    def broken(_values: object, _paths: object, target: Path, _options: object) -> None:
        target.write_bytes(b"PAR1")
        raise OSError("disk full")

    monkeypatch.setattr(row_groups, "_copy_row_groups", broken)
    with pytest.raises(OSError, match="disk full"):
        rewrite(table, row_counts=COUNTS, tasks_max=3)
    assert files_in(table) == before


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.integers(1, 5))
def test_tasks_have_files_of_about_the_same_size(sizes: list[int], tasks_max: int) -> None:
    files = table_of_adds(
        [
            AddFile(path=str(number), partition_values={}, size=size, modification_time=0, data_change=True)
            for number, size in enumerate(sizes)
        ]
    )
    scan = ScanRequest(
        table_root="/t",
        version=0,
        schema=ids_and_texts(),
        partition_columns=(),
        column_mapping=ColumnMappingMode.NONE,
        files=files,
        load_vectors=functools.partial(load_vectors, MemoryStore()),
    )
    request = RewriteRequest(scan=scan, row_counts=None, properties=TableProperties({}))
    plan = reading_plan(request, tasks_max)
    assert len(plan.tasks) <= tasks_max
    assert all(plan.tasks)
    assert [sizes[file] for file in plan.order] == sorted(sizes, reverse=True)
    assert sorted(plan.order) == list(range(len(sizes)))
    assert all(sum(sizes[file] for file in files_of_task) <= plan.bytes_max for files_of_task in plan.tasks)
    firsts = plan.first_rows([1] * len(sizes)).tolist()
    assert [firsts[file] for file in plan.order] == [
        (task << 33) + row for task, files_of_task in enumerate(plan.tasks) for row in range(len(files_of_task))
    ]
