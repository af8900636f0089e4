"""OPTIMIZE, ZORDER BY and REORG purge, as users call them, on every engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.optimize import rewrite_bins
from anabranch.commands.optimize.purge import purge, purge_frame
from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import (
    PartitionConditionError,
    ZOrderColumnMissingError,
    ZOrderPartitionColumnError,
    ZOrderTypeError,
    ZOrderWithoutStatisticsError,
)
from anabranch.spark.write import rewrite_request
from anabranch.tables import DeltaTable
from anabranch.transactions.proposed_commit import Operation
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import table_ref

pytestmark = pytest.mark.spark

VECTORS = {"delta.enableDeletionVectors": "true"}


def appended(delta: SparkSession, path: str, *ids: range, options: dict[str, str] | None = None, **more: Any) -> None:
    """One file for each range."""
    for number, ids_of_file in enumerate(ids):
        frame = delta.range(ids_of_file.start, ids_of_file.stop, ids_of_file.step, 1).selectExpr(
            "id", "id % 7 AS k", "concat('n', id) AS name"
        )
        if "extra" in more:
            frame = frame.selectExpr("*", *more["extra"])
        writer = frame.write.format("delta").mode("append").options(**({} if number else options or {}))
        if "partition_by" in more:
            writer = writer.partitionBy(more["partition_by"])
        writer.save(path)


def ids(delta: SparkSession, path: str) -> list[int]:
    return sorted(row[0] for row in delta.read.format("delta").load(path).select("id").collect())


def ids_read_by_others(path: str) -> list[list[int]]:
    """The ids that delta-rs and DuckDB read."""
    return [sorted(read(path).column("id").to_pylist()) for read in (read_by_delta_rs, read_by_duckdb)]


def metrics(result: DataFrame) -> Any:
    row = result.first()
    assert row is not None
    return row["metrics"]


def entry(path: str, version: int) -> dict[str, list[dict[str, Any]]]:
    """The actions of a commit by kind."""
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in (Path(path) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        for kind, fields in json.loads(line).items():
            actions.setdefault(kind, []).append(fields)
    return actions


def test_small_files_become_one(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10), range(10, 15), range(15, 40))
    result = DeltaTable.forPath(delta, path).optimize().executeCompaction()

    reported = metrics(result)
    assert (reported["numFilesAdded"], reported["numFilesRemoved"], reported["numBins"]) == (1, 3, 1)
    assert reported["filesRemoved"]["totalFiles"] == 3
    assert reported["totalConsideredFiles"] == 3
    assert reported["partitionsOptimized"] == 1
    assert reported["zOrderStats"] is None
    assert ids(delta, path) == list(range(40))

    actions = entry(path, 3)
    (info,) = actions["commitInfo"]
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"}
    assert info["operationMetrics"]["numAddedFiles"] == "1"
    assert info["operationMetrics"]["numRemovedFiles"] == "3"
    assert info["operationMetrics"]["numDeletionVectorsRemoved"] == "0"
    (add,) = actions["add"]
    assert add["dataChange"] is False
    assert add["tags"]["INSERTION_TIME"] == max(
        entry(path, version)["add"][0]["tags"]["INSERTION_TIME"] for version in range(3)
    )
    runs = [json.loads(remove["tags"]["anabranch.movedTo"]) for remove in actions["remove"]]
    first, second, third = sorted((start, count) for ((target, start, count),) in runs if target == add["path"])
    assert [first[0], second[0], third[0]] == [0, first[1], first[1] + second[1]]
    assert first[1] + second[1] + third[1] == 40
    assert all(remove["dataChange"] is False for remove in actions["remove"])


@pytest.fixture
def three_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks write a file, as on a machine with more cores for larger files."""
    monkeypatch.setattr(rewrite_request, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(rewrite_bins, "default_parallelism", lambda _: 3)


@pytest.mark.usefixtures("three_tasks")
def test_several_tasks_write_one_file(delta: SparkSession, path: str) -> None:
    """Their files are put together by row groups; rows keep their ids, and others read the file."""
    tracked = {**VECTORS, "delta.enableRowTracking": "true"}
    appended(delta, path, range(100), range(100, 180), range(180, 400), options=tracked)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id % 5 = 2")
    rows = f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM delta.`{path}` ORDER BY id"
    before = delta.sql(rows).collect()
    assert metrics(DeltaTable.forPath(delta, path).optimize().executeCompaction())["numFilesAdded"] == 1
    (add,) = entry(path, 4)["add"]
    assert pq.ParquetFile(f"{path}/{add['path']}").metadata.num_row_groups > 1
    assert delta.sql(rows).collect() == before
    assert delta.sql(f"SELECT id FROM delta.`{path}` WHERE name = 'n333'").collect() == [(333,)]
    assert ids_read_by_others(path) == [[n for n in range(400) if n % 5 != 2]] * 2


def test_nothing_to_do_commits_nothing(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10))
    reported = metrics(DeltaTable.forPath(delta, path).optimize().executeCompaction())
    assert (reported["numFilesAdded"], reported["numFilesRemoved"], reported["numBins"]) == (0, 0, 0)
    assert (reported["filesAdded"]["min"], reported["filesAdded"]["totalSize"]) == (None, 0)
    assert (reported["totalConsideredFiles"], reported["totalFilesSkipped"]) == (1, 1)
    assert not (Path(path) / "_delta_log" / f"{1:020}.json").exists()

    table = DeltaTable.forPath(delta, path)
    table.delete()
    assert metrics(table.optimize().executeCompaction())["numBins"] == 0
    assert metrics(table.optimize().executeZOrderBy("id"))["numBins"] == 0
    assert not (Path(path) / "_delta_log" / f"{2:020}.json").exists()


def test_partitions_are_chosen_and_kept_apart(delta: SparkSession, path: str) -> None:
    for start in (0, 10):
        appended(delta, path, range(start, start + 10), partition_by="part", extra=["concat('p ', id % 3) AS part"])
    table = DeltaTable.forPath(delta, path)
    reported = metrics(table.optimize().where("part = 'p 0'").executeCompaction())
    assert (reported["numFilesAdded"], reported["numFilesRemoved"], reported["totalConsideredFiles"]) == (1, 2, 2)
    (add,) = entry(path, 2)["add"]
    assert add["partitionValues"] == {"part": "p 0"}
    assert json.loads(entry(path, 2)["commitInfo"][0]["operationParameters"]["predicate"]) == ["part = 'p 0'"]

    # A condition that Spark alone understands.
    reported = metrics(table.optimize().where("part <> 'p 0'").where("right(part, 1) = '1'").executeCompaction())
    assert (reported["numFilesRemoved"], reported["partitionsOptimized"]) == (2, 1)
    assert metrics(table.optimize().executeCompaction())["numFilesRemoved"] == 2
    assert sorted(ids(delta, path)) == list(range(20))
    parts = delta.read.format("delta").load(path).selectExpr("part", "concat('p ', id % 3) AS due")
    assert parts.where("part <> due").count() == 0


def test_conditions_that_do_not_choose_partitions(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10), partition_by="part", extra=["id % 2 AS part"])
    optimize = DeltaTable.forPath(delta, path).optimize()
    with pytest.raises(PartitionConditionError):
        optimize.where("part IN (SELECT 1)").executeCompaction()
    with pytest.raises(TypeError, match="must be str"):
        optimize.where(3)  # type: ignore[arg-type]


def test_the_size_wanted_decides_how_many_files_there_are(delta: SparkSession, path: str) -> None:
    options = {"delta.targetFileSize": "4000"}
    appended(delta, path, *(range(n, n + 10) for n in range(0, 80, 10)), options=options)
    reported = metrics(DeltaTable.forPath(delta, path).optimize().executeCompaction())
    sizes = [add["size"] for version in range(8) for add in entry(path, version)["add"]]
    per_bin = 4000 // max(sizes)
    assert per_bin > 1
    assert reported["numFilesAdded"] == -(-8 // per_bin)
    assert ids(delta, path) == list(range(80))


def test_hidden_rows_are_left_out_for_good(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10), range(10, 30), range(30, 33), options=VECTORS)
    table = DeltaTable.forPath(delta, path)
    table.delete("id % 5 = 0")
    reported = metrics(table.optimize().executeCompaction())
    assert reported["deletionVectorStats"]["numDeletionVectorsRemoved"] == 3
    assert reported["deletionVectorStats"]["numDeletionVectorRowsRemoved"] == 7
    (add,) = entry(path, 4)["add"]
    assert json.loads(add["stats"])["numRecords"] == 26
    assert entry(path, 4)["commitInfo"][0]["operationMetrics"]["numDeletionVectorsRemoved"] == "3"
    left = [n for n in range(33) if n % 5]
    assert ids(delta, path) == left
    assert ids_read_by_others(path) == [left, left]


def test_zorder_by_puts_alike_rows_together(delta: SparkSession, path: str) -> None:
    appended(delta, path, *(range(n, 4096, 4) for n in range(4)), options=VECTORS)
    table = DeltaTable.forPath(delta, path)
    table.delete("id < 10")
    size = sum(add["size"] for version in range(4) for add in entry(path, version)["add"])
    delta.conf.set("spark.databricks.delta.optimize.maxFileSize", str(size // 4))
    try:
        reported = metrics(table.optimize().executeZOrderBy("id", "name"))
    finally:
        delta.conf.unset("spark.databricks.delta.optimize.maxFileSize")
    assert (reported["numFilesRemoved"], reported["numBins"]) == (4, 1)
    assert reported["numFilesAdded"] == 4
    assert reported["zOrderStats"]["strategyName"] == "all"
    assert reported["zOrderStats"]["inputOtherFiles"]["num"] == 4
    assert reported["zOrderStats"]["mergedFiles"]["size"] == reported["filesRemoved"]["totalSize"]
    assert reported["zOrderStats"]["numOutputCubes"] == 1
    actions = entry(path, 5)
    assert actions["commitInfo"][0]["operationParameters"]["zOrderBy"] == '["id","name"]'
    spans = [json.loads(add["stats"]) for add in actions["add"]]
    assert sum(span["numRecords"] for span in spans) == 4086
    width = [span["maxValues"]["id"] - span["minValues"]["id"] for span in spans]
    assert sorted(width)[1] < 2200, "before, every file spanned all ids"
    assert ids(delta, path) == list(range(10, 4096))
    assert ids_read_by_others(path) == [list(range(10, 4096))] * 2


@pytest.mark.usefixtures("three_tasks")
def test_several_tasks_order_one_file(delta: SparkSession, path: str) -> None:
    """Each orders the rows of a part of the curve, and the parts follow one another in the file."""
    appended(delta, path, *(range(n, 4096, 4) for n in range(4)), options=VECTORS)
    table = DeltaTable.forPath(delta, path)
    table.delete("id % 9 = 4")
    assert metrics(table.optimize().executeZOrderBy("id"))["numFilesAdded"] == 1
    (add,) = entry(path, 5)["add"]
    file = pq.ParquetFile(f"{path}/{add['path']}")
    left = [n for n in range(4096) if n % 9 != 4]
    assert file.metadata.num_row_groups == 3
    assert file.read(["id"])["id"].to_pylist() == left
    assert ids_read_by_others(path) == [left, left]


def test_zorder_by_columns_of_every_type(delta: SparkSession, path: str) -> None:
    values = {
        "b": "id % 2 = 0",
        "y": "cast(id AS tinyint)",
        "f": "cast(CASE WHEN id = 3 THEN double('NaN') ELSE id / 7 END AS float)",
        "d": "cast(id AS decimal(30, 3))",
        "s": "CASE WHEN id % 5 = 0 THEN NULL ELSE concat('é', id) END",
        "x": "cast(concat('x', id) AS binary)",
        "day": "date_add(DATE'1969-12-30', cast(id AS int))",
        "at": "timestamp_seconds(id - 50)",
        "ntz": "cast(timestamp_seconds(id - 50) AS timestamp_ntz)",
        "a_b": "id",
        "z": "named_struct('in', -id)",
    }
    columns = [f"{text} AS {name}" for name, text in values.items()]
    for start in (0, 50):
        delta.range(start, start + 50, 1, 1).selectExpr("id", *columns).write.format("delta").mode("append").save(path)
    before = delta.read.format("delta").load(path).selectExpr("to_json(struct(*)) AS row").collect()
    names = [name for name in values if name != "z"]
    reported = metrics(DeltaTable.forPath(delta, path).optimize().executeZOrderBy([*names, "z.in"]))
    assert (reported["numFilesAdded"], reported["numFilesRemoved"]) == (1, 2)
    after = delta.read.format("delta").load(path).selectExpr("to_json(struct(*)) AS row").collect()
    assert sorted(after) == sorted(before)


def test_zorder_by_columns_that_make_no_sense(delta: SparkSession, path: str) -> None:
    options = {"delta.dataSkippingStatsColumns": "id"}
    appended(
        delta, path, range(10), options=options, partition_by="part", extra=["array(id) AS list", "id % 2 AS part"]
    )
    optimize = DeltaTable.forPath(delta, path).optimize()
    with pytest.raises(ZOrderColumnMissingError):
        optimize.executeZOrderBy("nothing")
    with pytest.raises(ZOrderPartitionColumnError):
        optimize.executeZOrderBy("id", "part")
    with pytest.raises(ZOrderTypeError):
        optimize.executeZOrderBy("list")
    with pytest.raises(ZOrderWithoutStatisticsError, match="name"):
        optimize.executeZOrderBy("name")
    with pytest.raises(TypeError, match="Z-order column must be str"):
        optimize.executeZOrderBy(3)  # type: ignore[arg-type]
    delta.conf.set("spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled", "false")
    try:
        assert metrics(optimize.executeZOrderBy("NAME"))["numFilesAdded"] == 2
    finally:
        delta.conf.unset("spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled")
    assert ids(delta, path) == list(range(10))


def test_purge_rewrites_only_files_that_hide_rows(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10), range(10, 20), range(20, 30), options=VECTORS)
    DeltaTable.forPath(delta, path).delete("id IN (3, 25)")
    table = table_ref(delta, path)
    reported = metrics(purge_frame(table))
    assert (reported["numFilesRemoved"], reported["numFilesAdded"]) == (2, 1)
    assert reported["deletionVectorStats"]["numDeletionVectorRowsRemoved"] == 2
    (info,) = entry(path, 4)["commitInfo"]
    assert info["operation"] == "REORG"
    assert info["operationParameters"] == {"predicate": "[]", "applyPurge": "true"}
    left = [n for n in range(30) if n not in (3, 25)]
    assert ids(delta, path) == left
    assert metrics(purge_frame(table))["numBins"] == 0
    assert ids_read_by_others(path) == [left, left]


def test_purge_of_dropped_columns(delta: SparkSession, path: str) -> None:
    appended(delta, path, range(10), options={"delta.columnMapping.mode": "name"})
    table = table_ref(delta, path)
    assert purge(table).num_bins == 0
    drop_column(table, "name")
    assert delta.read.format("delta").load(path).columns == ["id", "k"]
    assert purge(table).num_bins == 1
    (add,) = entry(path, 2)["add"]
    assert len(pq.read_schema(f"{path}/{add['path']}").names) == 2
    assert purge(table).num_bins == 0
    assert ids(delta, path) == list(range(10))


def drop_column(table: TableRef, name: str) -> None:
    """As ALTER TABLE … DROP COLUMN does it: the schema changes, and no file."""
    transaction = table.delta_log.begin(Operation(name="DROP COLUMNS"))
    assert transaction.metadata is not None
    schema = json.loads(transaction.metadata.schema_string)
    schema["fields"] = [field for field in schema["fields"] if field["name"] != name]
    transaction.commit([msgspec.structs.replace(transaction.metadata, schema_string=json.dumps(schema))])
