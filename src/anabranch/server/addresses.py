"""Addresses as texts, free ports, and what the JVM says where one cannot be had."""

from __future__ import annotations

import socket

from py4j.protocol import Py4JJavaError

_CAUSES_MAX = 32


def address_of(host: str, port: int) -> str:
    """`127.0.0.1:15002`, `[::1]:15002`."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def free_port(host: str) -> int:
    """A port of `host` that nobody listens on now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.bind((host.strip("[]"), 0))
        return int(found.getsockname()[1])


def root_cause(error: Py4JJavaError) -> str:
    """What the innermost of the JVM's exceptions says, without a period at its end."""
    found = error.java_exception
    for _ in range(_CAUSES_MAX):
        below = found.getCause()
        if below is None:
            break
        found = below
    return str(found.getMessage() or found).rstrip(".")
