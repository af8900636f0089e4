"""How the JVMs of the tests start, and the environment of processes that start one of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark.jsa")
"""Spark's classes, as `tests/class_data.py` writes them for `make test`."""
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Programs that end within seconds are over before the second compiler has paid: it took 40 % of what their JVMs used.

With one compiler the JVM reserves 48 MB for its code, which many statements fill: then it compiles nothing any more.
"""
OPTIONS = f"{FIRST_COMPILER} -Xlog:disable" + (f" -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else "")
OF_SPARK = {
    "SPARK_LAUNCHER_OPTS": FIRST_COMPILER,
    "SPARK_SUBMIT_OPTS": f"{OPTIONS} '-Dspark.executor.extraJavaOptions={OPTIONS}'",
}
"""Where Spark's scripts look for them."""


def outside_this_session(*others: str) -> dict[str, str]:
    """This environment without what Spark has put there for the session of this process, nor what begins with `others`."""
    own = ("SPARK_", "PYSPARK_GATEWAY", *others)
    return {key: value for key, value in os.environ.items() if key in OF_SPARK or not key.startswith(own)}
