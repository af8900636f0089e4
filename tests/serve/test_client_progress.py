"""What a client of Spark Connect sees of a statement while the server runs it: Spark's own progress."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("grpc")

from anabranch.tables import DeltaTable
from new_processes import outside_this_session
from serve.served import Served, connect_client, served

pytestmark = [pytest.mark.spark, pytest.mark.long]

SLOW = "length(sha2(repeat(CAST({id} AS STRING), 1000000), 256)) = 64"
"""True for each row, after some milliseconds of work."""
SLOW_ID, SLOW_TARGET = SLOW.format(id="id"), SLOW.format(id="t.id")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that reports ten times a second. By default it does so every two seconds."""
    setting = "spark.connect.progress.reportInterval=100ms"
    with served(tmp_path_factory.mktemp("served") / "warehouse", "-c", setting) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    session = connect_client(server)
    session.sql("CREATE TABLE t (id LONG, v LONG) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    session.sql("INSERT INTO t SELECT id, 1 FROM range(0, 100, 1, 8)")
    yield session
    session.stop()


@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT INTO t SELECT id, 2 FROM range(100, 200, 1, 8) WHERE {SLOW_ID}",
        f"DELETE FROM t WHERE {SLOW_ID} AND id % 7 = 0",
        f"UPDATE t SET v = 3 WHERE {SLOW_ID} AND id % 5 = 0",
        "MERGE INTO t USING (SELECT id FROM range(150, 250)) s "
        f"ON t.id = s.id AND {SLOW_TARGET} WHEN MATCHED THEN UPDATE SET v = 4",
        "OPTIMIZE t",
        "DeltaTable.delete",
        "DeltaTable.update",
        "DeltaTable.merge",
    ],
)
def test_sparks_progress_of_a_statement_reaches_its_client(statement: str, client: Any) -> None:
    seen: list[tuple[int, int]] = []
    ended: list[bool] = []

    def on_progress(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        ended.append(done)
        seen.append((sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages)))

    client.registerProgressHandler(on_progress)
    try:
        run(client, statement)
    finally:
        client.clearProgressHandlers()
    tasks = [done for done, total in seen if total]
    assert tasks, "the client is not shown any task"
    assert tasks == sorted(tasks)
    assert all(done <= total for done, total in seen)
    assert ended[-1]


def test_sparks_bar_is_drawn_in_a_client(server: Served) -> None:
    """PySpark's shell sets this variable; other programs may."""
    program = (
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()\n"
        "spark.sql('CREATE TABLE b (id LONG) USING delta')\n"
        f"spark.sql('INSERT INTO b SELECT id FROM range(0, 100, 1, 8) WHERE {SLOW_ID}')\n"
        "spark.stop()\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program, server.connect_url],
        capture_output=True,
        text=True,
        check=True,
        env={**outside_this_session(), "SPARK_CONNECT_PROGRESS_BAR_ENABLED": "1"},
    )
    bar = r"\[\**-*\] (\d+\.\d\d)% Complete \(\d Tasks running, \d+s, Scanned [\d.]+ \w+\)"
    assert len(set(re.findall(bar, outcome.stdout))) > 1, outcome.stdout


def run(client: Any, statement: str) -> None:
    table = DeltaTable.forName(client, "t")
    if statement == "DeltaTable.delete":
        table.delete(f"{SLOW_ID} AND id % 11 = 0")
    elif statement == "DeltaTable.update":
        table.update(f"{SLOW_ID} AND id % 3 = 0", {"v": "5"})
    elif statement == "DeltaTable.merge":
        source = client.range(150, 250).withColumnRenamed("id", "k")
        table.alias("t").merge(source, f"t.id = k AND {SLOW_TARGET}").whenMatchedUpdate(set={"v": "6"}).execute()
    else:
        client.sql(statement)
