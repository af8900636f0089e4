"""How many tasks compute few rows: a shuffle between two of them takes longer than to read a few megabytes in one."""

from __future__ import annotations

import enum
from typing import Any

from pyspark.sql import DataFrame


class Size(enum.IntEnum):
    """What it takes to compute a frame, numbered as in `SmallPlans.java`."""

    LARGE = 0
    """As many tasks as there are."""
    SMALL = 1
    """One task: it reads little, by cheap operators."""
    LOCAL = 2
    """No job: the driver has the rows."""


def size_of(frame: DataFrame) -> Size:
    """What it takes to compute the frame."""
    jvm: Any = frame.sparkSession._jvm
    return Size(jvm.delta.SmallPlans.kind(frame._jdf))


def in_few_tasks(frame: DataFrame, size: Size) -> DataFrame:
    """The frame, which is of that size; in one partition if it is small, so that Spark aggregates without a shuffle."""
    return frame if size is Size.LARGE else frame.coalesce(1)


def kept_if_small(frame: DataFrame) -> DataFrame | None:
    """The rows of a small frame, computed now and kept by the driver; None for others, and for many rows.

    The result is of `Size.LOCAL`, and has the columns of the frame: Columns taken from that one name them, too.
    """
    jvm: Any = frame.sparkSession._jvm
    kept = jvm.delta.SmallPlans.kept(frame._jdf)
    return None if kept is None else DataFrame(kept, frame.sparkSession)
