"""A number for each row by which rows that are alike in several columns come near each other: Z-ordering.

Each column is cut into ranges that hold about as many rows; the bits of the range numbers take turns in the key. All
of it is Spark's own functions. That a key be exact is not needed for anything: it only decides who stands near whom.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

SAMPLE_ROWS = 100_000
_KEY_BITS_MAX = 63
_PREFIX_LENGTH = 64
_SEED = 7
_SEPARATOR = "\x1f"
_KEY = "__anabranch_zorder_key"
_PLACE = "__anabranch_zorder_place"


_ORDERED = (
    IntegralType,
    FractionalType,
    BooleanType,
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


def has_order(data_type: DataType) -> bool:
    """Whether rows can be put in order by values of this type."""
    return isinstance(data_type, _ORDERED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ZOrderColumn:
    """A column to order by."""

    column: Column
    data_type: DataType


def zordered_frame(
    frame: DataFrame, columns: Sequence[ZOrderColumn], *, row_count: int, ranges_max: int, file_count: int
) -> DataFrame:
    """The rows of `frame`, near in one of `file_count` tasks, and sorted in each, if they are near in all columns.

    Runs a job over a sample of the columns.
    """
    names = [f"__anabranch_zorder_{i}" for i in range(len(columns))]
    marks = [_comparable(each).alias(name) for each, name in zip(columns, names, strict=True)]
    bits = max(1, min((ranges_max - 1).bit_length(), _KEY_BITS_MAX // len(columns)))
    sample = frame.select(*marks)
    if row_count > SAMPLE_ROWS:
        sample = sample.sample(SAMPLE_ROWS / row_count, _SEED)
    known = [column.combine_chunks() for column in sample.toArrow().columns]
    bounds = [_quantiles(values, min(ranges_max, 1 << bits)) for values in known]
    keys = _keys([_range_numbers(values, cut) for values, cut in zip(known, bounds, strict=True)], bits)
    keyed = _keyed(frame.select("*", *marks), names, bounds, bits)
    placed = _spread(keyed, _quantiles(pa.array(keys), file_count))
    return placed.sortWithinPartitions(_KEY).drop(_KEY, _PLACE, *names)


def _comparable(each: ZOrderColumn) -> Column:
    """A long, a double or a text that is no smaller where the value is larger."""
    column, kind = each.column, each.data_type
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast(LongType())
    if isinstance(kind, IntegralType | BooleanType):
        return column.cast(LongType())
    if isinstance(kind, FractionalType | DecimalType):
        return column.cast("double")
    if isinstance(kind, BinaryType):
        return F.hex(F.substring(column, 1, _PREFIX_LENGTH))
    return F.substring(column.cast("string"), 1, _PREFIX_LENGTH)


def _quantiles(values: pa.Array, parts: int) -> list[Any]:
    """The smallest values of all parts but the first, when they are cut into equal ones; fewer where values repeat."""
    ordered = values.drop_null().sort()
    if not len(ordered) or parts < 2:
        return []
    places = np.arange(1, parts, dtype=np.int64) * len(ordered) // parts
    return list(dict.fromkeys(ordered.take(pa.array(places)).to_pylist()))


def _range_numbers(values: pa.Array, bounds: Sequence[Any]) -> npt.NDArray[np.int64]:
    """As `_with_range_number`, for values that are here."""
    if not bounds:
        return np.zeros(len(values), dtype=np.int64)
    kind = object if pa.types.is_string(values.type) else None
    first = bounds[0]
    numbers = np.searchsorted(
        np.array(bounds, dtype=kind), np.array(values.fill_null(first).to_pylist(), dtype=kind), side="right"
    )
    numbers[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.asarray(numbers, dtype=np.int64)


def _keys(numbers: Sequence[npt.NDArray[np.int64]], bits: int) -> npt.NDArray[np.int64]:
    """As `_keyed`, for numbers that are here."""
    keys = np.zeros(len(numbers[0]), dtype=np.int64)
    for bit in range(bits):
        for place, each in enumerate(reversed(numbers)):
            keys |= ((each >> bit) & 1) << (bit * len(numbers) + place)
    return keys


def _keyed(frame: DataFrame, names: Sequence[str], bounds: Sequence[Sequence[Any]], bits: int) -> DataFrame:
    """With the key, in which the bits of the range numbers take turns, those of the first column ahead."""
    numbers = [f"{name}_range" for name in names]
    for name, values, number in zip(names, bounds, numbers, strict=True):
        frame = _with_range_number(frame, F.col(name), values, number)
    parts = [
        F.shiftleft(F.shiftright(F.col(number), bit).bitwiseAND(F.lit(1)).cast(LongType()), bit * len(numbers) + place)
        for bit in range(bits)
        for place, number in enumerate(reversed(numbers))
    ]
    while len(parts) > 1:
        # By halves: expressions that nest too deep do not travel to a Connect server.
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [one.bitwiseOR(other) for one, other in pairs] + ([parts[-1]] if len(parts) % 2 else [])
    (key,) = parts
    return frame.withColumn(_KEY, key).drop(*numbers)


def _with_range_number(frame: DataFrame, value: Column, bounds: Sequence[Any], name: str) -> DataFrame:
    """How many of the ascending `bounds` the value reaches, by halving; 0 for null.

    Step by step in columns of their own, which Spark keeps apart and compiles into a few comparisons.
    """
    frame = frame.withColumn(name, F.lit(0))
    if not bounds:
        return frame
    known = _array(bounds)
    for power in reversed(range(len(bounds).bit_length())):
        step = 1 << power
        reached = F.get(known, F.col(name) + (step - 1)) <= value
        frame = frame.withColumn(name, F.col(name) + F.when(reached, step).otherwise(0))
    return frame


def _array(values: Sequence[Any]) -> Column:
    """A constant, made by one call where that goes: to hand over values one by one takes longer than to use them."""
    texts = [str(value) for value in values]
    if any(_SEPARATOR in text for text in texts):
        return F.array(*map(F.lit, values))
    kind = "string" if isinstance(values[0], str) else "double" if isinstance(values[0], float) else "bigint"
    return F.split(F.lit(_SEPARATOR.join(texts)), _SEPARATOR).cast(f"array<{kind}>")


def _spread(keyed: DataFrame, bounds: Sequence[int]) -> DataFrame:
    """A task for each file. Spark hashes what it spreads by, so tasks are named by numbers of well-known hashes."""
    count = len(bounds) + 1
    if count == 1:
        return keyed.repartition(1)
    numbered = _with_range_number(keyed, F.col(_KEY), bounds, _PLACE)
    spark = keyed.sparkSession
    hashed = spark.range(40 * count).select(F.col("id").cast("int").alias("n"))
    candidates = hashed.select("n", F.pmod(F.hash("n"), F.lit(count))).collect()
    number_of = {task: number for number, task in candidates}
    numbers = _array([number_of.get(task, task) for task in range(count)]).cast("array<int>")
    return numbered.withColumn(_PLACE, F.get(numbers, F.col(_PLACE))).repartition(count, _PLACE)
