"""Rows that are computed once and used several times."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.spark.session_identity import is_connect


def kept(frame: DataFrame) -> DataFrame:
    """The same rows, whatever is asked of the result and however often; computed when they are first needed.

    Let them go by `unpersist` of the result.
    """
    if is_connect(frame.sparkSession):
        # Each use sends the whole query anew, and the server reads it anew: `rand()` then is another number, and
        # a cached query is no longer the same one. What is cut off stays as it is.
        return frame.localCheckpoint(eager=False)
    return frame.persist()
