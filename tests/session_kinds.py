"""What kind of session a run gives its tests."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.table_access import TableRef, table_at
from anabranch.spark.session.delta_session import DeltaSession

CONNECT = os.environ.get("ANABRANCH_TEST_CONNECT") or None
"""Set for a run over Spark Connect: `serve` for a client of `anabranch serve`, `own` for a server in this process."""
if CONNECT not in {None, "serve", "own"}:
    raise pytest.UsageError(f"ANABRANCH_TEST_CONNECT is serve or own, not {CONNECT}")

in_this_process = pytest.mark.skipif(CONNECT == "serve", reason="takes a statement apart, which runs in the server")
classic = pytest.mark.skipif(CONNECT is not None, reason="looks into a classic session")


def delta_session(spark: SparkSession) -> DeltaSession:
    """The session as commands take it; over Spark Connect, where they run in the server, the test is skipped."""
    if CONNECT is not None:
        pytest.skip("calls commands, which a client does not have")
    return DeltaSession.of(spark)


def table_ref(spark: SparkSession, path: str) -> TableRef:
    """The table at `path` as commands take it; over Spark Connect, where they run in the server, the test is skipped."""
    return table_at(delta_session(spark), path)
