"""Clients that are lost in a transaction: nothing of it is in the table, and the driver keeps nothing for it."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import anabranch
from anabranch.server import client_sessions
from anabranch.server.running_server import Server
from anabranch.spark.session import delta_session
from anabranch.table_transactions import transaction
from anabranch.transactions.multi_statement import open_transaction
from new_processes import outside_this_session
from serve.served import Client, ConnectClient, JdbcClient, Served, client, until

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).with_name("transaction_client.py")
PROTOCOLS = ("connect", "jdbc")
IDLE_SETTINGS = {
    "spark.connect.session.manager.defaultSessionTimeout": "10s",
    "spark.connect.session.manager.maintenanceInterval": "1s",
}


@pytest.fixture
def table(native: SparkSession) -> Iterator[str]:
    """A table with ids 0, 1, 2."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    native.sql(f"CREATE TABLE {name} USING delta AS SELECT id FROM range(0, 3, 1, 1)")
    yield name
    native.sql(f"DROP TABLE {name}")


def addresses(server: Server) -> Served:
    """The server as clients of it are made."""
    return Served(None, {"connect": server.connect_url, "jdbc": server.jdbc_url})  # type: ignore[arg-type]


@contextlib.contextmanager
def serving(spark: SparkSession) -> Iterator[Served]:
    with anabranch.serve(spark, connect=0, jdbc=0) as server:
        yield addresses(server)


def begin(by: Client, table: str) -> None:
    by.run("BEGIN TRANSACTION")
    by.run(f"DELETE FROM {table} WHERE id = 1")
    by.run(f"INSERT INTO {table} VALUES (100)")


def num_open() -> int:
    """The transactions that the driver keeps."""
    return len(delta_session._in_transaction)


def check_nothing_is_left(spark: SparkSession, table: str) -> None:
    assert num_open() == 0
    gc.collect()
    assert dict(open_transaction._open) == {}
    assert {row.id for row in spark.table(table).collect()} == {0, 1, 2}
    assert spark.sql(f"DESCRIBE HISTORY {table}").count() == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_is_killed(native: SparkSession, table: str, protocol: str) -> None:
    """JDBC's session ends with its connection, and one of Connect when nothing has been heard of it for long."""
    with idle_timeout(native), serving(native) as server:
        port = server.connect_port if protocol == "connect" else server.jdbc_port
        with subprocess.Popen(
            [sys.executable, str(PROGRAM), protocol, str(port), table],
            stdout=subprocess.PIPE,
            text=True,
            env=outside_this_session(),
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            assert num_open() == 1
            process.kill()
        until(lambda: num_open() == 0)
        check_nothing_is_left(native, table)


def test_a_connect_client_that_idles(native: SparkSession, table: str) -> None:
    """Neither its COMMIT nor the end of its block passes for a success."""
    with idle_timeout(native), serving(native) as server:
        by, other = ConnectClient(server), ConnectClient(server)
        begin(by, table)

        def block() -> None:
            with transaction(other.session, table):
                other.run(f"DELETE FROM {table}")
                until(lambda: num_open() == 0)

        with pytest.raises(PySparkException, match="SESSION_CLOSED"):
            block()
        with pytest.raises(PySparkException, match="SESSION_CLOSED"):
            by.rows("COMMIT")
        check_nothing_is_left(native, table)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_comes_and_goes_between_two_polls(
    native: SparkSession, table: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a transaction of the program that serves has done stays."""
    monkeypatch.setattr(client_sessions, "_POLL_SECONDS", 3600.0)
    with anabranch.serve(native, connect=0, jdbc=0) as server:
        own = native.newSession()
        own.sql("BEGIN TRANSACTION")
        with client(addresses(server), protocol) as by:
            begin(by, table)
            server._clients.poll()
            assert num_open() == 2
        with client(addresses(server), protocol) as by:
            begin(by, table)
        until(lambda: server.sessions() == 0)
        assert num_open() == 3
        server._clients.poll()
        assert num_open() == 1
        own.sql("ROLLBACK")
        check_nothing_is_left(native, table)


def test_a_server_that_is_stopped(native: SparkSession, table: str) -> None:
    with serving(native) as server:
        clients: list[Any] = [ConnectClient(server), JdbcClient(server)]
        for by in clients:
            begin(by, table)
        assert num_open() == 2
    check_nothing_is_left(native, table)


@contextlib.contextmanager
def idle_timeout(spark: SparkSession) -> Iterator[None]:
    """Servers that start in the block end sessions of Connect that have been idle for a few seconds."""
    settings: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    for key, value in IDLE_SETTINGS.items():
        settings.set(key, value)
    try:
        yield
    finally:
        for key in IDLE_SETTINGS:
            settings.remove(key)
