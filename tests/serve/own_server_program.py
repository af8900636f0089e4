"""A client of Spark Connect whose server PySpark has started in its own process; each function is a program.

Run with the folder of all programs, whose names it reads. Each has a server of its own, one after the other in one JVM.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark.sql.utils
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.connect.session import SparkSession as ConnectSession

import anabranch
from anabranch.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException
from anabranch.tables import DeltaTable
from serve.client_programs import answer_lines
from serve.served import Client, has_begun, release, until, waiting

KEY = "spark.sql.catalog.spark_catalog"


class Session(Client):
    """One client of the server in this process."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(statement).collect()]


def started(folder: Path) -> Any:
    builder = SparkSession.builder.remote("local[4]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def another_client() -> Any:
    """PySpark 4.0 has no `newSession` for clients."""
    return ConnectSession.builder.remote("sc://localhost").create()


def stop(*sessions: Any) -> None:
    """Stop the sessions. The first one stops the server; without a policy PySpark would retry for minutes for the others."""
    for session in sessions:
        session.client.set_retry_policies([])
        session.stop()


def statements(folder: Path) -> None:
    spark = started(folder)
    before = Session(another_client())
    before.rows("SELECT 1")
    assert anabranch.enable(spark) is spark
    by, after = Session(spark), Session(another_client())
    by.rows("CREATE TABLE t (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    by.rows("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before.rows("INSERT INTO t VALUES (4, 'd')")
    after.rows("INSERT INTO t SELECT id, 'e' FROM range(5, 6)")
    assert by.rows("DELETE FROM t WHERE id IN (SELECT max(id) FROM t)") == [(1,)]
    assert before.rows("UPDATE t SET v = 'z' WHERE id = 1") == [(1,)]
    merge = (
        "MERGE INTO t USING (SELECT explode(array(2, 7)) id, 'm' v) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert after.rows(merge) == [(2, 1, 0, 1)]
    expected = [(1, "z"), (2, "m"), (3, "c"), (4, "d"), (7, "m")]
    by.rows("OPTIMIZE t")
    by.rows("INSERT INTO t VALUES (8, 'n')")
    by.rows("OPTIMIZE t ZORDER BY (id, v)")
    for client in (by, before, after):
        assert client.rows("SELECT * FROM t WHERE id < 8 ORDER BY id") == expected
    assert by.rows("SELECT count(*) FROM t VERSION AS OF 1") == [(3,)]
    operations = [row[4] for row in by.rows("DESCRIBE HISTORY t")]
    assert operations[:6] == ["OPTIMIZE", "WRITE", "OPTIMIZE", "MERGE", "UPDATE", "DELETE"], operations
    by.rows("ALTER TABLE t ADD COLUMN more INT")
    by.rows("RESTORE TABLE t TO VERSION AS OF 1")
    by.rows("VACUUM t DRY RUN")
    by.rows("CREATE TEMPORARY VIEW seen AS SELECT * FROM t")
    assert by.rows("SELECT count(*) FROM seen") == [(3,)]
    by.rows("CREATE OR REPLACE TABLE t2 USING delta CLUSTER BY (id) AS SELECT * FROM seen")
    by.rows("OPTIMIZE t2 FULL")
    assert by.rows("SELECT count(*) FROM t2") == [(3,)]
    nothing_is_wrapped(spark)
    stop(spark, before.spark, after.spark)


def frames(folder: Path) -> None:
    spark = anabranch.enable(started(folder))
    path = str(folder / "by path")
    spark.range(5).write.format("delta").save(path)
    spark.range(5, 7).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).where(F.col("id") > 2).count() == 4
    assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 5
    spark.range(2).write.format("delta").mode("overwrite").saveAsTable("by_name")
    spark.range(2, 4).writeTo("by_name").append()
    spark.range(9, 10).writeTo("another").using("delta").tableProperty("delta.appendOnly", "true").create()
    assert spark.table("by_name").count() == 4
    assert spark.table("another").count() == 1
    frame = spark.read.format("delta").load(path)
    frame.createOrReplaceTempView("seen")
    spark.sql("DELETE FROM by_name WHERE id IN (SELECT id FROM seen WHERE id > 0)")
    assert [row.id for row in spark.table("by_name").collect()] == [0]
    nothing_is_wrapped(spark)

    table = DeltaTable.forPath(spark, path)
    source = spark.range(6, 9).withColumn("twice", F.col("id") * 2)
    (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedUpdate(set={"id": F.col("s.twice")})
        .whenNotMatchedInsert(values={"id": "s.id"})
        .execute()
    )
    table.delete(F.col("id") == 0)
    assert sorted(row.id for row in table.toDF().collect()) == [1, 2, 3, 4, 5, 7, 8, 12]
    assert sorted(row.id for row in spark.read.format("delta").load(path).collect()) == [1, 2, 3, 4, 5, 7, 8, 12]
    assert [row.operation for row in table.history(2).collect()] == ["DELETE", "MERGE"]
    assert DeltaTable.forName(spark, "by_name").toDF().count() == 1
    nothing_is_wrapped(spark)
    stop(spark)


def streams(folder: Path) -> None:
    spark = anabranch.enable(started(folder))
    source, target, batches = (str(folder / name) for name in ("source", "target", "batches"))
    spark.range(5).write.format("delta").save(source)

    def run(writer: Any, name: str, *into: str) -> None:
        writer = writer.option("checkpointLocation", str(folder / f"_{name}")).trigger(availableNow=True)
        query = started_in_time(lambda: writer.start(*into))
        assert query.awaitTermination(120)

    def write_batch(batch: Any, number: int) -> None:
        batch.write.format("delta").mode("append").save(batches)

    for rows in (5, 7):
        read = spark.readStream.format("delta").load(source)
        run(read.writeStream.format("delta"), "target", target)
        run(read.writeStream.foreachBatch(write_batch), "batches")
        for written in (target, batches):
            assert spark.read.format("delta").load(written).count() == rows
        spark.range(2).write.format("delta").mode("append").save(source)
    nothing_is_wrapped(spark)
    stop(spark)


def started_in_time(start: Callable[[], Any]) -> Any:
    """Spark allows ten seconds for the start of the process that runs `foreachBatch`; a busy machine may need longer."""
    by = time.monotonic() + 300
    while True:
        try:
            return start()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error) or time.monotonic() > by:
                raise


def python_of_workers(folder: Path) -> str:
    """A Python that starts in half the time: Spark's archive of PySpark comes first by default, and is compiled at each start."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" "$@"\n', "utf-8")
    script.chmod(0o755)
    return str(script)


def errors(folder: Path) -> None:
    """Conflicts and refusals raise the documented exceptions, with their facts."""
    spark = anabranch.enable(started(folder))
    by, other = Session(spark), Session(another_client())
    by.rows("CREATE TABLE t USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS SELECT 1 id, 'a' v")
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            by.rows(
                f"MERGE INTO t USING {waiting('theirs')} s ON t.id = length(s.v) - length(s.v) + 1 "
                "WHEN MATCHED THEN UPDATE SET v = 'mine'"
            )
        except Exception as error:
            failures.append(error)

    merging = threading.Thread(target=merge)
    merging.start()
    until(lambda: has_begun(other, "theirs"))
    other.rows("UPDATE t SET v = 'theirs' WHERE id = 1")
    release(other, "theirs")
    merging.join()
    (conflict,) = failures
    assert isinstance(conflict, DeltaConcurrentModificationException), repr(conflict)
    assert isinstance(conflict, ConcurrentAppendException), repr(conflict)
    assert (conflict.getCondition(), conflict.getSqlState()) == ("DELTA_CONCURRENT_APPEND", "2D521")
    assert (conflict.operation, conflict.version) == ("UPDATE", 1)
    refused("DELTA_VERSION_NOT_FOUND", lambda: by.rows("SELECT * FROM t VERSION AS OF 1000"))
    by.rows("ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)")
    refused("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", lambda: by.rows("INSERT INTO t VALUES (-1, 'x')"))
    try:
        by.rows("SELECT nope FROM t")
    except Exception as error:
        assert type(error).__module__ == "pyspark.errors.exceptions.connect", repr(error)
    else:
        raise AssertionError("there is no such column")
    stop(spark, other.spark)


def refused(condition: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except anabranch.errors.DeltaError as error:
        assert error.getCondition() == condition, repr(error)
        return
    raise AssertionError(f"nothing was refused with {condition}")


def disabled(folder: Path) -> None:
    """Every session is as before it was enabled; it can be enabled again, and so can a new server after a stop."""
    original = pyspark.sql.utils.is_remote
    spark = started(folder)
    path = str(folder / "table")
    for _ in range(2):
        anabranch.enable(spark)
        anabranch.enable(spark)
        after = another_client()
        after.range(3).write.format("delta").mode("overwrite").save(path)
        assert {session.conf.get(KEY) for session in (spark, after)} == {"delta.DeltaCatalog"}
        assert pyspark.sql.utils.is_remote()
        anabranch.disable(spark)
        for session in (spark, after):
            assert session.conf.get(KEY, "builtin") == "builtin"
            try:
                session.read.format("delta").load(path).collect()
            except Exception as error:
                assert "ANABRANCH_NOT_ENABLED" in str(error), error
            else:
                raise AssertionError("it still knows Delta")
            assert session.range(2).count() == 2
        assert pyspark.sql.utils.is_remote is original
        after.client.set_retry_policies([])
    stop(spark)
    spark = anabranch.enable(started(folder))
    assert spark.read.format("delta").load(path).count() == 3
    spark.range(1).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 4
    stop(spark)


def nothing_is_wrapped(spark: Any) -> None:
    assert not hasattr(type(spark).sql, "__wrapped__")


# The first one needs a process in which nothing was enabled before.
PROGRAMS = {program.__name__: program for program in (disabled, statements, frames, streams, errors)}


class InTurn:
    """A program that fails leaves its sessions, which the next one would get."""

    failed = ""

    def __init__(self, program: Callable[[Path], None]) -> None:
        self.program = program

    def __call__(self, folder: str) -> None:
        assert not InTurn.failed, f"not begun: {InTurn.failed} has failed"
        try:
            self.program(Path(folder))
        except BaseException:
            InTurn.failed = self.program.__name__
            raise


def main(_: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = python_of_workers(Path(folder))
    answer_lines({name: InTurn(program) for name, program in PROGRAMS.items()}, folder)
    if InTurn.failed:
        # A session that was not stopped keeps its process.
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
