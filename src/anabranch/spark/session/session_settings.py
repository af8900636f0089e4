"""Which Spark session a Python object stands for, and what its settings say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from anabranch.booleans import parse_boolean
from anabranch.errors.arguments import InvalidOptionError

_KEPT = "_anabranch_identity"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return any(cls.__module__.startswith("pyspark.sql.connect") for cls in type(spark).__mro__)


def identity(spark: SparkSession) -> str:
    """The same for every object that stands for one session: `getActiveSession` makes a new one at each call."""
    state: dict[str, Any] = vars(spark)
    found = state.get(_KEPT)
    if found is None:
        found = state[_KEPT] = str(spark._jsparkSession.sessionUUID())
    return str(found)


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


def default_parallelism(spark: SparkSession) -> int:
    """Tasks at a time."""
    return max(1, spark.sparkContext.defaultParallelism)
