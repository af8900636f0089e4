"""Rows that a statement computes once and uses several times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from anabranch.spark.rows.task_count import kept_if_small


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """Rows that are computed once and used several times."""

    frame: DataFrame
    """It has the columns of the frame that was cached: Columns taken from that one name them, too."""
    release: Callable[[], object]
    """Frees the memory. May be called again."""


def cache_or_checkpoint(frame: DataFrame) -> CachedRows:
    """The same rows for every use of the result, however many there are; computed now if few, else when needed."""
    kept = kept_if_small(frame)
    if kept is not None:
        return CachedRows(frame=kept, release=_nothing)
    if not frame._jdf.queryExecution().analyzed().deterministic():
        # An executor that dies takes its part of a cache with it, and Spark would compute that part again: other rows
        # might be written than those that were marked as changed. A checkpoint is never computed again; the job fails.
        return _checkpointed(frame)
    return in_spark_cache(frame)


def cache_rows(frame: DataFrame) -> CachedRows:
    """The rows of a frame, computed now if few, else as `in_spark_cache` says."""
    kept = kept_if_small(frame)
    return in_spark_cache(frame) if kept is None else CachedRows(frame=kept, release=_nothing)


def in_spark_cache(frame: DataFrame, *, counts: bool = True) -> CachedRows:
    """The rows of a frame, computed when they are first needed, and again where an executor has lost them.

    Observations of the frame (`df.observe`) are completed on release, as if of no rows unless `counts` is true.
    """
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.delta.KeptRows(frame._jdf)
    return CachedRows(frame=DataFrame(rows.rows(), frame.sparkSession), release=lambda: rows.letGo(counts))


def _checkpointed(frame: DataFrame) -> CachedRows:
    # Spark frees the memory once no object refers to the frame.
    return CachedRows(frame=frame.localCheckpoint(eager=False), release=_nothing)


def _nothing() -> None:
    pass
