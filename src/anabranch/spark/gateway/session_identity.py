"""The Spark session that a Python object represents: which one it is, and whether it can still be used."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_KEPT = "_anabranch_identity"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return any(cls.__module__.startswith("pyspark.sql.connect") for cls in type(spark).__mro__)


def identity(spark: SparkSession) -> str:
    """The same text for every object that represents one session: `getActiveSession` makes a new one at each call."""
    state: dict[str, Any] = vars(spark)
    uuid = state.get(_KEPT)
    if uuid is None:
        uuid = state[_KEPT] = str(spark._jsparkSession.sessionUUID())
    return str(uuid)


def is_stopped(spark: SparkSession) -> bool:
    """Whether the application of the session has ended, or its JVM."""
    context: Any = spark.sparkContext._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True
