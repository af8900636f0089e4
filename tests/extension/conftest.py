"""Sessions in which Spark itself knows Delta."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import anabranch


@pytest.fixture(scope="session")
def delta(spark: SparkSession) -> SparkSession:
    """The shared session, enabled."""
    return anabranch.enable(spark)


@pytest.fixture(autouse=True)
def active_in_this_folder(request: pytest.FixtureRequest) -> None:
    if "delta" in request.fixturenames:
        request.getfixturevalue("active")
