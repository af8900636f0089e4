"""A Spark with Iceberg's own runtime: what it reads at each metadata file named, as one line of JSON.

It runs beside the tests because their Spark must have no jar on its classpath.
"""

from __future__ import annotations

import json
import os
import sys

from interop.other_spark import other_session

ANSWER = "@rows "
"""Starts the line; Spark prints what it likes."""


def main(paths: list[str]) -> None:
    spark = other_session("iceberg", {"spark.jars": os.environ["ANABRANCH_ICEBERG_JAR"]})
    rows = {}
    for path in paths:
        frame = spark.read.format("iceberg").load(path)
        rows[path] = sorted(frame.toJSON().collect())
    print(ANSWER + json.dumps(rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
