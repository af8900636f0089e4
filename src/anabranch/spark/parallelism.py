"""How much a session runs at once."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.session_identity import is_connect

UNKNOWN = 8
"""Where the server of a Connect session keeps it to itself."""


def default_parallelism(spark: SparkSession) -> int:
    """Tasks at a time, as far as the session tells."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    text = spark.conf.get("spark.default.parallelism", None) or ""
    return max(1, int(text)) if text.isdecimal() else UNKNOWN
