"""Nothing is left behind by statements, streams, sessions and threads: threads, descriptors, objects of Py4J, snapshots.

A run of the suite is short: it finds what every statement leaves. `make soak-leaks` runs the same with the numbers that
show what one kind of statement leaves, or one in ten.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import DeltaError
from anabranch.spark.session import delta_session
from anabranch.tables import DeltaTable
from extension.left_behind import check_nothing_is_left, counted
from streaming.streams import Feed

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROUNDS = int(os.environ.get("ANABRANCH_LEAK_ROUNDS", "3"))
"""How often each statement is run, and how many batches a stream has."""
SESSIONS = int(os.environ.get("ANABRANCH_LEAK_SESSIONS", "20"))
SESSIONS_LONG = 24
POOLS_GONE_SECONDS = 120
SECONDS = int(os.environ.get("ANABRANCH_LEAK_SECONDS", "0"))
"""How long threads are at work; each does its statements once at least."""
THREADS_SLACK = 20
IS_LONG = ROUNDS >= 24
SLACK = 20 if IS_LONG else 12
"""Spark itself has a few more or less of all from time to time."""

STATEMENTS: dict[str, str] = {
    "INSERT": "INSERT INTO {t} VALUES ({n}, 'a')",
    "SELECT": "SELECT count(*) FROM {t} WHERE id = {n} AND v IN (SELECT v FROM {t})",
    "UPDATE": "UPDATE {t} SET v = 'b' WHERE id = {n}",
    "MERGE": "MERGE INTO {t} t USING (SELECT {n} + 1 AS id, 'c' AS v) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "DELETE": "DELETE FROM {t} WHERE id = {n} OR id IN (SELECT max(id) FROM {t} WHERE id < 0)",
    "ALTER": "ALTER TABLE {t} SET TBLPROPERTIES ('round' = '{n}')",
    "OPTIMIZE": "OPTIMIZE {t}",
    "DESCRIBE HISTORY": "DESCRIBE HISTORY {t} LIMIT 1",
    "DESCRIBE DETAIL": "DESCRIBE DETAIL {t}",
    "DESCRIBE": "DESCRIBE EXTENDED {t}",
    "CREATE": "CREATE OR REPLACE TABLE {t}_{n} USING delta AS SELECT * FROM {t}",
    "DROP": "DROP TABLE {t}_{n}",
}


@pytest.fixture
def table(delta: SparkSession) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:8]}"
    delta.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    yield name
    delta.sql(f"DROP TABLE IF EXISTS {name}")


def statements(delta: SparkSession, table: str, numbers: range) -> None:
    """Each of them once a round."""
    begun = time.monotonic()
    for number in numbers:
        for text in STATEMENTS.values():
            delta.sql(text.format(t=table, n=number)).collect()
        with pytest.raises(DeltaError):
            delta.sql(f"SELECT * FROM {table} VERSION AS OF 100000").collect()
        delta.table(table).where(f"id = {number}").count()
        DeltaTable.forName(delta, table).update(f"id = {number}", {"v": "'d'"})
        delta.range(1).selectExpr("id", "'e' v").write.format("delta").mode("append").saveAsTable(table)
        if number % 50 == 0:
            # For the reader of a long run: are rounds as fast as before?
            print(f"round {number} after {time.monotonic() - begun:.0f} s", flush=True)


def test_statements(delta: SparkSession, table: str) -> None:
    statements(delta, table, range(1, 2))
    check_nothing_is_left(delta, lambda: statements(delta, table, range(2, 2 + ROUNDS)), slack=SLACK)


def test_one_kind_of_statement(delta: SparkSession, table: str) -> None:
    """Often enough that it would show if each left one thing."""

    def update(count: int) -> None:
        for number in range(count):
            delta.sql(f"UPDATE {table} SET v = 'b' WHERE id = {number}").collect()

    delta.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(40)")
    update(2)
    check_nothing_is_left(delta, lambda: update(SLACK + 12), slack=SLACK)


def test_micro_batches(delta: SparkSession, table: str, tmp_path: Path) -> None:
    """Into the sink, and of a function of the user's that changes the table."""

    def upsert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("updates")
        batch.sparkSession.sql(f"DELETE FROM {table} WHERE id IN (SELECT id FROM updates)")

    def stream(name: str, batches: int) -> None:
        (tmp_path / name).mkdir()
        feed = Feed(tmp_path / name)
        for number in range(batches):
            feed.put({"id": number, "v": "a"})
        sink = feed.frame(delta).writeStream.format("delta").trigger(availableNow=True)
        query = sink.option("checkpointLocation", f"{tmp_path}/{name}-sink").toTable(table)
        query.awaitTermination()
        writer = feed.frame(delta).writeStream.foreachBatch(upsert).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{tmp_path}/{name}-function").start().awaitTermination()

    # Each query has a session of its own, and those used last are kept: the count begins when no more can be.
    for number in range(delta_session.SESSIONS_KEPT_MAX // 2 + 1):
        stream(f"warm-up-{number}", 2)
    check_nothing_is_left(delta, lambda: stream("all", ROUNDS), slack=SLACK)


def test_sessions(delta: SparkSession, table: str) -> None:
    """New ones and clones are let go on both sides, but for those that were used last."""
    jvm: Any = delta._jvm
    seen: list[Any] = []

    def use(count: int) -> None:
        for number in range(count):
            cloned: Any = delta._jsparkSession
            session = SparkSession(delta.sparkContext, cloned.cloneSession()) if number % 2 else delta.newSession()
            assert session.table(table).count() == 0
            assert session.sql(f"DELETE FROM {table} WHERE id < 0").collect() == [(0,)]
            seen.append(jvm.java.lang.ref.WeakReference(session._jsparkSession))

    use(delta_session.SESSIONS_KEPT_MAX + 2)
    seen.clear()
    # The references of this test, one for each session.
    check_nothing_is_left(delta, lambda: use(SESSIONS), slack=SESSIONS + SLACK)
    if SESSIONS >= SESSIONS_LONG:
        # A thread of Spark's pools keeps the session that was the active one when it started, till it was idle for a
        # minute.
        deadline = time.monotonic() + POOLS_GONE_SECONDS
        while (alive := _alive(seen)) > delta_session.SESSIONS_KEPT_MAX + 2 and time.monotonic() < deadline:
            counted(delta)
        print(f"{alive} of {SESSIONS} sessions are kept")
        assert alive <= delta_session.SESSIONS_KEPT_MAX + 2


def _alive(seen: list[Any]) -> int:
    return sum(reference.get() is not None for reference in seen)


def test_threads(delta: SparkSession, table: str) -> None:
    """Eight at work on tables of their own and on a common one: none waits for ever, and nothing stays."""
    failures: list[BaseException] = []
    texts = STATEMENTS.values() if SECONDS else [STATEMENTS[kind] for kind in ("INSERT", "SELECT", "DELETE")]

    def work(number: int, until: float) -> None:
        own = f"{table}_of_{number}"
        try:
            delta.sql(f"CREATE TABLE {own} (id BIGINT, v STRING) USING delta")
            done = 0
            while done == 0 or time.monotonic() < until:
                for text in texts:
                    delta.sql(text.format(t=own, n=done)).collect()
                delta.sql(f"INSERT INTO {table} VALUES ({number}, '{done}')")
                delta.sql(f"UPDATE {table} SET v = 'x' WHERE id = {number}")
                delta.sql(f"DELETE FROM {table} WHERE id = {number}")
                delta.sql(f"OPTIMIZE {table}")
                done += 1
            delta.sql(f"DROP TABLE {own}")
        except BaseException as failure:
            failures.append(failure)

    def run(seconds: int) -> None:
        until = time.monotonic() + seconds
        threads = [InheritableThread(target=work, args=(number, until), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 240)
            assert not thread.is_alive(), "a thread waits for ever"

    run(0)
    # Each thread of the JVM may still hold what it was answered last.
    check_nothing_is_left(delta, lambda: run(SECONDS), slack=THREADS_SLACK)
    assert failures == []
    assert delta.table(table).count() == 0
