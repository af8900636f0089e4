"""Asking Spark whether a query makes sense."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention


def check_sense(frame: DataFrame) -> None:
    """Has Spark look at the frame's plan; nothing runs. Raises Spark's `AnalysisException`."""
    # A client of Spark Connect that knows a frame's columns takes them for those of `frame.where(…)`, and asks nobody.
    assert frame.select(F.lit(True)).schema is not None
