"""Which Spark session a Python object stands for, and its own `sql`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

_KEPT = "_anabranch_identity"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return any(cls.__module__.startswith("pyspark.sql.connect") for cls in type(spark).__mro__)


def is_session(value: object) -> bool:
    """Whether it is a session, classic or of Spark Connect, which has a class of the same name; subclasses included."""
    return any(cls.__name__ == "SparkSession" for cls in type(value).__mro__)


def identity(spark: SparkSession) -> str:
    """The same for every object that stands for one session: `getActiveSession` makes a new one at each call."""
    state: dict[str, Any] = vars(spark)
    found = state.get(_KEPT)
    if found is None:
        session: Any = spark
        found = session.session_id if is_connect(spark) else str(session._jsparkSession.sessionUUID())
        state[_KEPT] = found
    return str(found)


def own_sql(spark: SparkSession, text: str, **frames: DataFrame) -> DataFrame:
    """`spark.sql` as Spark has it: that of an enabled session asks first whether the statement is about Delta."""
    method: Any = getattr(type(spark).sql, "__wrapped__", type(spark).sql)
    found: DataFrame = method(spark, text, **frames)
    return found
