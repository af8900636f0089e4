"""What kind of session a run gives its tests."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.extension.install import is_installed

SERVED = os.environ.get("ANABRANCH_TEST_CONNECT") == "native"
"""Sessions are those of a client of `anabranch serve`."""

in_this_process = pytest.mark.skipif(SERVED, reason="takes a statement apart, which runs in the server")


def knows_delta(spark: SparkSession) -> bool:
    """Whether Spark itself knows Delta there: in this process, or in that of `anabranch serve`."""
    return SERVED or is_installed(spark)
