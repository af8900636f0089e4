"""Addresses as text, free ports, and the JVM's reason for a failure."""

from __future__ import annotations

import socket

from py4j.protocol import Py4JJavaError

_CAUSES_MAX = 32


def address_of(host: str, port: int) -> str:
    """`127.0.0.1:15002`, `[::1]:15002`."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def free_port(host: str) -> int:
    """A port of `host` that is free now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host.strip("[]"), 0))
        return int(listener.getsockname()[1])


def root_cause(error: Py4JJavaError) -> str:
    """The message of the JVM's innermost exception, without a final period."""
    exception = error.java_exception
    for _ in range(_CAUSES_MAX):
        cause = exception.getCause()
        if cause is None:
            break
        exception = cause
    return str(exception.getMessage() or exception).rstrip(".")
