"""Whether servers answer, asked by the first bytes of their protocols: no client library is needed for it."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

from anabranch.errors.environment import ServerNotHealthyError
from anabranch.server import connect_server, jdbc_server
from anabranch.server.addresses import address_of

SECONDS = 15.0

_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client of HTTP/2 begins: the preface, and a frame of settings without any."""
_HTTP2_FRAME_BYTES = 9
_HTTP2_SETTINGS = 4
_SASL_START, _SASL_COMPLETE = 1, 5
_SASL_ANSWERS = {2, 3, 4, 5}
"""OK, BAD, ERROR, COMPLETE. A server that refuses a login is at work."""
_SASL_HEAD_BYTES = 5
_CLOSED = "it closed the connection"


def check_connect_answers(host: str, port: int) -> None:
    """Raises `ServerNotHealthyError` where nothing answers as Spark Connect does."""
    _check(connect_server.NAME, host, port, _speaks_grpc)


def check_jdbc_answers(host: str, port: int) -> None:
    """Raises `ServerNotHealthyError` where nothing answers as Hive's protocol has it."""
    _check(jdbc_server.NAME, host, port, _speaks_hives)


def _check(server: str, host: str, port: int, speaks: Callable[[socket.socket], str | None]) -> None:
    """`speaks` tells what is wrong with the answers. Asks by TLS, too, where nobody understands the plain question."""
    problem = _problem(host, port, speaks, by_tls=False)
    encrypted = None if problem is None else _problem(host, port, speaks, by_tls=True)
    if encrypted is not None:
        told = problem if problem == encrypted else f"{problem}; by TLS: {encrypted}"
        raise ServerNotHealthyError(server=server, address=address_of(host, port), problem=told)


def _problem(host: str, port: int, speaks: Callable[[socket.socket], str | None], *, by_tls: bool) -> str | None:
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=SECONDS) as connection:
            if not by_tls:
                return speaks(connection)
            with _unchecked().wrap_socket(connection) as encrypted:
                return speaks(encrypted)
    except TimeoutError:
        return f"no answer within {SECONDS:g} seconds"
    except OSError as error:
        return error.strerror or str(error)


def _unchecked() -> ssl.SSLContext:
    """Of any certificate: nothing is told that needs to be kept, and nothing is believed."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    found.set_alpn_protocols(["h2"])
    return found


def _speaks_grpc(connection: socket.socket) -> str | None:
    head = _asked(connection, _HTTP2, _HTTP2_FRAME_BYTES)
    if head is None:
        return _CLOSED
    return None if head[3] == _HTTP2_SETTINGS else "what answers does not speak gRPC"


def _speaks_hives(connection: socket.socket) -> str | None:
    login = b"\0anonymous\0anonymous"
    question = _sasl(_SASL_START, b"PLAIN") + _sasl(_SASL_COMPLETE, login)
    head = _asked(connection, question, _SASL_HEAD_BYTES)
    if head is None:
        return _CLOSED
    return None if head[0] in _SASL_ANSWERS else "what answers does not speak Hive's protocol over SASL"


def _sasl(status: int, payload: bytes) -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


def _asked(connection: socket.socket, question: bytes, count: int) -> bytes | None:
    """The first `count` bytes of the answer; None where it ends before."""
    answer = b""
    connection.sendall(question)
    while len(answer) < count:
        received = connection.recv(count - len(answer))
        if not received:
            return None
        answer += received
    return answer
