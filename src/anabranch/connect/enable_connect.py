"""Letting a session know Delta from outside, where Spark itself cannot learn it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.connect.python_source.registration import register
from anabranch.connect.reader_and_writer_patches import disable_readers_and_writers, enable_readers_and_writers
from anabranch.connect.sql.connect_sql import disable_sql, enable_sql


def enable_from_outside(spark: SparkSession, *, knows_format: bool) -> None:
    """PySpark's classes pass what is about Delta tables to us. Calling it again changes nothing.

    `knows_format` says that Spark finds a format `delta` of another session's.
    """
    if not knows_format:
        register(spark)
    enable_readers_and_writers(spark)
    enable_sql(spark)


def disable_from_outside(spark: SparkSession) -> None:
    """From now on the session's calls go to PySpark as they are."""
    disable_readers_and_writers(spark)
    disable_sql(spark)
