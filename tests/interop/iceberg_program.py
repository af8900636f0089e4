"""A Spark with Iceberg's own runtime: what it reads at each metadata file named, as one line of JSON.

It runs beside the tests because their Spark must have no jar on its classpath.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

ANSWER = "@rows "
"""Starts the line; Spark prints what it likes."""


def main(places: list[str]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": os.environ["ANABRANCH_ICEBERG_JAR"],
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("iceberg")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    found = {}
    for place in places:
        frame = spark.read.format("iceberg").load(place)
        found[place] = sorted(frame.toJSON().collect())
    print(ANSWER + json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
