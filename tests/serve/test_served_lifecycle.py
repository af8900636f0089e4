"""A server that is killed, started again, or stopped: the rows that are there afterwards, and its clients' answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serve.served import ConnectClient, JdbcClient, Served, client, has_begun, served, start_server, until

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

WRITERS = 4
ACKNOWLEDGED = 6


def healthy(server: Served) -> int:
    ports = ["--connect", str(server.connect_port), "--jdbc", str(server.jdbc_port)]
    return subprocess.run([sys.executable, "-m", "anabranch", "serve", "--check", *ports], check=False).returncode


def writes_until_the_server_is_gone(server: Served, protocol: str, number: int, acknowledged: list[int]) -> None:
    """Insert rows `number`, `number + 1000`, … one by one, and add those to `acknowledged` that the server confirmed."""
    with contextlib.suppress(Exception), client(server, protocol) as by:
        for row in range(number, 1_000_000, 1000):
            by.rows(f"INSERT INTO written VALUES ({row}, '{protocol}')")
            acknowledged.append(row)


def test_killed_started_again_and_stopped(tmp_path: Path) -> None:
    """Fault F59, of a driver that serves."""
    warehouse = tmp_path / "warehouse"
    acknowledged = killed_while_clients_write(warehouse)
    with served(warehouse) as server:
        assert healthy(server) == 0
        with client(server, "jdbc") as by:
            rows = [row for (row,) in by.rows("SELECT id FROM written")]
            # A write without an answer may have been committed, and none was committed twice.
            assert len(rows) == len(set(rows))
            assert set(acknowledged) <= set(rows)
            assert len(rows) <= len(acknowledged) + WRITERS
            assert by.rows("SELECT id FROM by_jdbc") == [(1,)]
            by.rows("UPDATE written SET v = 'after' WHERE id = 0")
        second_server_is_refused(warehouse)
        stopped_while_a_statement_runs(server)
    assert healthy(server) == 1


def killed_while_clients_write(warehouse: Path) -> list[int]:
    server = start_server(warehouse)
    try:
        with client(server, "connect") as by:
            by.rows("CREATE TABLE written (id BIGINT, v STRING) USING delta")
        with client(server, "jdbc") as by:
            by.rows("CREATE TABLE by_jdbc USING delta AS SELECT 1 AS id")
        # Their transactions are open when the server is killed.
        for by in (ConnectClient(server), JdbcClient(server)):
            by.run("BEGIN TRANSACTION")
            by.run("INSERT INTO by_jdbc VALUES (2)")
        acknowledged: list[int] = []
        with ThreadPoolExecutor(WRITERS) as pool:
            for number in range(WRITERS):
                protocol = ("connect", "jdbc")[number % 2]
                pool.submit(writes_until_the_server_is_gone, server, protocol, number, acknowledged)
            until(lambda: len(acknowledged) >= ACKNOWLEDGED, seconds=120)
            os.killpg(server.process.pid, signal.SIGKILL)
        return acknowledged
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()


def second_server_is_refused(warehouse: Path) -> None:
    """Only one process can have the metastore open; the second gets an error."""
    command = [sys.executable, "-m", "anabranch", "serve", "--connect", "0", "--json", "--warehouse", str(warehouse)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert outcome.returncode == 1
    assert json.loads(outcome.stdout)["error"]["condition"] == "ANABRANCH_METASTORE_TAKEN"


def stopped_while_a_statement_runs(server: Served) -> None:
    """Running statements finish, and their clients get the results."""
    heard: list[str] = []

    def insert(protocol: str, row: int) -> None:
        began = f"reflect('java.lang.System', 'setProperty', '{protocol}', 'began')"
        value = f"concat({began}, reflect('java.lang.Thread', 'sleep', 6000L))"
        with contextlib.suppress(Exception), client(server, protocol) as by:
            by.run(f"INSERT INTO written SELECT {row}, {value}")
            heard.append(protocol)

    threads = [threading.Thread(target=insert, args=arguments) for arguments in (("connect", -1), ("jdbc", -2))]
    with client(server, "connect") as other:
        for thread in threads:
            thread.start()
        until(lambda: has_begun(other, "connect") and has_begun(other, "jdbc"))
        code, said = server.stop(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert (code, [line["state"] for line in said]) == (0, ["stopping", "stopped"])
    assert said[-1]["drained"] is True
    assert sorted(heard) == ["connect", "jdbc"]
