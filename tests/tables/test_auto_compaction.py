"""Automatic compaction: what statements leave in many small files is put together after their commit."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import in_this_process, table_ref

pytestmark = pytest.mark.spark

ENABLED = "spark.databricks.delta.autoCompact.enabled"
MIN_NUM_FILES = "spark.databricks.delta.autoCompact.minNumFiles"
PROPERTY = "delta.autoOptimize.autoCompact"


@contextmanager
def settings(delta: SparkSession, **values: str) -> Iterator[None]:
    names = {"enabled": ENABLED, "min_num_files": MIN_NUM_FILES}
    named = {names.get(name, f"spark.databricks.delta.autoCompact.{name}"): value for name, value in values.items()}
    for name, value in named.items():
        delta.conf.set(name, value)
    try:
        yield
    finally:
        for name in named:
            delta.conf.unset(name)


def create(
    delta: SparkSession, path: str, columns: str = "id BIGINT, p INT", more: str = "", **properties: str
) -> None:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in ({PROPERTY: "true"} | properties).items())
    delta.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {more} TBLPROPERTIES ({listed})")


def append(delta: SparkSession, path: str, first: int, *, p: int = 0, rows: int = 10) -> None:
    """One file."""
    frame = delta.range(first, first + rows, 1, 1).selectExpr("id", f"{p} AS p")
    frame.write.format("delta").mode("append").save(path)


def operations(path: str) -> list[str]:
    """The operations of all versions, oldest first."""
    return [info["operation"] for info in commit_infos(path)]


def commit_infos(path: str) -> list[dict[str, Any]]:
    infos = []
    for file in sorted((Path(path) / "_delta_log").glob("*.json")):
        infos += [json.loads(line)["commitInfo"] for line in file.read_text().splitlines() if '"commitInfo"' in line]
    return infos


def files(delta: SparkSession, path: str) -> int:
    return DeltaTable.forPath(delta, path).detail().first()["numFiles"]  # type: ignore[index]


def ids(delta: SparkSession, path: str) -> list[int]:
    return sorted(row[0] for row in delta.read.format("delta").load(path).select("id").collect())


def test_enough_small_files_become_one_after_the_append_that_makes_them_enough(delta: SparkSession, path: str) -> None:
    create(delta, path)
    with settings(delta, min_num_files="4"):
        for number in range(4):
            assert "OPTIMIZE" not in operations(path)
            append(delta, path, number * 10)
    assert operations(path) == ["CREATE TABLE", *["WRITE"] * 4, "OPTIMIZE"]
    parameters = commit_infos(path)[-1]["operationParameters"]
    assert parameters["auto"] == "true"
    assert parameters["predicate"] == "[]"
    assert files(delta, path) == 1
    assert ids(delta, path) == list(range(40))
    for read in (read_by_delta_rs, read_by_duckdb):
        assert sorted(read(path).column("id").to_pylist()) == list(range(40))


def test_fifty_files_are_enough_by_default(delta: SparkSession, path: str) -> None:
    create(delta, path)
    delta.range(0, 98, 1, 49).selectExpr("id", "0 AS p").write.format("delta").mode("append").save(path)
    assert operations(path)[-1] == "WRITE"
    append(delta, path, 98, rows=2)
    assert operations(path)[-1] == "OPTIMIZE"
    assert ids(delta, path) == list(range(100))


def test_only_partitions_that_the_commit_touched_are_compacted(delta: SparkSession, path: str) -> None:
    create(delta, path, more="PARTITIONED BY (p)", **{PROPERTY: "false"})
    for number in range(3):
        append(delta, path, number * 10, p=0)
        append(delta, path, 100 + number * 10, p=1)
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{PROPERTY}' = 'true')")
    with settings(delta, min_num_files="4"):
        append(delta, path, 200, p=2)
        assert operations(path)[-1] == "WRITE"
        append(delta, path, 30, p=0)
    assert operations(path)[-1] == "OPTIMIZE"
    assert files(delta, path) == 1 + 3 + 1
    with settings(delta, min_num_files="3", **{"modifiedPartitionsOnly.enabled": "false"}):
        append(delta, path, 210, p=2)
    assert files(delta, path) == 1 + 1 + 2


def test_so_many_partitions_at_once_as_the_session_says(delta: SparkSession, path: str) -> None:
    create(delta, path, more="PARTITIONED BY (p)")
    rows = delta.range(0, 12, 1, 1).selectExpr("id", "CAST(id % 3 AS INT) AS p")
    rows.write.format("delta").mode("append").save(path)
    rows.where("p < 2").write.format("delta").mode("append").save(path)
    with settings(delta, min_num_files="3", maxNumModifiedPartitions="1"):
        rows.write.format("delta").mode("append").save(path)
    assert files(delta, path) == 1 + 3 + 2


@pytest.mark.parametrize(
    ("setting", "wanted", "compacts"),
    [
        (None, "true", True),
        (None, "auto", True),
        (None, "legacy", True),
        (None, "false", False),
        ("true", "false", True),
        ("auto", "false", True),
        ("FALSE", "true", False),
    ],
)
def test_the_session_goes_before_the_table(
    delta: SparkSession, path: str, setting: str | None, wanted: str, compacts: bool
) -> None:
    create(delta, path, **{PROPERTY: wanted})
    enabled = {} if setting is None else {"enabled": setting}
    with settings(delta, min_num_files="2", **enabled):
        append(delta, path, 0)
        append(delta, path, 10)
    assert ("OPTIMIZE" in operations(path)) is compacts


def test_the_old_name_of_the_property_counts(delta: SparkSession, path: str) -> None:
    create(delta, path, **{PROPERTY: "false", "delta.autoOptimize": "true"})
    with settings(delta, min_num_files="2"):
        append(delta, path, 0)
        append(delta, path, 10)
    assert operations(path)[-1] == "OPTIMIZE"


def test_statements_that_change_rows_are_followed_by_it_too(delta: SparkSession, path: str) -> None:
    create(delta, path)
    for number in range(3):
        append(delta, path, number * 10)
    with settings(delta, min_num_files="3"):
        delta.sql(f"UPDATE delta.`{path}` SET p = 1 WHERE id = 5")
        assert operations(path)[-2:] == ["UPDATE", "OPTIMIZE"]
        append(delta, path, 30)
        append(delta, path, 40)
        assert operations(path)[-1] == "OPTIMIZE"
        append(delta, path, 50)
        source = "SELECT id + 60 AS id, 3 AS p FROM range(3)"
        delta.sql(f"MERGE INTO delta.`{path}` t USING ({source}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert operations(path)[-2:] == ["MERGE", "OPTIMIZE"]
    assert files(delta, path) == 1
    assert ids(delta, path) == list(range(63))


def test_a_statement_that_adds_no_file_is_not_followed_by_it(delta: SparkSession, path: str) -> None:
    create(delta, path)
    for number in range(3):
        append(delta, path, number * 10)
    with settings(delta, min_num_files="2"):
        delta.sql(f"DELETE FROM delta.`{path}` WHERE id < 10 AND id >= 0")
        assert operations(path)[-1] == "DELETE"
        delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('a' = 'b')")
        delta.sql(f"OPTIMIZE delta.`{path}`")
    assert operations(path)[-2:] == ["SET TBLPROPERTIES", "OPTIMIZE"]


def test_small_and_large_is_what_the_session_says(delta: SparkSession, path: str) -> None:
    create(delta, path)
    with settings(delta, min_num_files="2", minFileSize="100"):
        append(delta, path, 0)
        append(delta, path, 10)
        assert operations(path)[-1] == "WRITE"
    size = max(file.stat().st_size for file in Path(path).glob("*.parquet"))
    with settings(delta, min_num_files="2", maxFileSize=str(size * 5 // 2)):
        for number in range(2, 8):
            append(delta, path, number * 10)
    assert ids(delta, path) == list(range(80))
    assert 1 < files(delta, path) < 8


def test_a_new_table_from_a_query_is_compacted_too(delta: SparkSession, name: str) -> None:
    with settings(delta, min_num_files="3", enabled="true"):
        delta.range(0, 6, 1, 3).write.format("delta").saveAsTable(name)
    history = [row["operation"] for row in delta.sql(f"DESCRIBE HISTORY {name}").collect()]
    assert history[0] == "OPTIMIZE"
    assert delta.table(name).count() == 6


def test_a_clustered_table_is_clustered(delta: SparkSession, path: str) -> None:
    create(delta, path, more="CLUSTER BY (id)")
    with settings(delta, min_num_files="3"):
        for number in range(3):
            append(delta, path, number * 10)
        assert operations(path)[-1] == "OPTIMIZE"
        assert "id" in commit_infos(path)[-1]["operationParameters"]["clusterBy"]
        versions = len(operations(path))
        append(delta, path, 30)
        # What is in a cube is no small file to be put together.
        assert len(operations(path)) == versions + 1


@in_this_process
def test_a_compaction_that_fails_fails_no_statement(
    delta: SparkSession, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(delta, path)
    with settings(delta, min_num_files="many"), caplog.at_level(logging.WARNING, "anabranch.optimize"):
        append(delta, path, 0)
    assert "the compaction after version 1 failed" in caplog.text
    assert "'many'" in caplog.text
    assert operations(path) == ["CREATE TABLE", "WRITE"]
    with settings(delta, enabled="perhaps"), caplog.at_level(logging.WARNING, "anabranch.optimize"):
        append(delta, path, 10)
    assert "it must be true, auto, legacy or false" in caplog.text
    assert ids(delta, path) == list(range(20))


@in_this_process
def test_while_one_thread_compacts_the_others_do_not(delta: SparkSession, path: str) -> None:
    create(delta, path)

    table = table_ref(delta, path).delta_log
    with settings(delta, min_num_files="2"):
        append(delta, path, 0)
        with table.compacting:
            append(delta, path, 10)
        assert "OPTIMIZE" not in operations(path)
        append(delta, path, 20)
    assert operations(path)[-1] == "OPTIMIZE"
    assert files(delta, path) == 1


def test_writers_beside_their_own_compactions(delta: SparkSession, path: str) -> None:
    """Race 60: each statement may be followed by a compaction of what the others change. No statement fails, nothing is lost."""
    create(delta, path, **{"delta.enableDeletionVectors": "true"})
    append(delta, path, 0, rows=30)

    def work(writer: int) -> None:
        for turn in range(2):
            append(delta, path, 1000 * (writer + 1) + 10 * turn)
            delta.sql(f"UPDATE delta.`{path}` SET p = p + 1 WHERE id = {writer}")

    with settings(delta, min_num_files="2"), ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, writer) for writer in range(3)]:
            done.result()
    assert "OPTIMIZE" in operations(path)
    rows = {row["id"]: row["p"] for row in delta.read.format("delta").load(path).collect()}
    assert {number: rows[number] for number in range(30)} == {number: 2 if number < 3 else 0 for number in range(30)}
    appended = {1000 * (writer + 1) + number for writer in range(3) for number in range(20)}
    assert sorted(rows) == ids(delta, path) == sorted({*range(30), *appended})
