"""Making Spark know the format `delta` by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyspark.sql.datasource
from pyspark.sql import SparkSession

from anabranch.connect.python_source.delta_source import DeltaDataSource, SessionFacts
from anabranch.spark.session.session_settings import is_connect
from anabranch.storage.external_files import PLACES_SETTING

_PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
_TIME_ZONE_SETTING = "spark.sql.session.timeZone"
_HADOOP = "spark.hadoop."


def register(spark: SparkSession, *, name: str = "delta") -> None:
    """Let `spark` read and append to Delta tables as format `delta`, or by another `name`, through public API alone.

    Python workers must be able to import anabranch. Of the session, its time zone and its `spark.hadoop.*`
    settings are taken as they are now; register again after changing them. Calling it again is harmless.

    Where PySpark can hand filters to Python sources, it is set to, unless the session says not to: without
    that, no file is ever skipped.
    """
    if hasattr(pyspark.sql.datasource, "Filter") and spark.conf.get(_PUSHDOWN_SETTING, None) is None:
        spark.conf.set(_PUSHDOWN_SETTING, "true")
    settings = dict(spark.conf.getAll)
    facts = SessionFacts(
        time_zone=settings.get(_TIME_ZONE_SETTING) or spark.conf.get(_TIME_ZONE_SETTING) or "UTC",
        file_system={key: value for key, value in settings.items() if key.startswith(_HADOOP) or key == PLACES_SETTING},
    )
    # The class travels to Python workers, and what it knows of the session with it.
    source = type(
        DeltaDataSource.__name__, (DeltaDataSource,), {"facts": facts, "called": name, "__module__": __name__}
    )
    with _active(spark):
        spark.dataSource.register(source)


@contextlib.contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Spark looks for a source of the name in the thread's active session, whichever session registers."""
    if is_connect(spark):
        yield
        return
    jvm: Any = spark.sparkContext._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
