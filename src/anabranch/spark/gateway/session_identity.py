"""The identity of the Spark session that a Python object represents."""

from __future__ import annotations

from typing import Any

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
