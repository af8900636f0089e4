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
def active(request: pytest.FixtureRequest) -> None:
    """The session is the active one of its thread, whichever test ran before: Spark asks the active session for settings,
    also where another one's catalogs are looked for (`toTable`)."""
    if "delta" in request.fixturenames:
        session = request.getfixturevalue("delta")
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
