"""Limits of connections without a login, which announce how much they will send, and then wait."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.server.logins import add_user
from serve.served import Served, served, until

grpc = pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PASSWORD, TOKEN = "of-ann", "of-all"
ANNOUNCED = 100 << 20
START, OK, PLAIN = 1, 2, b"PLAIN"
IDLE, ANNOUNCING = 600, 40
WAITING_MAX = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("asked")
    add_user(str(folder / "users"), "ann", PASSWORD)
    logins = ["--users", str(folder / "users"), "-c", f"spark.connect.authenticate.token={TOKEN}"]
    with served(folder / "warehouse", *logins) as started:
        yield started


@contextlib.contextmanager
def connections(port: int, number: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            made.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
            if first:
                made[-1].sendall(first)
        yield made


def sasl(status: int, payload: bytes, length: int | None = None) -> bytes:
    """A message of the handshake of Thrift's SASL, which may announce another length than it has."""
    return struct.pack(">bI", status, len(payload) if length is None else length) + payload


def check_jdbc(server: Served) -> None:
    from pyhive import hive

    began = time.monotonic()
    address: dict[str, Any] = {"host": "127.0.0.1", "port": server.jdbc_port, "auth": "CUSTOM"}
    connection = hive.connect(**address, username="ann", password=PASSWORD)
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    connection.close()
    assert time.monotonic() - began < 60


def check_connect(server: Served) -> None:
    from pyspark.sql.connect.session import SparkSession

    url = f"sc://localhost:{server.connect_port}/;token={TOKEN}"
    session = SparkSession.builder.remote(url).create()
    assert session.sql("SELECT 1").collect() == [(1,)]
    session.stop()


def closed(made: list[socket.socket]) -> int:
    """The number of connections that the server has closed."""
    closed_count = 0
    for connection in made:
        connection.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            try:
                closed_count += not connection.recv(1)
            except ConnectionError:
                closed_count += 1
    return closed_count


@pytest.mark.parametrize("before", [b"", sasl(START, PLAIN)], ids=["first", "second"])
def test_large_messages_that_are_announced(server: Served, before: bytes) -> None:
    """Covers bug B82. Announcements in the handshake ended a server with 1 GB of memory."""
    with connections(server.jdbc_port, ANNOUNCING, before + sasl(OK, b"", ANNOUNCED)) as made:
        answers = [connection.recv(1000) for connection in made]
        assert all(b"Invalid payload header length" in answer for answer in answers)
        check_jdbc(server)
        check_connect(server)


def test_connections_that_wait(server: Served) -> None:
    """Covers bug B82. Each connection of Hive's protocol occupied one of 500 threads forever."""
    with connections(server.jdbc_port, IDLE) as made:
        check_jdbc(server)
        assert closed(made) >= IDLE - WAITING_MAX
        until(lambda: closed(made) == IDLE)
    with connections(server.connect_port, IDLE):
        check_connect(server)
        check_jdbc(server)


def test_requests_of_spark_connect_without_the_token(server: Served) -> None:
    """The server refuses such requests by their headers, without reading the rest."""
    options = [("grpc.max_send_message_length", -1)]
    for _ in range(ANNOUNCING):
        with grpc.insecure_channel(f"127.0.0.1:{server.connect_port}", options=options) as channel:
            call = channel.unary_unary("/spark.connect.SparkConnectService/Config")
            with pytest.raises(grpc.RpcError) as refused:
                call(bytes(ANNOUNCED), timeout=60)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    check_connect(server)
    check_jdbc(server)
