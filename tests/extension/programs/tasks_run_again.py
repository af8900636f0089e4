"""Tasks that run twice and executors that die, on two hosts, where Spark speculates as on any cluster."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow as pa
import pyspark
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from start import FOLDER, started

import anabranch
from anabranch.change_feed.change_files import write_change_files
from anabranch.commands.merge import merge_at_once, merge_command, merge_join, merge_rows, merge_write
from anabranch.protocol.properties import TableProperties
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.rows import cached_rows
from anabranch.spark.rows.cached_rows import Size
from anabranch.spark.rows.row_marks import RowMarks
from anabranch.tables import DeltaTable

PARTITIONS = 4
ROWS = 400
Batches = Iterator[pa.RecordBatch]


def cluster_of_two_hosts() -> str:
    """A master and two workers in this JVM. Spark runs a speculative copy of a task on another host only."""
    os.environ["SPARK_HOME"] = next(iter(pyspark.__path__))
    SparkContext._ensure_initialized()  # type: ignore[attr-defined]
    jvm: Any = SparkContext._jvm  # type: ignore[attr-defined]
    deploy = jvm.org.apache.spark.deploy
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.ui.enabled", "false")
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
    address = str(master._1().address().toSparkURL())
    option: Any = jvm.scala.Option
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    masters[0] = address
    for number in (1, 2):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            f"127.0.0.{number}",
            0,
            0,
            PARTITIONS // 2,
            1024,
            masters,
            f"{FOLDER}/work{number}",
            option.apply(number),
            conf,
            option.apply(None),
        )
    return address


spark = anabranch.enable(
    started(
        **{
            "spark.master": cluster_of_two_hosts(),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.default.parallelism": str(PARTITIONS),
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.1",
        }
    )
)


def marks(name: str) -> Path:
    folder = Path(FOLDER, name)
    folder.mkdir()
    return folder


def slow_at_first(folder: Path) -> Callable[[Batches], Batches]:
    """The last task writes its first rows, and goes on when a copy of it has written them all."""

    def rows(batches: Batches) -> Batches:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0
        (folder / f"{context.partitionId()} {context.attemptNumber()}").touch()
        for batch in batches:
            yield batch.slice(0, 10)
            if first and context.partitionId() == PARTITIONS - 1:
                by = time.monotonic() + 400
                while not (folder / "copied").exists():
                    assert time.monotonic() < by, "no copy of the task was run"
                    time.sleep(0.05)
            yield batch.slice(10)
        if not first:
            (folder / "copied").touch()

    return rows


def dying(folder: Path) -> Callable[[Batches], Batches]:
    """The last task kills the executor of another one, which has reported its files; then its own."""

    def rows(batches: Batches) -> Batches:
        import os
        import signal
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (folder / f"{context.partitionId()} {context.attemptNumber()}").touch()
        yield from batches
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text("ascii").rsplit(") ", 1)[1].split()[1])
        (folder / f"executor of {context.partitionId()}").write_text(str(executor), "ascii")
        if context.partitionId() == PARTITIONS - 1 and not (folder / "killed").exists():
            others = [folder / f"executor of {number}" for number in range(PARTITIONS - 1)]
            while not all(file.exists() for file in others):
                time.sleep(0.05)
            # The driver knows of the files of the others by now.
            time.sleep(3)
            (folder / "killed").touch()
            for pid in {int(file.read_text("ascii")) for file in others} | {executor}:
                os.kill(pid, signal.SIGKILL)
            time.sleep(60)

    return rows


def numbered(rows: Callable[[Batches], Batches]) -> DataFrame:
    frame = spark.range(0, ROWS, 1, PARTITIONS).toDF("id")
    return frame.mapInArrow(rows, frame.schema)


def was_tried_again(folder: Path) -> None:
    again = [file.name for file in folder.iterdir() if file.name[0].isdigit() and not file.name.endswith(" 0")]
    assert f"{PARTITIONS - 1} 1" in again, list(folder.iterdir())


def check_table(path: str) -> None:
    """The table has each row once, from existing files; no commit names the other files, and VACUUM removes them."""
    frame = spark.read.format("delta").load(path)
    assert frame.agg(F.count("*"), F.count_distinct("id"), F.sum("id")).first() == (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    actions = [json.loads(line) for line in Path(path, "_delta_log", f"{0:020d}.json").read_text("utf-8").splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    assert sum(json.loads(add["stats"])["numRecords"] for add in adds) == ROWS
    assert len(adds) == PARTITIONS
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")

    def vacuum() -> None:
        DeltaTable.forPath(spark, path).vacuum(0)

    # A copy of a task that Spark has cancelled may still begin a file: on a busy machine that takes seconds.
    until(lambda: {file.name for file in Path(path).glob("*.parquet")} == {add["path"] for add in adds}, vacuum)
    assert frame.count() == ROWS


def until(holds: Callable[[], bool], step: Callable[[], None]) -> None:
    by = time.monotonic() + 60
    step()
    while not holds():
        assert time.monotonic() < by
        time.sleep(0.5)
        step()


def check_change_files(engine: NativeEngine, root: Path, frame: DataFrame) -> None:
    changes = write_change_files(
        engine,
        frame.withColumn("_change_type", F.lit("insert")),
        table_root=str(root),
        schema=frame.schema,
        partition_columns=(),
        properties=TableProperties({}),
    )
    assert len(changes) == PARTITIONS
    changed_rows = spark.read.parquet(*(str(root / change.path) for change in changes))
    assert changed_rows.agg(F.count("*"), F.count_distinct("id")).first() == (ROWS, ROWS)
    assert all((root / change.path).stat().st_size == change.size for change in changes)


def check_marks(frame: DataFrame) -> None:
    """Rows are marked before a shuffle, so that tasks run again for rows that are lost; each row counts once."""
    rows = frame.selectExpr("id", f"CAST(id % 3 AS INT) AS {FILE_ID_COLUMN}", f"id AS {ROW_INDEX_COLUMN}")
    marked = RowMarks(rows, group_by="0", condition="id % 2 = 0")
    assert marked.rows.repartition(2).count() == ROWS // 2
    marks = marked.marks()
    assert marks is not None
    assert {mark.file_id: set(mark.positions) for mark in marks} == {i: set(range(i, ROWS, 3)) for i in range(3)}
    assert all(mark.count == len(mark.positions) for mark in marks)


def negated(rows: Callable[[Batches], Batches]) -> Callable[..., Any]:
    """A function of columns that returns minus a number, and whose tasks meet with the misfortune."""

    @F.pandas_udf("long")
    def negative(columns: Iterator[pd.Series]) -> Iterator[pd.Series]:
        batches = (pa.RecordBatch.from_arrays([pa.Array.from_pandas(column)], ["id"]) for column in columns)
        for batch in rows(batches):
            yield -batch.column(0).to_pandas()

    return negative


def kill_executors() -> None:
    """Kill all of them. They are processes of the JVM, in which the workers are."""
    gateway: Any = SparkContext._gateway
    executors = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text("ascii").rsplit(") ", 1)[1].split()[1])
            if parent == gateway.proc.pid and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                executors.append(int(process.name))
    assert executors
    for pid in executors:
        os.kill(pid, signal.SIGKILL)


def check_merge(path: str, value: Callable[[str], Any]) -> None:
    """Tasks that join, mark and write rows of a table with a change data feed run again; each row counts once."""
    table = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "id AS v")
    features = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    table.write.format("delta").options(**features).save(path)
    source = spark.range(ROWS // 4, ROWS + ROWS // 4, 1, PARTITIONS).alias("s")
    merging = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
    clauses = merging.whenMatchedUpdate(set={"v": value("s.id")}).whenNotMatchedInsert(values={"id": "s.id", "v": "0"})
    looked_for = AssertionError("rows were looked for by another join")
    with (
        mock.patch.object(merge_rows, "CACHED_ROWS_MAX", 0),
        mock.patch.object(cached_rows, "SMALL_BYTES_MAX", 0),
        mock.patch.object(merge_join, "size_of", return_value=Size.LARGE),
        mock.patch.object(merge_write, "ROWS_OF_FILE", ROWS // PARTITIONS),
        mock.patch.object(merge_command, "mark_rows", side_effect=looked_for),
        mock.patch.object(merge_at_once, "mark_rows", side_effect=looked_for),
    ):
        clauses.execute()
    values = {row.id: row.v for row in spark.read.format("delta").load(path).collect()}
    unchanged, new = range(ROWS // 4), range(ROWS, ROWS + ROWS // 4)
    updated = range(ROWS // 4, ROWS)
    assert values == {**{i: i for i in unchanged}, **{i: -i for i in updated}, **dict.fromkeys(new, 0)}
    assert spark.read.format("delta").load(path).count() == len(values)
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    changes = sorted(tuple(row) for row in feed.select("_change_type", "id", "v").collect())
    assert changes == sorted(
        [("update_preimage", i, i) for i in updated]
        + [("update_postimage", i, -i) for i in updated]
        + [("insert", i, 0) for i in new]
    )


engine = NativeEngine(spark)
for misfortune in (slow_at_first, dying):
    name = misfortune.__name__
    of_table, of_changes, of_marks, of_merge = (
        marks(f"{name} {work}") for work in ("table", "changes", "marks", "merge")
    )
    numbered(misfortune(of_table)).write.format("delta").save(f"{FOLDER}/t {name}")
    was_tried_again(of_table)
    check_table(f"{FOLDER}/t {name}")
    check_change_files(engine, Path(FOLDER, f"c {name}"), numbered(misfortune(of_changes)))
    was_tried_again(of_changes)
    check_marks(numbered(misfortune(of_marks)))
    was_tried_again(of_marks)
    check_merge(f"{FOLDER}/m {name}", negated(misfortune(of_merge)))
    assert {"copied", "killed"} & {file.name for file in of_merge.iterdir()}, list(of_merge.iterdir())


def write_behind_dead_executors(*arguments: Any, **named: Any) -> Any:
    kill_executors()
    return write_change_files(*arguments, **named)


with mock.patch.object(merge_write, "write_change_files", side_effect=write_behind_dead_executors) as behind:
    check_merge(f"{FOLDER}/m behind the data files", lambda name: f"-{name}")
assert behind.called
spark.stop()
print("done")
