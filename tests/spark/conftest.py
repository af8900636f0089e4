"""Sessions and engines. A Connect session and a classic one cannot live in one process."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import OVER_CONNECT, EngineTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.spark.engine import Engine

_ENGINES = ["connect"] if OVER_CONNECT in os.environ else ["portable", "native"]


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The classic session of all tests, or a Connect session with a server of its own."""
    if OVER_CONNECT not in os.environ:
        yield request.getfixturevalue("spark")
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connect = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        # A server of this process could learn Delta: it stands for one elsewhere.
        .config("spark.anabranch.engine", "portable")
        .getOrCreate()
    )
    yield connect
    connect.stop()


@pytest.fixture(params=_ENGINES)
def engine(request: pytest.FixtureRequest, session: SparkSession) -> Engine:
    if request.param == "native":
        if importlib.util.find_spec("anabranch.spark.native.native_engine") is None:
            pytest.skip("there is no native engine")
        from anabranch.spark.native.native_engine import NativeEngine

        return NativeEngine(session)
    from anabranch.spark.portable.portable_engine import PortableEngine

    return PortableEngine(session)


@pytest.fixture
def table_of(session: SparkSession, engine: Engine, tmp_path: Path) -> Callable[..., EngineTable]:
    """Makes a table without files: `table_of(schema, partition_columns=…, mode=…)`."""

    def make(schema: StructType, **facts: Any) -> EngineTable:
        return EngineTable(spark=session, engine=engine, schema=schema, **{"root": str(tmp_path / "t"), **facts})

    return make
