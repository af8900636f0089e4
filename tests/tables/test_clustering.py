"""OPTIMIZE of tables with clustering columns, on every engine, and beside other writers."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.optimize_command import optimize, optimize_frame, optimize_job
from anabranch.commands.optimize.optimize_plan import Plan
from anabranch.commands.optimize.purge import purge
from anabranch.commands.optimize.rewrite_bins import RewrittenBin
from anabranch.commands.optimize.rewrite_job import RewriteJob, run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import ClusteredTableError, ClusteredTableZOrderError, FullNeedsClusteringError
from anabranch.protocol.actions import AddFile
from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import table_ref

pytestmark = [pytest.mark.spark]

FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"
CUBES = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize."
SIDE = 32
POINTS = SIDE * SIDE


def grid(delta: SparkSession, start: int = 0, end: int = POINTS) -> DataFrame:
    """All points `x`, `y` of a square, in one file, in an order that has nothing to do with either."""
    mixed = delta.range(start, end, 1, 1).select("id", (F.col("id") * 397 % POINTS).alias("n"))
    return mixed.selectExpr("id", f"n % {SIDE} AS x", f"n div {SIDE} AS y", "concat('n', id) AS name")


def append(frame: DataFrame, path: str, *cluster_by: str, **options: str) -> None:
    writer = frame.coalesce(1).write.format("delta").mode("append").options(**options)
    (writer.clusterBy(*cluster_by) if cluster_by else writer).save(path)


@contextlib.contextmanager
def setting(delta: SparkSession, **values: object) -> Iterator[None]:
    settings_by_name = {"file_bytes": FILE_BYTES, "stable": f"{CUBES}threshold", "cube_bytes": f"{CUBES}targetCubeSize"}
    for name, value in values.items():
        delta.conf.set(settings_by_name[name], str(value))
    try:
        yield
    finally:
        for name in values:
            delta.conf.unset(settings_by_name[name])


def live(delta: SparkSession, path: str) -> list[AddFile]:
    return table_ref(delta, path).latest().files.to_actions()


def metrics(result: DataFrame) -> Any:
    row = result.first()
    assert row is not None
    return row["metrics"]


def run(delta: SparkSession, path: str, *, full: bool = False) -> Any:
    return metrics(optimize_frame(table_ref(delta, path), full=full))


def ids(delta: SparkSession, path: str) -> list[int]:
    """The ids that we read; delta-rs and DuckDB must read the same."""
    ids = sorted(row[0] for row in delta.read.format("delta").load(path).select("id").collect())
    for read in (read_by_delta_rs, read_by_duckdb):
        assert sorted(read(path).column("id").to_pylist()) == ids
    return ids


def opened_by(files: list[AddFile], **at_most: int) -> int:
    """How many files a reader opens who looks for rows with columns below these values."""
    minima = [json.loads(file.stats or "")["minValues"] for file in files]
    return sum(all(minimum[name] < value for name, value in at_most.items()) for minimum in minima)


def last_commit(path: str, version: int) -> dict[str, list[dict[str, Any]]]:
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in (Path(path) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        for kind, fields in json.loads(line).items():
            actions.setdefault(kind, []).append(fields)
    return actions


def test_files_hold_neighbours_and_small_cubes_grow(delta: SparkSession, path: str) -> None:
    for start in range(0, POINTS, POINTS // 4):
        append(grid(delta, start, start + POINTS // 4), path, *(() if start else ("x", "y")))
    before = live(delta, path)
    assert opened_by(before, x=4, y=4) == 4

    with setting(delta, file_bytes=sum(file.size for file in before) // 8):
        reported = run(delta, path)
    assert (reported["numFilesRemoved"], reported["numFilesAdded"], reported["numBins"]) == (4, 8, 1)
    assert reported["zOrderStats"] is None
    stats = reported["clusteringStats"]
    assert (stats["inputNumZCubes"], stats["inputZCubeFiles"]["numFiles"], stats["numOutputZCubes"]) == (0, 0, 1)
    assert (stats["inputOtherFiles"]["numFiles"], stats["mergedFiles"]["numFiles"]) == (4, 4)
    assert stats["mergedFiles"]["size"] == sum(file.size for file in before)

    after = live(delta, path)
    assert opened_by(after, x=4) <= 5
    assert opened_by(after, y=4) <= 5
    assert opened_by(after, x=4, y=4) <= 3
    rows = [json.loads(file.stats or "")["numRecords"] for file in after]
    assert max(rows) < 2 * min(rows)
    assert {file.clustering_provider for file in after} == {"liquid"}
    assert len({(file.tags or {})["ZCUBE_ID"] for file in after}) == 1
    assert {(file.tags or {})["ZCUBE_ZORDER_BY"] for file in after} == {'["x","y"]'}
    assert {(file.tags or {})["ZCUBE_ZORDER_CURVE"] for file in after} == {"hilbert"}
    (info,) = last_commit(path, 4)["commitInfo"]
    assert info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": '["x","y"]',
        "auto": "false",
        "isFull": "false",
    }

    reported = run(delta, path)
    assert (reported["numFilesAdded"], reported["numBins"], reported["totalConsideredFiles"]) == (0, 0, 8)
    assert (reported["clusteringStats"]["inputNumZCubes"], reported["clusteringStats"]["numOutputZCubes"]) == (1, 0)

    append(grid(delta, POINTS, POINTS + 10), path)
    with setting(delta, stable=1):
        reported = run(delta, path)
    assert (reported["numFilesRemoved"], reported["numFilesAdded"]) == (1, 1), "the cube is large enough"
    reported = run(delta, path)
    assert (reported["numFilesRemoved"], reported["numFilesAdded"]) == (9, 1)
    assert reported["clusteringStats"]["inputNumZCubes"] == 2

    clustered = {(file.tags or {})["ZCUBE_ID"] for file in live(delta, path)}
    DeltaTable.forPath(delta, path).delete("id = 3")
    assert purge(table_ref(delta, path)).num_bins == 1
    assert {(file.tags or {})["ZCUBE_ID"] for file in live(delta, path)} == clustered
    assert ids(delta, path) == [n for n in range(POINTS + 10) if n != 3]


def test_other_columns_none_and_full(delta: SparkSession, path: str) -> None:
    append(grid(delta, 0, 20), path, "x")
    table = DeltaTable.forPath(delta, path)
    assert metrics(table.optimize().executeCompaction())["numFilesAdded"] == 1
    alter_cluster_by(table_ref(delta, path), [("y",), ("name",)])
    append(grid(delta, 20, 30), path)

    assert run(delta, path)["numFilesRemoved"] == 1, "what is ordered by x stays"
    reported = run(delta, path, full=True)
    assert (reported["numFilesRemoved"], reported["numFilesAdded"]) == (2, 1)
    assert reported["clusteringStats"]["inputNumZCubes"] == 2
    assert last_commit(path, 5)["commitInfo"][0]["operationParameters"]["isFull"] == "true"
    assert run(delta, path, full=True)["numFilesRemoved"] == 0
    (file,) = live(delta, path)
    assert (file.tags or {})["ZCUBE_ZORDER_BY"] == '["y","name"]'

    with pytest.raises(ClusteredTableZOrderError) as refused:
        table.optimize().executeZOrderBy("id")
    assert (refused.value.condition, refused.value.given) == ("DELTA_CLUSTERING_WITH_ZORDER_BY", "id")
    with pytest.raises(ClusteredTableError) as refused_condition:
        table.optimize().where("id = 1").executeCompaction()
    assert refused_condition.value.condition == "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"

    alter_cluster_by(table_ref(delta, path), [])
    with pytest.raises(FullNeedsClusteringError, match="FULL"):
        run(delta, path, full=True)
    append(grid(delta, 30, 40), path)
    reported = metrics(table.optimize().executeCompaction())
    assert (reported["numFilesRemoved"], reported["numFilesAdded"], reported["clusteringStats"]) == (2, 1, None)
    (file,) = live(delta, path)
    assert (file.clustering_provider, {*(file.tags or {})}) == (None, {"INSERTION_TIME", "OPTIMIZE_TARGET_SIZE"})
    assert ids(delta, path) == list(range(40))


def test_one_column_is_a_plain_order(delta: SparkSession, path: str) -> None:
    """Nulls come first; a name with a dot, below a struct, under other names in the files."""
    deep = F.struct(F.when(F.col("id") % 10 > 0, F.col("x") * 100 + F.col("y")).alias("a.b"))
    rows = grid(delta, 0, 200).select("id", deep.alias("s"))
    options = {"delta.columnMapping.mode": "name"}
    append(rows, path, "s.`a.b`", **options)
    with setting(delta, file_bytes=max(1, live(delta, path)[0].size // 4)):
        assert run(delta, path)["numFilesAdded"] == 4
    frame = delta.read.format("delta").load(path)
    spans = (
        frame.groupBy(F.col("_metadata.file_path"))
        .agg(F.min("s.`a.b`").alias("least"), F.max("s.`a.b`").alias("most"), F.count("*").alias("rows"))
        .orderBy("least")
        .collect()
    )
    assert [row["rows"] for row in spans] == pytest.approx([50] * 4, abs=25)
    assert all(row["most"] <= following["least"] for row, following in itertools.pairwise(spans))
    assert frame.where("s.`a.b` IS NULL").select("_metadata.file_path").distinct().count() == 1
    values = [row[0] for row in frame.orderBy("_metadata.file_path", "_metadata.row_index").select("s.`a.b`").collect()]
    falls = sum(
        before is not None and (value is None or value < before) for before, value in itertools.pairwise(values)
    )
    assert falls <= 3, "rows are in order within each file"
    (file, *_) = live(delta, path)
    assert json.loads((file.tags or {})["ZCUBE_ZORDER_BY"] or "") == ["s.`a.b`"]


def test_columns_of_many_types(delta: SparkSession, path: str) -> None:
    values = {
        "f": "cast(CASE WHEN id = 3 THEN double('NaN') ELSE id / 7 END AS float)",
        "c": "cast(-id AS decimal(30, 3))",
        "t": "CASE WHEN id % 4 = 0 THEN NULL ELSE concat(id % 5, '\\u001f') END",
        "s": "timestamp_micros(id * 7)",
    }
    frame = delta.range(0, 40, 1, 1).selectExpr("id", *[f"{text} AS {name}" for name, text in values.items()])
    append(frame, path, *values)
    due = sorted(map(str, frame.collect()))
    assert run(delta, path)["numFilesAdded"] == 1
    assert sorted(map(str, delta.read.format("delta").load(path).collect())) == due


def test_a_value_that_most_rows_have_is_spread_over_files(delta: SparkSession, path: str) -> None:
    rows = delta.range(0, 3000, 1, 1).selectExpr("id", "if(id < 2800, 7, id) AS x", "1 AS y")
    append(rows, path, "x", "y")
    with setting(delta, file_bytes=live(delta, path)[0].size // 6):
        assert run(delta, path)["numFilesAdded"] == 6
    counts = [json.loads(file.stats or "")["numRecords"] for file in live(delta, path)]
    assert max(counts) < 800
    assert ids(delta, path) == list(range(3000))


@pytest.fixture
def table(delta: SparkSession, path: str) -> TableRef:
    """Ids 0 to 59 in two files, clustered by `x` and `y`, not optimized yet."""
    append(grid(delta, 0, 30), path, "x", "y", **{"delta.enableDeletionVectors": "true"})
    append(grid(delta, 30, 60), path)
    return table_ref(delta, path)


def all_but(*gone: int, upto: int = 60) -> list[int]:
    return [n for n in range(upto) if n not in gone]


def delete(table: TableRef, *gone: int) -> None:
    DeltaTable.forPath(table.session.spark, table.path).delete(f"id IN ({', '.join(map(str, gone))})")


def meanwhile(job: RewriteJob, *others: Callable[[], object]) -> RewriteJob:
    """The same, with another writer's commits between the writing of its files and its own commit."""
    waiting = list(others)

    def rewrite(snapshot: Any, plan: Plan, planned: PlannedBin) -> RewrittenBin:
        written = job.rewrite(snapshot, plan, planned)
        while waiting:
            waiting.pop(0)()
        return written

    return dataclasses.replace(job, rewrite=rewrite)


def test_a_delete_that_loses_to_clustering(table: TableRef) -> None:
    """Its rows are found where the curve has put them, and those that came meanwhile are not its."""
    delete(table, 5, 40)
    with prepare_delete(table, "id IN (1, 6, 10, 31) OR id >= 60") as ours:
        append(grid(table.session.spark, 60, 70), table.path)
        assert optimize(table).num_bins == 1
        ours.commit()
    assert ids(table.session.spark, table.path) == all_but(5, 40, 1, 6, 10, 31, upto=70)
    assert len(live(table.session.spark, table.path)) == 1


def test_clustering_that_loses_to_others(table: TableRef) -> None:
    """The rows that a DELETE took are hidden in the new cube; what another run took away is not written twice."""
    spark = table.session.spark
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: delete(table, 4, 14, 44)))
    assert (done.num_bins, done.num_bins_left, len(done.versions)) == (1, 0, 1)
    (file,) = live(spark, table.path)
    assert (file.clustering_provider, file.deletion_vector and file.deletion_vector.cardinality) == ("liquid", 3)

    append(grid(spark, 60, 65), table.path)
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: optimize(table)))
    assert (done.num_bins, done.num_bins_left, done.versions) == (0, 0, ())

    append(grid(spark, 65, 70), table.path)
    job = meanwhile(optimize_job(table), lambda: alter_cluster_by(table, [("y",)]), lambda: delete(table, *range(70)))
    done = run_rewrite_job(table, job)
    assert (done.num_bins_left, live(spark, table.path)) == (0, [])


def test_columns_that_change_meanwhile(table: TableRef) -> None:
    """Files say by what they are ordered, so that what was written is of use, and the next run orders them again."""
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: alter_cluster_by(table, [("y",)])))
    assert done.num_bins == 1
    (file,) = live(table.session.spark, table.path)
    assert (file.tags or {})["ZCUBE_ZORDER_BY"] == '["x","y"]'
    assert optimize(table).num_bins == 0
    assert optimize(table, full=True).num_bins == 1
    assert ids(table.session.spark, table.path) == all_but()


def test_an_overwritten_schema_takes_the_clustering_by_columns_that_go(delta: SparkSession, path: str) -> None:
    append(grid(delta), path, "x", "y")
    frame = grid(delta, 0, 8)
    overwriting = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwriting.save(path)
    assert clustered_by(path) == [["x"], ["y"]]
    frame.drop("y").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert clustered_by(path) == []


def clustered_by(path: str) -> list[list[str]]:
    """The clustering by the log."""
    columns: list[list[str]] = []
    for commit in sorted(Path(path, "_delta_log").glob("*.json")):
        for line in map(json.loads, commit.read_text().splitlines()):
            domain = line.get("domainMetadata", {})
            if domain.get("domain") == "delta.clustering":
                columns = [] if domain["removed"] else json.loads(domain["configuration"])["clusteringColumns"]
    return columns
