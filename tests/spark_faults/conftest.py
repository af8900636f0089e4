"""What the tests of processes that fail share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def other(native: SparkSession) -> Iterator[SparkSession]:
    """The session of another process, in which nothing fails."""
    native.udf.register("reached", lambda _: True, "boolean")
    native.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    yield native
    native.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
