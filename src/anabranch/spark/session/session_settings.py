"""Settings of a session and options of a read or write, as values."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from anabranch.booleans import parse_boolean
from anabranch.errors.arguments import InvalidOptionError


def parse_flag(name: str, text: str) -> bool:
    """The boolean that `text` says. Raises `InvalidOptionError` for any other word; `name` is what the user set."""
    flag = parse_boolean(text.strip())
    if flag is None:
        raise InvalidOptionError(option=name, value=text, problem="it is true or false")
    return flag


def flag_of(options: Mapping[str, str], name: str, *, default: bool | str = False) -> bool:
    """The option `name`, whose key is in lower case; else `default`, which may be the text of a setting."""
    text = options.get(name.lower(), default)
    return text if isinstance(text, bool) else parse_flag(name, text)


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at a time."""
    return max(1, spark.sparkContext.defaultParallelism)
