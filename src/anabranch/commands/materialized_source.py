"""The source of a statement, evaluated once however many jobs read it."""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame

from anabranch.spark.conditions.repeatable_rows import is_repeatable
from anabranch.spark.rows.cached_rows import CachedRows, in_spark_cache
from anabranch.spark.rows.task_count import kept_if_small


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaterializedSource:
    """The rows of a source, which do not change until the statement is finished."""

    frame: DataFrame
    """A frame in which Columns taken from the user's frame still resolve."""
    cached: tuple[CachedRows, ...]
    """The rows to release at the end; none where the user had cached the frame before."""


def materialize(source: DataFrame, *, counts: bool = True) -> MaterializedSource:
    """The source, evaluated once: now if it is small, else by the first job that reads it.

    Observations are completed as `in_spark_cache` says.
    """
    if _is_kept(source):
        return MaterializedSource(frame=source, cached=())
    kept = kept_if_small(source)
    if kept is not None:
        return MaterializedSource(frame=kept, cached=())
    if is_repeatable(source):
        rows = in_spark_cache(source, counts=counts)
        return MaterializedSource(frame=rows.frame, cached=(rows,))
    # Rows of a checkpoint are never computed again; the rows of a lost cache would be.
    return MaterializedSource(frame=source.localCheckpoint(eager=False), cached=())


def _is_kept(frame: DataFrame) -> bool:
    """Whether the user keeps the rows in Spark's cache."""
    return bool(frame._jdf.storageLevel().isValid())
