"""Who may ask Python, and who answers."""

from __future__ import annotations

import gc
import importlib
import socket
import weakref
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.callbacks.answers import PARTS
from anabranch.callbacks.driver import Driver
from anabranch.spark.gateway.callback_endpoint import CallbackEndpoint

pytestmark = pytest.mark.spark


@pytest.fixture
def caller(delta: SparkSession, path: str) -> Any:
    """A program of this machine: it knows the port and the names of objects."""
    # Who is asked first makes the part that answers, which asks the JVM; this caller would not understand.
    delta.range(1).write.format("delta").save(path)
    assert delta.read.format("delta").load(path).count() == 1
    gateway: Any = delta.sparkContext._gateway
    pool = gateway.gateway_property.pool.dict
    door = next(name for name, each in pool.items() if isinstance(each, CallbackEndpoint))

    def call(token: str | None) -> str:
        with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=10) as connection:
            stream = connection.makefile("rw", encoding="utf-8", newline="\n")
            try:
                if token is not None:
                    stream.write(f"A\n{token}\ne\n")
                    stream.flush()
                    if not stream.readline().startswith("!y"):
                        return ""
                stream.write(f"c\n{door}\napply\nsversions quoted\ni1\nsx\ne\n")
                stream.flush()
                return stream.readline()
            except ConnectionError:
                return ""

    return call


def test_the_token_is_asked_for(delta: SparkSession, caller: Any) -> None:
    gateway: Any = delta.sparkContext._gateway
    assert not caller(None).startswith("!y")
    assert not caller("another").startswith("!y")
    assert caller(gateway.gateway_parameters.auth_token) == "!yn\n"
    assert delta.sql("SELECT 1").collect() == [(1,)]


def test_an_answer_is_held_till_the_jvm_has_it(delta: SparkSession, caller: Any) -> None:
    """Else the JVM may be told that Python has let go of an object before it looks for it, and finds null."""
    gateway: Any = delta.sparkContext._gateway
    door = next(each for each in gateway.gateway_property.pool.dict.values() if isinstance(each, CallbackEndpoint))
    answer = weakref.ref(door.apply("no question of ours", 0))
    gc.collect()
    held: Any = answer()
    assert held.getClass().getName() == "delta.DeltaError"


def test_each_part_is_known_by_what_it_answers(delta: SparkSession) -> None:
    """A question that no list has is answered too, but all parts are imported for it."""
    jvm: Any = delta._jvm
    driver = Driver(jvm, {})  # type: ignore[arg-type]
    for place, known in PARTS.items():
        module, _, name = place.rpartition(".")
        part = getattr(importlib.import_module(f"anabranch.callbacks.{module}"), name)(driver)
        assert set(known) == {*part.answers(), *part.commands()}, place
