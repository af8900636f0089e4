"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """One local Spark session for the whole run."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("anabranch-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
