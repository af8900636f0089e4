"""Whether servers answer, asked by the first bytes of their protocols: no client library is needed for it."""

from __future__ import annotations

import socket
import struct

from anabranch.errors.environment import ServerNotHealthyError
from anabranch.server import connect_server, jdbc_server
from anabranch.server.addresses import address_of

SECONDS = 5.0

_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client of HTTP/2 begins: the preface, and a frame of settings without any."""
_HTTP2_FRAME_BYTES = 9
_HTTP2_SETTINGS = 4
_SASL_START, _SASL_COMPLETE = 1, 5
_SASL_ANSWERS = {2, 3, 4, 5}
"""OK, BAD, ERROR, COMPLETE. A server that refuses a login is at work."""
_SASL_HEAD_BYTES = 5


def check_connect_answers(host: str, port: int) -> None:
    """Raises `ServerNotHealthyError` where nothing answers as Spark Connect does."""
    head = _asked(connect_server.NAME, host, port, _HTTP2, _HTTP2_FRAME_BYTES)
    if head[3] != _HTTP2_SETTINGS:
        _unhealthy(connect_server.NAME, host, port, "what answers does not speak gRPC")


def check_jdbc_answers(host: str, port: int) -> None:
    """Raises `ServerNotHealthyError` where nothing answers as Hive's protocol has it."""
    login = b"\0anonymous\0anonymous"
    question = _sasl(_SASL_START, b"PLAIN") + _sasl(_SASL_COMPLETE, login)
    head = _asked(jdbc_server.NAME, host, port, question, _SASL_HEAD_BYTES)
    if head[0] not in _SASL_ANSWERS:
        _unhealthy(jdbc_server.NAME, host, port, "what answers does not speak Hive's protocol over SASL")


def _sasl(status: int, payload: bytes) -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


def _asked(server: str, host: str, port: int, question: bytes, count: int) -> bytes:
    """The first `count` bytes of the answer."""
    answer = b""
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=SECONDS) as connection:
            connection.sendall(question)
            while len(answer) < count:
                received = connection.recv(count - len(answer))
                if not received:
                    break
                answer += received
    except TimeoutError:
        _unhealthy(server, host, port, f"no answer within {SECONDS:g} seconds")
    except OSError as error:
        _unhealthy(server, host, port, error.strerror or str(error))
    if len(answer) < count:
        _unhealthy(server, host, port, "it closed the connection")
    return answer


def _unhealthy(server: str, host: str, port: int, problem: str) -> None:
    raise ServerNotHealthyError(server=server, address=address_of(host, port), problem=problem)
