"""Checks whether servers answer, by the first bytes of their protocols. Needs no client library."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

from anabranch.errors.environment import ServerNotHealthyError
from anabranch.server import connect_server, jdbc_server
from anabranch.server.addresses import address_of

TIMEOUT_SECONDS = 15.0

_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""A client's first bytes in HTTP/2: the preface, and an empty frame of settings."""
_HTTP2_FRAME_BYTES = 9
_HTTP2_SETTINGS = 4
_SASL_START, _SASL_COMPLETE = 1, 5
_SASL_ANSWERS = {2, 3, 4, 5}
"""OK, BAD, ERROR, COMPLETE. A server that refuses a login is healthy."""
_SASL_HEADER_BYTES = 5
_CLOSED = "it closed the connection"


def check_connect_answers(host: str, port: int) -> None:
    """Raise `ServerNotHealthyError` unless a server of Spark Connect answers."""
    _check(connect_server.NAME, host, port, _speaks_grpc)


def check_jdbc_answers(host: str, port: int) -> None:
    """Raise `ServerNotHealthyError` unless a server of Hive's protocol answers."""
    _check(jdbc_server.NAME, host, port, _speaks_hive)


def _check(server: str, host: str, port: int, speaks: Callable[[socket.socket], str | None]) -> None:
    """Check without TLS, and with it if that fails. `speaks` returns what is wrong with the answer."""
    problem = _problem(host, port, speaks, by_tls=False)
    tls_problem = None if problem is None else _problem(host, port, speaks, by_tls=True)
    if tls_problem is not None:
        both = problem if problem == tls_problem else f"{problem}; by TLS: {tls_problem}"
        raise ServerNotHealthyError(server=server, address=address_of(host, port), problem=both)


def _problem(host: str, port: int, speaks: Callable[[socket.socket], str | None], *, by_tls: bool) -> str | None:
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=TIMEOUT_SECONDS) as connection:
            if not by_tls:
                return speaks(connection)
            with _unverified_tls().wrap_socket(connection) as encrypted:
                return speaks(encrypted)
    except TimeoutError:
        return f"no answer within {TIMEOUT_SECONDS:g} seconds"
    except OSError as error:
        return error.strerror or str(error)


def _unverified_tls() -> ssl.SSLContext:
    """TLS with any certificate: no secret is sent, and the answer is not trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _speaks_grpc(connection: socket.socket) -> str | None:
    frame = _exchange(connection, _HTTP2, _HTTP2_FRAME_BYTES)
    if frame is None:
        return _CLOSED
    return None if frame[3] == _HTTP2_SETTINGS else "the server there does not speak gRPC"


def _speaks_hive(connection: socket.socket) -> str | None:
    login = b"\0anonymous\0anonymous"
    request = _sasl(_SASL_START, b"PLAIN") + _sasl(_SASL_COMPLETE, login)
    header = _exchange(connection, request, _SASL_HEADER_BYTES)
    if header is None:
        return _CLOSED
    return None if header[0] in _SASL_ANSWERS else "the server there does not speak Hive's protocol over SASL"


def _sasl(status: int, payload: bytes) -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


def _exchange(connection: socket.socket, request: bytes, count: int) -> bytes | None:
    """Send the request and return the first `count` bytes of the answer; None if it ends before."""
    answer = b""
    connection.sendall(request)
    while len(answer) < count:
        received = connection.recv(count - len(answer))
        if not received:
            return None
        answer += received
    return answer
