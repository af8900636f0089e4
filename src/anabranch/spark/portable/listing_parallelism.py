"""Listing many files without a Spark task for each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from pyspark.sql import SparkSession

PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTED_ON_DRIVER_MAX = 32
_PATHS_PER_TASK = 64
_TASKS_MIN = 16
_lock = threading.Lock()


@contextlib.contextmanager
def few_listing_tasks(spark: SparkSession, path_count: int) -> Iterator[None]:
    """While a frame over so many paths is analysed, let a task list many of them.

    Spark makes a task for every path, up to 10,000, which takes fifteen times as long as the listing itself. The
    setting has no effect on what a query returns, so a query of another thread that meets it loses nothing.
    """
    if path_count <= _LISTED_ON_DRIVER_MAX:
        yield
        return
    with _lock:
        before = spark.conf.get(PARALLELISM, None)
        spark.conf.set(PARALLELISM, str(max(_TASKS_MIN, path_count // _PATHS_PER_TASK)))
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(PARALLELISM)
            else:
                spark.conf.set(PARALLELISM, before)
