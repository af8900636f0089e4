"""`anabranch.serve` in a program that has a session: addresses, many client sessions, and the state after a stop."""

from __future__ import annotations

import contextlib
import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors import InvalidArgumentError, ServerNotStartedError
from anabranch.server.health_check import check_connect_answers, check_jdbc_answers
from anabranch.server.running_server import Server
from anabranch.spark.session import delta_session
from serve.served import Served, client, until

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

CLIENTS = 12


def kept() -> set[str]:
    gc.collect()
    return set(delta_session._recent)


def test_a_program_serves_its_session(native: SparkSession) -> None:
    refused(native)
    native.sql("CREATE OR REPLACE TABLE program USING delta AS SELECT 0L AS n")
    before = kept()
    with anabranch.serve(native, connect=0, jdbc=0) as server:
        ready = {"connect": server.connect_url, "jdbc": server.jdbc_url}
        clients_of = Served(None, ready)  # type: ignore[arg-type]
        check_connect_answers("127.0.0.1", clients_of.connect_port)
        check_jdbc_answers("127.0.0.1", clients_of.jdbc_port)
        with contextlib.ExitStack() as opened:
            clients = [
                opened.enter_context(client(clients_of, protocol)) for protocol in ("connect", "jdbc") * (CLIENTS // 2)
            ]
            for by in clients:
                assert by.rows("UPDATE program SET n = n + 1") == [(1,)]
            # More clients than the sessions that are kept without a server: their tables must stay open.
            assert len(kept() - before) == CLIENTS > delta_session.SESSIONS_KEPT_MAX
            assert server.sessions() == CLIENTS
            assert server.running() == 0
            rows_that_are_fetched_count_as_running(server, clients[1])
        until(lambda: server.sessions() == 0)
        until(lambda: not kept() - before)
        assert server.wait(0.1)
    assert native.sql("SELECT n FROM program").collect() == [(CLIENTS,)]
    native.sql("DROP TABLE program")
    assert not server.wait(0.1)
    for port in (clients_of.connect_port, clients_of.jdbc_port):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def rows_that_are_fetched_count_as_running(server: Server, by: Any) -> None:
    """Rows of a statement in Hive's state FINISHED are still computed while they are fetched."""
    by.run("SELECT reflect('java.lang.Thread', 'sleep', 3000L) FROM range(0, 1, 1, 1)")
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(by.cursor.fetchall)
        until(lambda: server.running() == 1)
        assert len(fetched.result(60)) == 1
    # The server hears of the end of the fetch after the client does.
    until(lambda: server.running() == 0)


def refused(native: SparkSession) -> None:
    """Wrong arguments are refused before a server is started."""
    with pytest.raises(InvalidArgumentError, match="one of them is needed"):
        anabranch.serve(native, connect=None, jdbc=None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: Any = taken.getsockname()[1]
        with pytest.raises(ServerNotStartedError, match=f"JDBC cannot be started on 127.0.0.1:{port}"):
            anabranch.serve(native, connect=None, jdbc=port)
        with pytest.raises(ServerNotStartedError, match=f"Spark Connect cannot be started on 127.0.0.1:{port}"):
            anabranch.serve(native, connect=port, jdbc=None)
