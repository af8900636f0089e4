"""Rows that a statement computes once and uses several times, and how many tasks compute few of them.

A shuffle between two tasks takes longer than to read a few megabytes in one, so small frames are computed in one, or
kept by the driver.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NumericType, StringType, StructField

from anabranch.spark.conditions.repeatable_rows import is_deterministic, is_repeatable
from anabranch.spark.gateway.jvm_sessions import is_stopped

LOGGER = logging.getLogger("anabranch.spark")
CACHED_ROWS_MAX = 500_000
"""To read more rows again takes less time than to cache them."""
OBJECTS_BYTES_MAX = 64 << 20
"""A source that Spark takes for larger is kept as bytes, which takes a third less time than to keep objects."""
_AS_BYTES = StorageLevel(useDisk=True, useMemory=True, useOffHeap=False, deserialized=False)
SMALL_BYTES_MAX = 96 << 20
"""Up to this size rows are broadcast, so that the other side of a join is not shuffled, and are cached as rows."""
_ROW_BYTES = 64
"""What a row takes in Spark's hash table beside its values: its key once more, pointers and lengths."""


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
    return Size(jvm.anabranch.SmallPlans.kind(frame._jdf))


def in_few_tasks(frame: DataFrame, size: Size) -> DataFrame:
    """The frame, which is of that size; in one partition if it is small, so that Spark aggregates without a shuffle."""
    return frame if size is Size.LARGE else frame.coalesce(1)


def aggregated(frame: DataFrame, size: Size, *, keys: Sequence[str], aggregates: Sequence[str]) -> DataFrame:
    """One row for each group of the frame, which is of that size: the keys, and then the aggregates.

    Both are SQL expressions, and there is one of each at least.
    """
    jvm: Any = frame.sparkSession._jvm
    texts = ("\0".join(keys), "\0".join(aggregates))
    return DataFrame(
        jvm.anabranch.SmallPlans.aggregated(frame._jdf, size is not Size.LARGE, *texts), frame.sparkSession
    )


def kept_if_small(frame: DataFrame) -> DataFrame | None:
    """The rows of a small frame, computed now and kept by the driver; None for others, and for many rows.

    The result is of `Size.LOCAL`, and has the columns of the frame: Columns taken from that one name them, too.
    """
    jvm: Any = frame.sparkSession._jvm
    kept = jvm.anabranch.SmallPlans.kept(frame._jdf)
    return None if kept is None else DataFrame(kept, frame.sparkSession)


def numbers_if_small(frame: DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """These columns of a small frame, computed now: an array of (rows, columns), -1 for NULL.

    `columns` are SQL expressions of whole numbers. None for other frames, and for many rows.
    """
    jvm: Any = frame.sparkSession._jvm
    numbers = jvm.anabranch.SmallPlans.numbers(frame._jdf, "\0".join(columns))
    return None if numbers is None else np.frombuffer(numbers, "<i8").reshape(-1, len(columns))


def not_broadcast(frame: DataFrame) -> DataFrame:
    """The frame, which Spark does not broadcast to join it by a hash table.

    For many rows of a checkpoint, whose size Spark takes from the compressed files below it.
    """
    jvm: Any = frame.sparkSession._jvm
    return DataFrame(jvm.anabranch.SmallPlans.notBroadcast(frame._jdf), frame.sparkSession)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """Rows that are computed once and used several times."""

    frame: DataFrame
    """It has the columns of the frame that was cached: Columns taken from that one name them, too."""
    release: Callable[[], object]
    """Frees the memory. May be called again."""


def release(cached: Iterable[CachedRows]) -> None:
    """Free the memory of these rows.

    Their statement may be committed by now, so what cannot be released is logged, and nothing is raised.
    """
    for rows in cached:
        try:
            rows.release()
        except Exception:
            # Where the program has stopped Spark while the statement ran, there is nothing left to free.
            level = logging.DEBUG if is_stopped(rows.frame.sparkSession) else logging.WARNING
            LOGGER.log(level, "Rows that Spark has kept for a statement were not released", exc_info=True)


def cache_or_checkpoint(frame: DataFrame) -> CachedRows:
    """The same rows for every use of the result, however many there are; computed now if few, else when needed."""
    kept = kept_if_small(frame)
    if kept is not None:
        return CachedRows(frame=kept, release=_nothing)
    if not is_deterministic(frame):
        # An executor that dies takes its part of a cache with it, and Spark would compute that part again: other rows
        # might be written than those that were marked as changed. A checkpoint is never computed again; the job fails.
        return _checkpointed(frame)
    return in_spark_cache(frame)


def is_small(fields: Iterable[StructField], num_rows: int) -> bool:
    """Whether so many rows with these columns are few enough to be broadcast, or cached as rows."""
    return num_rows * (_ROW_BYTES + sum(_width(field.dataType) for field in fields)) <= SMALL_BYTES_MAX


def _width(data_type: DataType) -> int:
    """A rough size of a value in bytes."""
    if isinstance(data_type, StringType):
        return 32
    return 8 if isinstance(data_type, NumericType) else 16


def cache_rows(frame: DataFrame, *, as_rows: bool = False) -> CachedRows:
    """The rows of a frame, computed now if few, else as `in_spark_cache` says.

    `as_rows` is for few rows (`is_small`) that are read once or twice: they are kept as they are, and not as
    compressed columns, which take longer to make than they save. What the frame shuffles is computed now.
    """
    kept = kept_if_small(frame)
    if kept is not None:
        return CachedRows(frame=kept, release=_nothing)
    if not as_rows:
        return in_spark_cache(frame)
    rows = _checkpointed(frame)
    jvm: Any = frame.sparkSession._jvm
    jvm.anabranch.KeptRows.makeRepeatable(rows.frame._jdf)
    return rows


def in_spark_cache(frame: DataFrame, *, counts: bool = True) -> CachedRows:
    """The rows of a frame, computed when they are first needed, and again where an executor has lost them.

    Observations of the frame (`df.observe`) are completed on release, as if of no rows unless `counts` is true.
    """
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.anabranch.KeptRows(frame._jdf)
    return CachedRows(frame=DataFrame(rows.rows(), frame.sparkSession), release=lambda: rows.letGo(counts))


def materialize(source: DataFrame, *, counts: bool = True) -> CachedRows:
    """The source of a statement, evaluated once: now if it is small, else by the first job that reads it.

    The rows do not change until they are released. Observations are completed as `in_spark_cache` says.
    """
    if source._jdf.storageLevel().isValid():
        # The user keeps the rows in Spark's cache.
        return CachedRows(frame=source, release=_nothing)
    kept = kept_if_small(source)
    if kept is not None:
        return CachedRows(frame=kept, release=_nothing)
    # Rows of a checkpoint are never computed again; the rows of a lost cache would be.
    return in_spark_cache(source, counts=counts) if is_repeatable(source) else _checkpointed(source, _level(source))


def with_kept_batches(frame: DataFrame) -> CachedRows:
    """The frame, in which rows of RDDs, such as the batch of a stream, are evaluated now and never again."""
    jvm: Any = frame.sparkSession._jvm
    batches = jvm.anabranch.KeptBatches.of(frame._jdf)
    if batches is None:
        return CachedRows(frame=frame, release=_nothing)
    return CachedRows(frame=DataFrame(batches.rows(), frame.sparkSession), release=batches.letGo)


def _level(frame: DataFrame) -> StorageLevel:
    """How a checkpoint of the frame is stored: as objects, or as bytes where so many objects would fill the memory."""
    jvm: Any = frame.sparkSession._jvm
    return (
        _AS_BYTES
        if jvm.anabranch.SmallPlans.bytesOf(frame._jdf) > OBJECTS_BYTES_MAX
        else StorageLevel.MEMORY_AND_DISK_DESER
    )


def _checkpointed(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> CachedRows:
    rows = frame.localCheckpoint(eager=False, storageLevel=level)
    jvm: Any = frame.sparkSession._jvm
    return CachedRows(frame=rows, release=lambda: jvm.anabranch.KeptRows.freeCheckpoint(rows._jdf))


def _nothing() -> None:
    pass
