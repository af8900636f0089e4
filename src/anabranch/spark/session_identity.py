"""Which Spark session a Python object stands for."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_KEPT = "_anabranch_identity"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def identity(spark: SparkSession) -> str:
    """The same for every object that stands for one session: `getActiveSession` makes a new one at each call."""
    state: dict[str, Any] = vars(spark)
    found = state.get(_KEPT)
    if found is None:
        session: Any = spark
        found = session.session_id if is_connect(spark) else str(session._jsparkSession.sessionUUID())
        state[_KEPT] = found
    return str(found)
