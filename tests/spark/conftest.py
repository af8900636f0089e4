"""A session and its engine, for tests of files without a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.spark.native.native_engine import NativeEngine
from spark.engines import EngineTable


@pytest.fixture
def engine(spark: SparkSession) -> NativeEngine:
    return NativeEngine(spark)


@pytest.fixture
def table_of(spark: SparkSession, engine: NativeEngine, tmp_path: Path) -> Callable[..., EngineTable]:
    """Makes a table without files: `table_of(schema, partition_columns=…, mode=…)`."""

    def make(schema: StructType, **facts: Any) -> EngineTable:
        return EngineTable(spark=spark, engine=engine, schema=schema, **{"root": str(tmp_path / "t"), **facts})

    return make
