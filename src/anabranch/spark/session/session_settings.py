"""Which Spark session a Python object stands for, its own `sql`, and what its settings say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.booleans import parse_boolean
from anabranch.errors.arguments import InvalidOptionError

# Which Spark session a Python object stands for, and its own `sql`.


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


# Settings and options that are true or false.


def parse_flag(name: str, text: str) -> bool:
    """Raises `InvalidOptionError` for any other word; `name` is what the user set."""
    found = parse_boolean(text.strip())
    if found is None:
        raise InvalidOptionError(option=name, value=text, problem="it is true or false")
    return found


def flag_of(options: Mapping[str, str], name: str, *, default: bool | str = False) -> bool:
    """The option `name`, given in small letters; else `default`, which may be the text of a setting."""
    text = options.get(name.lower(), default)
    return text if isinstance(text, bool) else parse_flag(name, text)


# How much a session runs at once.


UNKNOWN = 8
"""Where the server of a Connect session keeps it to itself."""


def default_parallelism(spark: SparkSession) -> int:
    """Tasks at a time, as far as the session tells."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    text = spark.conf.get("spark.default.parallelism", None) or ""
    return max(1, int(text)) if text.isdecimal() else UNKNOWN


# Which engine a session asks for, told without importing one.


ENGINE_SETTING = "spark.anabranch.engine"
"""`native` or `portable`; by default what the session allows."""


# Asking Spark whether a query makes sense.


def check_sense(frame: DataFrame) -> None:
    """Has Spark look at the frame's plan; nothing runs. Raises Spark's `AnalysisException`."""
    # A client of Spark Connect that knows a frame's columns takes them for those of `frame.where(…)`, and asks nobody.
    assert frame.select(F.lit(True)).schema is not None
