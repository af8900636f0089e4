"""The source of a MERGE: evaluated once for the whole statement, and what is known of its values then."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NumericType, StringType

from anabranch.spark.join_conditions import JoinKey
from anabranch.spark.steady_frames import gives_the_same_again

VALUES_MAX = 100
"""Rows of a partition of the source up to which single values, not only the smallest and largest, are looked at."""
BROADCAST_BYTES_MAX = 96 << 20
"""A source that is no larger is sent to all executors, so that the table is not shuffled."""
_ROW_OF_PARTITION = (1 << 33) - 1
"""Of `monotonically_increasing_id`: the rest are the partition's."""
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = range(-719_162, 2_932_897)
"""The days that Python's dates can say."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrozenSource:
    """The rows of a source, which stay what they are until the statement is done."""

    frame: DataFrame
    """Its columns are called what they were, also by Columns taken from the user's frame."""
    kept: tuple[DataFrame, ...]
    """What is to be let go of at the end: nothing where the user had cached the frame before."""


def freeze(source: DataFrame) -> FrozenSource:
    """The source, to be evaluated by the first job that reads it."""
    level = source.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        return FrozenSource(frame=source, kept=())
    if gives_the_same_again(source):
        return FrozenSource(frame=source.persist(), kept=(source,))
    # Rows of a checkpoint are never computed again. On Spark Connect it loses the Columns that were taken from the
    # frame, not the names; Spark says so then.
    return FrozenSource(frame=source.localCheckpoint(eager=False), kept=())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceFacts:
    """What a look at all rows of a source told."""

    num_rows: int
    bounds: tuple[Column, ...]
    """Conditions on the stand-in for the table, true for every row of it that can equal a source row in all keys."""
    matches_nothing: bool
    """Whether no row of the table can."""


def measure(source: DataFrame, keys: Sequence[JoinKey], *, partition_columns: Sequence[str] = ()) -> SourceFacts:
    """Count the rows, and see between which values the keys lie. This is the job that evaluates the source."""
    told = [key for key in keys if _encoded(key.source, key.data_type) is not None]
    values = [_encoded(key.source, key.data_type) for key in told]
    place = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_OF_PARTITION))
    looked_at = source.select(
        F.lit(1).alias("one"),
        place.alias("place"),
        *(value.alias(f"k{i}") for i, value in enumerate(values) if value is not None),
    )
    aggregates = [F.count("one").alias("rows")]
    for i in range(len(told)):
        aggregates += [
            F.count(f"k{i}").alias(f"count{i}"),
            F.min(f"k{i}").alias(f"min{i}"),
            F.max(f"k{i}").alias(f"max{i}"),
            F.collect_set(F.when(F.col("place") < VALUES_MAX, F.col(f"k{i}"))).alias(f"values{i}"),
        ]
    row = looked_at.agg(*aggregates).collect()[0].asDict()
    num_rows = int(row["rows"])
    if num_rows == 0:
        return SourceFacts(num_rows=0, bounds=(), matches_nothing=True)
    bounds: list[Column] = []
    for i, key in enumerate(told):
        few = row[f"values{i}"] if num_rows <= VALUES_MAX else _few_values(source, key, partition_columns)
        condition = _condition(key, row[f"min{i}"], row[f"max{i}"], few)
        if condition is None and not key.null_safe:
            return SourceFacts(num_rows=num_rows, bounds=(), matches_nothing=True)
        if key.null_safe and row[f"count{i}"] < num_rows:
            condition = key.target.isNull() if condition is None else condition | key.target.isNull()
        if condition is not None:
            bounds.append(condition)
    return SourceFacts(num_rows=num_rows, bounds=tuple(bounds), matches_nothing=False)


def _few_values(source: DataFrame, key: JoinKey, partition_columns: Sequence[str]) -> list[Any] | None:
    """The values of a key that chooses partitions, as these are told apart exactly; None where they are too many."""
    if key.column is None or key.column not in partition_columns:
        return None
    value = _encoded(key.source, key.data_type)
    assert value is not None
    found = source.select(value.alias("k")).where("k IS NOT NULL").distinct().limit(VALUES_MAX + 1).collect()
    return None if len(found) > VALUES_MAX else [row[0] for row in found]


def _condition(key: JoinKey, low: Any, high: Any, few: Sequence[Any] | None) -> Column | None:
    """What a row of the table must satisfy to equal one of the values; None where there are none."""
    if low is None:
        return None
    if few is not None:
        return key.target.isin([_literal(value, key) for value in sorted(few)])
    return (key.target >= _literal(low, key)) & (key.target <= _literal(high, key))


def _encoded(value: Column, data_type: str) -> Column | None:
    """The value as one that comes to Python without a time zone; None for types whose order is not used."""
    if data_type in _WHOLE_NUMBERS or data_type == "string" or data_type.startswith("decimal("):
        return value
    if data_type == "date":
        return F.unix_date(value)
    return F.unix_micros(value) if data_type == "timestamp" else None


def _literal(value: int | str | Decimal, key: JoinKey) -> Column:
    if key.data_type == "date":
        assert isinstance(value, int)
        exact = F.date_from_unix_date(F.lit(value))
        return F.lit(_EPOCH + datetime.timedelta(days=value)) if value in _DAYS else exact
    if key.data_type == "timestamp":
        return F.timestamp_micros(F.lit(value).cast("bigint"))
    return F.lit(value)


def is_small(source: DataFrame, num_rows: int, settings: Mapping[str, str]) -> bool:
    """Whether the source may be sent to all executors. The user may forbid it, as for any join."""
    threshold = settings.get("spark.sql.autoBroadcastJoinThreshold", "10485760").strip()
    if threshold.startswith("-"):
        return False
    width = sum(_width(field.dataType) for field in source.schema.fields)
    return num_rows * width <= BROADCAST_BYTES_MAX


def _width(data_type: DataType) -> int:
    """About how many bytes a value takes."""
    if isinstance(data_type, StringType):
        return 32
    return 8 if isinstance(data_type, NumericType) else 16
