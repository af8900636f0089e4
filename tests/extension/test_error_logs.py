"""What people see besides an exception: the log of the driver, PySpark's own lines, descriptions of jobs."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = [pytest.mark.spark, classic]

TEXT_MAX = 3000


@contextlib.contextmanager
def log_of_driver(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """What Spark writes into its log meanwhile."""
    log4j: Any = spark._jvm.org.apache.logging.log4j
    written = spark._jvm.java.io.StringWriter()
    configuration = log4j.LogManager.getContext(False).getConfiguration()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout(configuration)
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "of a test", False, True)
    appender.start()
    configuration.getRootLogger().addAppender(appender, None, None)
    try:
        yield lambda: str(written.toString())
    finally:
        configuration.getRootLogger().removeAppender("of a test")


@contextlib.contextmanager
def log_of_pyspark() -> Iterator[list[str]]:
    """What PySpark logs of an error with the place in the statement."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    kept = Kept()
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    for logger in loggers:
        logger.addHandler(kept)
    try:
        yield lines
    finally:
        for logger in loggers:
            logger.removeHandler(kept)


def test_a_violated_check_writes_no_stack_into_the_log(delta: SparkSession, path: str) -> None:
    """Covers bug B96: Spark logged the failed task four times, with its stack and the text that carries our facts."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT NOT NULL, v STRING) USING delta")
    delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)")
    delta.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    bad = delta.sql("SELECT -1 AS id, 'x' AS v")
    merge = f"MERGE INTO {table} t USING (SELECT -1 AS id, 'x' AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    calls: list[Callable[[], Any]] = [
        lambda: bad.write.format("delta").mode("append").save(path),
        lambda: bad.writeTo(table).append(),
        lambda: bad.write.format("delta").mode("overwrite").option("replaceWhere", "id = 1").save(path),
        lambda: delta.sql(f"INSERT INTO {table} SELECT CAST(NULL AS INT), 'x'"),
        lambda: delta.sql(f"UPDATE {table} SET id = -5"),
        lambda: delta.sql(merge),
        lambda: DeltaTable.forPath(delta, path).update(set={"id": "-5"}),
    ]
    with log_of_driver(delta) as written:
        for call in calls:
            with pytest.raises(DeltaError, match="CONSTRAINT"):
                call()
        assert "aborting job" in written()
    assert "\tat " not in written()
    assert "anabranch-check" not in written()


def test_other_failures_stay_in_the_log(delta: SparkSession, path: str) -> None:
    """Only checks of ours are left out."""
    delta.range(1).write.format("delta").save(path)
    with log_of_driver(delta) as written, pytest.raises(Exception, match="of the user"):
        delta.sql(f"INSERT INTO delta.`{path}` SELECT raise_error('of the user')")
    assert "of the user" in written()
    assert "\tat " in written()


def test_pyspark_logs_no_error_of_a_condition(delta: SparkSession, path: str) -> None:
    """Covers bug B96: a line of JSON with the JVM's stack came with each error, from each place that it went through."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS SELECT 1 AS id, 'b' AS v")
    source = "(SELECT 1 AS id) s ON t.id = s.id AND CAST(t.v AS INT) = 1"
    calls: list[Callable[[], Any]] = [
        *(
            functools.partial(delta.sql, statement)
            for statement in (
                f"DELETE FROM {table} WHERE CAST(v AS INT) = 1",
                f"UPDATE {table} SET id = 7 WHERE CAST(v AS INT) = 1",
                f"MERGE INTO {table} t USING {source} WHEN MATCHED THEN DELETE",
            )
        ),
        lambda: DeltaTable.forPath(delta, path).delete("CAST(v AS INT) = 1"),
    ]
    with log_of_pyspark() as lines:
        for call in calls:
            with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
                call()
        assert lines == []
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            delta.sql("SELECT CAST('b' AS INT)").collect()
        assert len(lines) == 1


ENDLESS = "SELECT sum(hash(id) % 7) AS id FROM range(0, 1000000000000, 1, 2)"


@pytest.mark.parametrize("statement", ["append", "update", "merge", "delete"])
def test_a_stream_stops_within_a_statement(delta: SparkSession, path: str, tmp_path: Path, statement: str) -> None:
    """Covers bug B103: Spark looks through the text of what foreachBatch raised, by an expression that overflows the
    stack of the stream's thread where a stack of the JVM is in the text."""
    delta.range(1).write.format("delta").save(path)
    delta.range(1).write.format("delta").save(str(tmp_path / "source"))
    table, subquery = f"delta.`{path}`", f"(SELECT id FROM ({ENDLESS}))"
    run: dict[str, Callable[[SparkSession], Any]] = {
        "append": lambda spark: spark.sql(ENDLESS).write.format("delta").mode("append").save(path),
        "update": lambda spark: spark.sql(f"UPDATE {table} SET id = 1 WHERE id IN {subquery}"),
        "delete": lambda spark: spark.sql(f"DELETE FROM {table} WHERE id IN {subquery}"),
        "merge": lambda spark: spark.sql(
            f"MERGE INTO {table} t USING {subquery} s ON t.id = s.id WHEN MATCHED THEN DELETE"
        ),
    }
    texts: list[str] = []

    def write_batch(frame: Any, batch: int) -> None:
        try:
            run[statement](frame.sparkSession)
        except Exception as error:
            texts.append("".join(traceback.format_exception(error)))
            raise

    stream = delta.readStream.format("delta").load(str(tmp_path / "source")).writeStream.foreachBatch(write_batch)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    tracker, never = delta.sparkContext.statusTracker(), threading.Event()
    for _ in range(600):
        if tracker.getActiveJobsIds():
            break
        never.wait(0.05)
    query.stop()
    (text,) = texts
    assert len(text) < TEXT_MAX
    assert "\tat " not in text
    assert query.exception() is None
    assert DeltaTable.forPath(delta, path).history().count() == 1


def test_jobs_are_described(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B96: Spark's UI showed no job by what it was for. What the user has set stays, and is back after it."""
    context: Any = delta.sparkContext
    table = f"delta.`{path}`"
    store = context._jsc.sc().statusStore()

    def descriptions(call: Callable[[], Any]) -> set[str]:
        last = max((job.jobId() for job in listed()), default=-1)
        call()
        context._jsc.sc().listenerBus().waitUntilEmpty()
        options = [job.description() for job in listed() if job.jobId() > last]
        return {str(option.get()) if option.isDefined() else "" for option in options}

    def listed() -> list[Any]:
        jobs = store.jobsList(None)
        return [jobs.apply(index) for index in range(jobs.size())]

    def sql(text: str) -> set[str]:
        return descriptions(lambda: delta.sql(text))

    write = {f"WRITE TO {table}: write files"}
    assert descriptions(lambda: delta.range(5).write.format("delta").save(path)) == write
    assert sql(f"INSERT INTO {table} SELECT id + 7 FROM range(1)") == write
    assert sql(f"UPDATE {table} SET id = 9 WHERE id = 1") <= {
        f"UPDATE {table}: find rows",
        f"UPDATE {table}: write files",
    }
    assert sql(f"DELETE FROM {table} WHERE id = 2") == {f"DELETE FROM {table}: find rows"}
    merge = f"MERGE INTO {table} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    merged = sql(merge)
    assert f"MERGE INTO {table}: find matches" in merged
    assert merged <= {f"MERGE INTO {table}: find matches", f"MERGE INTO {table}: read the source"}
    by_api = descriptions(lambda: DeltaTable.forPath(delta, path).delete("id = 4"))
    assert by_api == {f"DELETE FROM {table}: find rows"}
    assert sql(f"OPTIMIZE {table}") == {f"OPTIMIZE {table}: rewrite files"}
    assert sql(f"OPTIMIZE {table} ZORDER BY (id)") == {f"OPTIMIZE {table}: rewrite files"}
    assert sql(f"CREATE TABLE {name} USING delta AS SELECT * FROM {table}") == {
        f"CREATE TABLE AS SELECT default.{name}: write files"
    }
    added = sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (id > -5)")
    assert f"ALTER TABLE {table}: CHECK constraint c" in added
    # Where Spark does not know the statement, a job of ours has its name.
    assert added <= {f"ALTER TABLE {table}: CHECK constraint c", f"ADD CONSTRAINT {table}"}
    context.setJobDescription("nightly load")
    try:
        assert sql(f"DELETE FROM {table} WHERE id = 7") == {"nightly load"}
        assert context.getLocalProperty("spark.job.description") == "nightly load"
    finally:
        context.setJobDescription(None)
    assert context.getLocalProperty("spark.job.description") is None
    assert descriptions(lambda: delta.range(3, 4).count()) == {""}
