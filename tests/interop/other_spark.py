"""A Spark that has jars, for programs beside the tests, whose own Spark must have none on its classpath."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def other_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings, and a warehouse of its own."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName(name)
    warehouse = {"spark.sql.warehouse.dir": f"{tempfile.mkdtemp()}/warehouse"}
    for key, value in {**_SETTINGS, **warehouse, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
