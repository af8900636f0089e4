"""Whose call it is: the session, and the format, of a reader or writer of PySpark's."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from anabranch.connect.recorded_calls import noted
from anabranch.spark.session_identity import is_session


def session_of(instance: Any) -> SparkSession:
    """The session that a session, reader or writer belongs to."""
    if is_session(instance):
        return cast("SparkSession", instance)
    # PySpark's classes differ in what they call it.
    found = next(vars(instance)[name] for name in ("_spark", "_client", "_session") if name in vars(instance))
    return cast("SparkSession", found)


def means_delta(instance: Any, format: str | None) -> bool:
    """Whether the format given now, or before, or else the session's default, is Delta."""
    source = format or noted(instance).format
    if source is None:
        source = session_of(instance).conf.get("spark.sql.sources.default", "parquet")
    return str(source).lower() == "delta"


def frame_of(writer: Any) -> DataFrame:
    """The rows that a writer is to write."""
    found = writer._df
    if isinstance(found, DataFrame):
        return found
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame  # noqa: PLC0415 - an optional package

    return ConnectFrame(found, writer._spark)
