"""A local session."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

FOLDER = sys.argv[1]


def started(**settings: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config(
        "spark.sql.warehouse.dir", f"{FOLDER}/warehouse"
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
