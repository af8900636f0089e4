"""How many tasks compute few rows: a shuffle between two of them takes longer than to read a few megabytes in one."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def in_one_task_if_small(frame: DataFrame) -> DataFrame:
    """The frame; in one partition where it reads little, so that Spark aggregates its rows without a shuffle."""
    jvm: Any = frame.sparkSession._jvm
    return frame.coalesce(1) if jvm.delta.SmallPlans.isSmall(frame._jdf) else frame
