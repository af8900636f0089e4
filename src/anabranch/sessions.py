"""Sessions that know Delta."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from anabranch.datasource.enabling import enable_readers_and_writers
from anabranch.datasource.registration import register
from anabranch.sql.enabling import enable_sql


def enable(spark: SparkSession) -> SparkSession:
    """Let a running session read and write Delta tables, and give it back.

    Afterwards `spark.read.format("delta")`, `df.write.format("delta")`, `spark.table` and `spark.sql` work on
    Delta tables, by path and by names of the session's catalog. Works on classic sessions and on Spark Connect;
    nothing is added to Spark's classpath. Calling it again changes nothing.
    """
    register(spark)
    enable_readers_and_writers(spark)
    enable_sql(spark)
    return spark


def session(app_name: str = "anabranch", *, cores: int | None = None, **settings: str) -> SparkSession:
    """A local session that knows Delta: the one that is running, or a new one on this machine.

    `cores` are the threads that run tasks, all of the machine's by default. Further settings are Spark's, with
    `__` for dots: `session(spark__sql__shuffle__partitions="8")`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores or '*'}]")
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for key, value in {**defaults, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(key, value)
    return enable(builder.getOrCreate())
