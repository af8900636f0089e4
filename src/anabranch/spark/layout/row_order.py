"""Rows that are alike in several columns put near each other: by a curve through the space of their values.

Each column is cut into ranges that hold about as many rows; the numbers of the ranges are a point, and where the point
lies on the curve is the key of the row. All of it is Spark's own functions.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType

from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.layout.range_numbers import (
    Numbers,
    bounds_of,
    comparable,
    constant_array,
    quantiles,
    range_numbers,
    with_range_number,
)

SAMPLE_ROWS = 100_000
_KEY_BITS_MAX = 63
_SEED = 7
_SHARES = 1 << 20
_KEY = "__anabranch_order_key"
_PLACE = "__anabranch_order_place"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrderColumn:
    """A column to order by."""

    column: Column
    data_type: DataType


class Curve(Protocol):
    """An order of points, which are numbers of ranges."""

    def keys(self, numbers: Sequence[Numbers], bits: int) -> Numbers:
        """The key of each point, given by an array a dimension, of numbers of `bits` bits."""

    def with_key(self, frame: DataFrame, numbers: Sequence[str], bits: int, name: str) -> DataFrame:
        """The same as a column `name`, of points whose numbers are columns."""


def ordered_frame(
    frame: DataFrame,
    columns: Sequence[OrderColumn],
    curve: Curve,
    *,
    row_count: int,
    ranges_max: int,
    file_count: int,
) -> DataFrame:
    """The rows of `frame`, near in one of `file_count` tasks, and sorted in each, if they are near in all columns.

    The frame has the positions of its rows, and the result has them, too. Runs a job over a sample of the columns.
    """
    names = [f"__anabranch_order_{i}" for i in range(len(columns))]
    marks = [comparable(each.column, each.data_type).alias(name) for each, name in zip(columns, names, strict=True)]
    bits = max(1, min((ranges_max - 1).bit_length(), _KEY_BITS_MAX // len(columns)))
    sample = frame.select(*marks)
    if row_count > SAMPLE_ROWS:
        sample = sample.sample(SAMPLE_ROWS / row_count, _SEED)
    known = [column.combine_chunks() for column in sample.toArrow().columns]
    bounds = [bounds_of(values, min(ranges_max, 1 << bits)) for values in known]
    keys = curve.keys([range_numbers(values, cut) for values, cut in zip(known, bounds, strict=True)], bits)
    keyed = frame.select("*", *marks)
    numbers = [f"{name}_range" for name in names]
    for name, values, number in zip(names, bounds, numbers, strict=True):
        keyed = with_range_number(keyed, F.col(name), values, number)
    keyed = curve.with_key(keyed, numbers, bits, _KEY).drop(*numbers)
    placed = _spread(keyed, keys, file_count)
    return placed.sortWithinPartitions(_KEY, *names).drop(_KEY, _PLACE, *names)


def _spread(keyed: DataFrame, sample: Numbers, file_count: int) -> DataFrame:
    """A task for each file. Spark hashes what it spreads by, so tasks are named by numbers of well-known hashes."""
    starts = quantiles(pa.array(sample), file_count)
    count = len(starts) + 1
    if count == 1:
        return keyed.repartition(1)
    numbered = _with_place(keyed, stretches(sample, starts))
    spark = keyed.sparkSession
    hashed = spark.range(40 * count).select(F.col("id").cast("int").alias("n"))
    candidates = hashed.select("n", F.pmod(F.hash("n"), F.lit(count))).collect()
    number_of = {task: number for number, task in candidates}
    numbers = constant_array([number_of.get(task, task) for task in range(count)]).cast("array<int>")
    return numbered.withColumn(_PLACE, F.get(numbers, F.col(_PLACE))).repartition(count, _PLACE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Rows from a key on, up to the next one's."""

    start: int
    file: int
    """Where the rows go that have a larger key; and those that have this one, if it does not fill a file."""
    first: float
    width: float
    """Over how many files, and from which on, the rows of this very key are spread, in files; 0 for not at all."""


def stretches(sample: Numbers, starts: Sequence[int]) -> list[Stretch]:
    """One for each different key with which a file begins. `sample` are keys, `starts` their quantiles."""
    ordered, file_count = np.sort(sample), len(starts) + 1
    found, file = [], 0
    for start, files in Counter(starts).items():
        file += files
        less, upto = np.searchsorted(ordered, [start, start + 1])
        per_row = file_count / len(ordered)
        width = float(upto - less) * per_row if files > 1 else 0.0
        found.append(Stretch(start=start, file=file, first=float(less) * per_row if width else file, width=width))
    return found


def _with_place(keyed: DataFrame, parts: Sequence[Stretch]) -> DataFrame:
    """The number of the file that a row goes to.

    Rows of a key that many have are told apart by their positions, which are the same when a task runs again.
    """
    numbered = with_range_number(keyed, F.col(_KEY), [each.start for each in parts], _PLACE)
    reached = F.col(_PLACE)
    place = F.get(constant_array([0, *(each.file for each in parts)]), reached)
    if any(each.width for each in parts):
        # A row that reaches no stretch goes to the first file. Keys are not negative, so that -1 is none.
        is_start = F.get(constant_array([-1, *(each.start for each in parts)]), reached) == F.col(_KEY)
        first, width = ([0.0, *(getattr(each, name) for each in parts)] for name in ("first", "width"))
        share = F.pmod(F.xxhash64(FILE_ID_COLUMN, ROW_INDEX_COLUMN), F.lit(_SHARES)) / F.lit(_SHARES)
        spread = F.get(constant_array(first), reached) + share * F.get(constant_array(width), reached)
        place = F.when(is_start, F.least(F.floor(spread), F.lit(parts[-1].file))).otherwise(place)
    return numbered.withColumn(_PLACE, place.cast("int"))
