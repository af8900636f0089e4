"""What a MERGE reads of a large table: parts of files by Parquet's statistics, and whole rows only where some change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.merge import merge_rows
from anabranch.spark.rows import cached_rows
from anabranch.spark.rows.hidden_rows import MarkedRows
from anabranch.tables import DeltaTable
from session_kinds import in_this_process
from tables.large_tables import counted_reads

pytestmark = [pytest.mark.spark, in_this_process]

FILES = 40
ROWS_OF_FILE = 50
NEW_ROWS = ((2_000_000, "new"),)


@pytest.fixture
def wide(delta: SparkSession, path: str) -> str:
    """Forty files of fifty keys each, in no order of the keys, and columns that no condition names."""
    rows = delta.range(0, FILES * ROWS_OF_FILE, 1, FILES).selectExpr(
        f"(id % {ROWS_OF_FILE}) * {FILES} + id DIV {ROWS_OF_FILE} AS k",
        "concat('v', id) AS v",
        *(f"id AS c{number}" for number in range(6)),
    )
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    return path


@pytest.fixture
def reads() -> Iterator[list[int]]:
    """How many files each read has, in order, of tables that are taken for large."""
    with counted_reads() as numbers:
        yield numbers


def upsert(spark: SparkSession, path: str, keys: list[int]) -> tuple[int, ...]:
    source = spark.createDataFrame([*((key, "u") for key in keys), *NEW_ROWS], "k long, v string")
    merging = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.k = s.k")
    result = merging.whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsert(values={"k": "s.k", "v": "s.v"})
    return tuple(result.execute().collect()[0])


def test_whole_rows_of_changed_files(delta: SparkSession, wide: str, reads: list[int]) -> None:
    in_three_files = [3, 3 + FILES, 11, 1_000_001]
    assert upsert(delta, wide, in_three_files) == (5, 3, 0, 2)
    assert reads == [2, FILES, 2], "a sample, the columns of the condition, and two files as a whole"
    rows = {row.k: row for row in delta.read.format("delta").load(wide).where("v IN ('u', 'new')").collect()}
    assert sorted(rows) == [3, 11, 3 + FILES, 1_000_001, 2_000_000]
    assert rows[3].c5 == 3 * ROWS_OF_FILE, "the columns that the statement does not set"


def test_no_match(delta: SparkSession, wide: str, reads: list[int]) -> None:
    source = delta.createDataFrame([(0, "u"), (10**6, "u")], "k long, w string").selectExpr("k + 0.5D AS k", "w")
    result = (
        DeltaTable.forPath(delta, wide)
        .alias("t")
        .merge(source.alias("s"), "CAST(t.k AS DOUBLE) = s.k")
        .whenMatchedUpdate(set={"v": "s.w"})
        .execute()
    )
    assert tuple(result.collect()[0]) == (0, 0, 0, 0)
    assert reads == [2, FILES]


def test_rows_in_all_files_are_read_once(delta: SparkSession, wide: str, reads: list[int]) -> None:
    assert upsert(delta, wide, list(range(FILES))) == (FILES + 1, FILES, 0, 1)
    assert reads == [2, FILES]


def test_more_rows_than_are_cached_are_read_once(delta: SparkSession, wide: str, reads: list[int]) -> None:
    with mock.patch.object(merge_rows, "CACHED_ROWS_MAX", FILES // 2):
        assert upsert(delta, wide, list(range(FILES))) == (FILES + 1, FILES, 0, 1)
    assert reads == [FILES]


def test_a_source_of_many_rows_is_not_broadcast(delta: SparkSession, wide: str) -> None:
    """However few bytes Spark takes it for, by the files that it was read from: here by rows before an `explode`."""
    frames: list[DataFrame] = []
    marks = merge_rows.marks_of_frame

    def seen(frame: DataFrame, *, group_by: Sequence[str] = ()) -> list[MarkedRows]:
        frames.append(frame)
        return marks(frame, group_by=group_by)

    source = delta.range(1).selectExpr("explode(sequence(0, 9)) AS k")
    merging = DeltaTable.forPath(delta, wide).alias("t").merge(source.alias("s"), "t.k = s.k").whenMatchedDelete()
    with (
        mock.patch.object(merge_rows, "marks_of_frame", seen),
        mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 0),
    ):
        assert tuple(merging.execute().collect()[0]) == (10, 0, 10, 0)
    plan = frames[0]._jdf.queryExecution().executedPlan().toString()
    assert "BuildRight" not in plan
    assert "BuildLeft" in plan, "the table is small"


def test_parts_of_files(delta: SparkSession, path: str) -> None:
    """Row groups whose statistics say that no key of the source is in them are not read: here they cannot be."""
    delta.conf.set("parquet.block.size", 65536)
    try:
        rows = delta.range(0, 100_000, 1, 1).selectExpr("id AS k", "concat('v', id) AS v")
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    finally:
        delta.conf.unset("parquet.block.size")
    (file,) = Path(path).glob("*.parquet")
    damage_all_but_the_first_row_group(file)
    with mock.patch.object(merge_rows, "FILTERED_BYTES_MIN", 0):
        assert upsert(delta, path, [5, 7]) == (3, 2, 0, 1)


def damage_all_but_the_first_row_group(file: Path) -> None:
    footer = pq.read_metadata(file)
    assert footer.num_row_groups > 1
    second = footer.row_group(1).column(0)
    begin = min(filter(None, (second.dictionary_page_offset, second.data_page_offset)))
    last = footer.row_group(footer.num_row_groups - 1)
    column = last.column(last.num_columns - 1)
    end = min(filter(None, (column.dictionary_page_offset, column.data_page_offset))) + column.total_compressed_size
    with file.open("r+b") as data:
        data.seek(begin)
        data.write(b"\xff" * (end - begin))
    # The checksum that Hadoop keeps beside a file would find the damage first.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_a_large_source_is_kept_as_bytes(delta: SparkSession, path: str) -> None:
    """Values of all kinds are the same afterwards; they are not evaluated again."""
    columns = (
        "id AS k",
        "concat('v', id) AS text",
        "IF(id % 3 = 0, NULL, named_struct('d', CAST(id AS DECIMAL(30, 2)), 'b', unhex(hex(id)))) AS s",
        "transform(sequence(0, id % 4), i -> map(i, i IS NULL)) AS a",
        "timestamp_micros(id) AS t",
    )
    folder = f"{path} of the source"
    delta.range(20_000).selectExpr(*columns).write.parquet(folder)
    source = delta.read.parquet(folder)
    with mock.patch.object(cached_rows, "OBJECTS_BYTES_MAX", -1):
        kept = cached_rows.materialize(source)
    assert not kept.frame._jdf.queryExecution().analyzed().rdd().getStorageLevel().deserialized()
    try:
        expected = sorted(source.selectExpr("to_json(struct(*))").collect())
        assert sorted(kept.frame.selectExpr("to_json(struct(*))").collect()) == expected
        for file in Path(folder).glob("*.parquet"):
            file.unlink()
        assert sorted(kept.frame.selectExpr("to_json(struct(*))").collect()) == expected
    finally:
        kept.release()
