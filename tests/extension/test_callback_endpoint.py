"""Who may call the callback endpoint, and how long it keeps results."""

from __future__ import annotations

import gc
import socket
import weakref
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.gateway.callback_endpoint import CallbackEndpoint

pytestmark = pytest.mark.spark


@pytest.fixture
def caller(delta: SparkSession, path: str) -> Any:
    """A program of this machine: it knows the port and the names of objects."""
    # The first callback makes its handler, which calls the JVM; this caller could not reply.
    delta.range(1).write.format("delta").save(path)
    assert delta.read.format("delta").load(path).count() == 1
    gateway: Any = delta.sparkContext._gateway
    pool = gateway.gateway_property.pool.dict
    endpoint = next(name for name, item in pool.items() if isinstance(item, CallbackEndpoint))

    def call(token: str | None) -> str:
        with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=10) as connection:
            stream = connection.makefile("rw", encoding="utf-8", newline="\n")
            try:
                if token is not None:
                    stream.write(f"A\n{token}\ne\n")
                    stream.flush()
                    if not stream.readline().startswith("!y"):
                        return ""
                stream.write(f"c\n{endpoint}\napply\nsTableHandler.quote_versions\ni1\nsx\ne\n")
                stream.flush()
                return stream.readline()
            except ConnectionError:
                return ""

    return call


def test_callers_need_the_token(delta: SparkSession, caller: Any) -> None:
    gateway: Any = delta.sparkContext._gateway
    assert not caller(None).startswith("!y")
    assert not caller("another").startswith("!y")
    assert caller(gateway.gateway_parameters.auth_token) == "!yn\n"
    assert delta.sql("SELECT 1").collect() == [(1,)]


def test_a_result_is_held_till_the_jvm_has_it(delta: SparkSession, caller: Any) -> None:
    """Otherwise Py4J may release the object in the JVM before the JVM looks for it, which then finds null."""
    gateway: Any = delta.sparkContext._gateway
    endpoint = next(item for item in gateway.gateway_property.pool.dict.values() if isinstance(item, CallbackEndpoint))
    result = weakref.ref(endpoint.apply("NoHandler.method", 0))
    gc.collect()
    held: Any = result()
    assert held.getClass().getName() == "delta.DeltaError"
