"""Clients that request too much, read slowly, or die: they do not affect other clients, and leave nothing behind."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from serve import fetching_client
from serve.served import Served, client, served, until

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

MEMORY = "1g"
"""Spark's default."""
HUGE = "SELECT id, repeat(CAST(id % 10 AS STRING), 500) AS v FROM range(0, 10000000, 1, 200)"
"""Some 5 GB in 200 partitions; five times the driver's memory."""
LARGE = "SELECT id, repeat(CAST(id % 10 AS STRING), 500) AS v FROM range(0, 200000, 1, 20)"
"""100 MB: a result that a client of Spark Connect may request here. The server holds all of it until it is fetched."""
ASKED = {"connect": LARGE, "jdbc": HUGE}
OF_CLIENTS = {
    "statements by connect": "org.apache.spark.sql.connect.service.ExecuteHolder",
    "sessions by connect": "org.apache.spark.sql.connect.service.SessionHolder",
    "statements by jdbc": "org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation",
    "sessions by jdbc": "org.apache.hive.service.cli.session.HiveSessionImpl",
}
SOON = (
    *(
        "-c",
        "spark.connect.execute.manager.detachedTimeout=2s",
        "-c",
        "spark.connect.execute.manager.maintenanceInterval=1s",
    ),
    *("-c", "spark.connect.session.manager.defaultSessionTimeout=15s"),
    *("-c", "spark.connect.session.manager.maintenanceInterval=1s"),
)
"""Spark Connect keeps a client's results for minutes after it disconnected, in case it connects again."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    warehouse = tmp_path_factory.mktemp("harmed") / "warehouse"
    with served(warehouse, "-c", f"spark.driver.memory={MEMORY}", *SOON) as started:
        yield started


@contextlib.contextmanager
def fetching(server: Served, protocol: str, then: str) -> Iterator[subprocess.Popen[str]]:
    """A client that has fetched its first rows. At the end it is killed without closing its session."""
    port = server.connect_port if protocol == "connect" else server.jdbc_port
    command = [sys.executable, fetching_client.__file__, protocol, str(port), ASKED[protocol], then]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "rows\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def counted(server: Served) -> dict[str, int]:
    """The number of objects of clients in the JVM's heap after a garbage collection."""
    histogram = subprocess.run(
        ["jcmd", str(server.jvm()), "GC.class_histogram"], capture_output=True, text=True, check=True
    )
    counts = {}
    for name, kind in OF_CLIENTS.items():
        line = re.search(rf"(\d+) +\d+ +{re.escape(kind)}\b(?!\$)", histogram.stdout)
        counts[name] = int(line[1]) if line else 0
    return counts


@pytest.mark.parametrize("protocol", ["connect", "jdbc"])
def test_slow_and_dying_clients(server: Served, protocol: str) -> None:
    with client(server, "connect") as owner:
        owner.rows("CREATE OR REPLACE TABLE beside USING delta AS SELECT 0L AS n")
    before = counted(server) if shutil.which("jcmd") else {}
    with fetching(server, protocol, "stay"), fetching(server, protocol, "stay"):
        rounds = 0
        with fetching(server, protocol, "fetch") as dying:
            time.sleep(1)
            assert dying.poll() is None
            rounds += works(server)
        rounds += works(server)
    rounds += works(server)
    with client(server, "jdbc") as owner:
        assert owner.rows("SELECT n FROM beside") == [(rounds,)]
    if before:
        until(lambda: not more(before, counted(server)), seconds=180)


def works(server: Served) -> int:
    """Other clients of both protocols read and write without delay. Returns the number of rounds."""
    rounds = 0
    for protocol in ("connect", "jdbc"):
        with client(server, protocol) as by:
            for _ in range(3):
                assert by.rows("UPDATE beside SET n = n + 1") == [(1,)]
                assert by.rows("SELECT count(*) FROM beside") == [(1,)]
                rounds += 1
    return rounds


def more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] for name in before if after[name] > before[name]}


def test_a_result_too_large_is_refused_by_connect(server: Served) -> None:
    """Spark's Connect server holds a whole result; the JDBC server holds one partition at a time."""
    with client(server, "connect") as by:
        with pytest.raises(Exception, match=r"spark\.driver\.maxResultSize"):
            by.rows(HUGE)
        assert by.rows("SELECT 1") == [(1,)]
    assert works_without_table(server)


def test_a_whole_result_of_jdbc(server: Served) -> None:
    """A result larger than the driver's memory, fetched row by row."""
    count = 300_000
    with client(server, "jdbc") as by:
        by.cursor.execute(f"SELECT id, repeat('x', 4000) AS v FROM range(0, {count}, 1, 40)")  # type: ignore[attr-defined]
        assert sum(1 for _ in by.cursor) == count  # type: ignore[attr-defined]
    assert works_without_table(server)


def works_without_table(server: Served) -> bool:
    with client(server, "jdbc") as by:
        return by.rows("SELECT count(*) FROM range(10)") == [(10,)]


def test_a_partition_larger_than_the_memory_fails_its_statement_alone(server: Served) -> None:
    """With a local master the task that makes the row runs in the server's own JVM."""
    with client(server, "connect") as by, pytest.raises(Exception, match=r"OutOfMemory|maxResultSize|Java heap space"):
        by.rows(HUGE.replace(", 200)", ", 1)"))
    assert works_without_table(server)
