"""Nothing is left behind by statements, sessions and threads: threads, descriptors, objects of Py4J."""

from __future__ import annotations

import gc
import os
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STATEMENTS = int(os.environ.get("ANABRANCH_LEAK_STATEMENTS", "60"))
"""500 and more show what a short run of the suite cannot."""
SLACK = 12
"""Spark's own pools grow and shrink."""


@pytest.fixture
def table(delta: SparkSession) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:8]}"
    delta.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    yield name
    delta.sql(f"DROP TABLE IF EXISTS {name}")


def left_behind(delta: SparkSession) -> dict[str, int]:
    """What there is of each kind, after both collectors have run."""
    jvm: Any = delta._jvm
    for _ in range(2):
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.3)
    gateway: Any = delta.sparkContext._gateway
    return {
        "threads of Python": threading.active_count(),
        "descriptors of Python": len(os.listdir("/proc/self/fd")),
        "descriptors of the JVM": len(os.listdir(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd")),
        "objects of Python's": len(gateway.gateway_property.pool.dict),
        "connections of the JVM": sum(
            "py4j" in str(thread.getName()).lower() or "Thread-" in str(thread.getName())
            for thread in jvm.java.lang.Thread.getAllStackTraces().keySet()
        ),
    }


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind] > SLACK}


def statements(delta: SparkSession, table: str, start: int, count: int) -> None:
    for number in range(start, start + count):
        delta.sql(f"INSERT INTO {table} VALUES ({number}, 'a')")
        if number % 5 == 0:
            delta.sql(f"DELETE FROM {table} WHERE id = {number} OR id IN (SELECT max(id) FROM {table} WHERE id < 0)")
        delta.table(table).where(f"id = {number}").count()


def test_statements(delta: SparkSession, table: str) -> None:
    statements(delta, table, 0, 10)
    before = left_behind(delta)
    statements(delta, table, 10, STATEMENTS)
    assert grown(before, left_behind(delta)) == {}


def test_sessions(delta: SparkSession, table: str) -> None:
    delta.newSession().table(table).count()
    before = left_behind(delta)
    for _ in range(STATEMENTS // 2):
        delta.newSession().table(table).count()
    assert grown(before, left_behind(delta)) == {}


def test_threads(delta: SparkSession, table: str) -> None:
    """Of Python and of the JVM: a question from a thread of the JVM has a connection of its own, as long as it lasts."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        own = f"{table}_{number}"
        try:
            delta.sql(f"CREATE TABLE IF NOT EXISTS {own} (id BIGINT, v STRING) USING delta")
            statements(delta, own, 0, max(STATEMENTS // 20, 2))
            delta.sql(f"DROP TABLE {own}")
        except BaseException as failure:
            failures.append(failure)

    def run() -> None:
        threads = [InheritableThread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
            assert not thread.is_alive()

    run()
    before = left_behind(delta)
    run()
    assert failures == []
    # Each thread has tables of its own, which sessions may keep open, and with them objects of Python's.
    assert set(grown(before, left_behind(delta))) <= {"objects of Python's"}
