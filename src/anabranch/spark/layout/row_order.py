"""Brings rows with similar values in several columns near each other, by a curve through the space of their values.

Each column is cut into ranges that hold about the same number of rows; the numbers of a row's ranges are a point, and
the position of the point on the curve is the key of the row. Spark's own functions compute all of it.
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
_FILE_NUMBER = "__anabranch_order_file"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrderColumn:
    """A column to order by."""

    column: Column
    data_type: DataType


class Curve(Protocol):
    """An order of points, whose coordinates are numbers of ranges."""

    def keys(self, numbers: Sequence[Numbers], bits: int) -> Numbers:
        """The key of each point; `numbers` has an array a dimension, of numbers of `bits` bits."""

    def with_key(self, frame: DataFrame, numbers: Sequence[str], bits: int, name: str) -> DataFrame:
        """The frame with the keys as a column `name`, of points whose coordinates are columns."""


def ordered_frame(
    frame: DataFrame,
    columns: Sequence[OrderColumn],
    curve: Curve,
    *,
    row_count: int,
    ranges_max: int,
    task_count: int,
) -> DataFrame:
    """The rows of `frame` in `task_count` sorted tasks, the first rows in the first task.

    The frame has the positions of its rows, and so has the result. Runs a job over a sample of the columns.
    """
    names = [f"__anabranch_order_{i}" for i in range(len(columns))]
    values_of = [
        comparable(column.column, column.data_type).alias(name) for column, name in zip(columns, names, strict=True)
    ]
    bits = max(1, min((ranges_max - 1).bit_length(), _KEY_BITS_MAX // len(columns)))
    sample = frame.select(*values_of)
    if row_count > SAMPLE_ROWS:
        sample = sample.sample(SAMPLE_ROWS / row_count, _SEED)
    samples = [column.combine_chunks() for column in sample.toArrow().columns]
    bounds = [bounds_of(values, min(ranges_max, 1 << bits)) for values in samples]
    keys = curve.keys([range_numbers(values, cut) for values, cut in zip(samples, bounds, strict=True)], bits)
    keyed = frame.select("*", *values_of)
    numbers = [f"{name}_range" for name in names]
    for name, values, number in zip(names, bounds, numbers, strict=True):
        keyed = with_range_number(keyed, F.col(name), values, number)
    # Spark sorts by one number without comparing rows. Along a curve, rows of one key need no order among them.
    sorted_by = [_KEY, *names] if len(columns) == 1 else [_KEY]
    not_needed = [name for name in (*numbers, *names) if name not in sorted_by]
    keyed = curve.with_key(keyed, numbers, bits, _KEY).drop(*not_needed)
    placed = _spread(keyed, keys, task_count)
    return placed.sortWithinPartitions(*sorted_by).drop(*sorted_by, _FILE_NUMBER)


def _spread(keyed: DataFrame, sample: Numbers, file_count: int) -> DataFrame:
    """The rows in one task for each file.

    Spark chooses a task by a hash of the column, which therefore has a number with the right hash for each task.
    """
    starts = quantiles(pa.array(sample), file_count)
    count = len(starts) + 1
    if count == 1:
        return keyed.repartition(1)
    numbered = _with_file_number(keyed, stretches(sample, starts))
    spark = keyed.sparkSession
    hashed = spark.range(40 * count).select(F.col("id").cast("int").alias("n"))
    candidates = hashed.select("n", F.pmod(F.hash("n"), F.lit(count))).collect()
    number_of = {task: number for number, task in candidates}
    numbers = constant_array([number_of.get(task, task) for task in range(count)]).cast("array<int>")
    return numbered.withColumn(_FILE_NUMBER, F.get(numbers, F.col(_FILE_NUMBER))).repartition(count, _FILE_NUMBER)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The rows from a key up to the key of the next stretch."""

    start: int
    file: int
    """The file of the rows with a larger key, and of those with this key unless they fill a file."""
    first: float
    width: float
    """The rows with this very key are spread over `width` files from `first` on; 0 if they are not spread."""


def stretches(sample: Numbers, starts: Sequence[int]) -> list[Stretch]:
    """A stretch for each different key with which a file begins. `sample` are keys, `starts` their quantiles."""
    ordered, file_count = np.sort(sample), len(starts) + 1
    parts, file = [], 0
    for start, files in Counter(starts).items():
        file += files
        less, upto = np.searchsorted(ordered, [start, start + 1])
        per_row = file_count / len(ordered)
        width = float(upto - less) * per_row if files > 1 else 0.0
        parts.append(Stretch(start=start, file=file, first=float(less) * per_row if width else file, width=width))
    return parts


def _with_file_number(keyed: DataFrame, parts: Sequence[Stretch]) -> DataFrame:
    """The frame with the number of the file for each row.

    Rows of a frequent key are spread by their positions, which are the same when a task runs again.
    """
    numbered = with_range_number(keyed, F.col(_KEY), [part.start for part in parts], _FILE_NUMBER)
    reached = F.col(_FILE_NUMBER)
    file = F.get(constant_array([0, *(part.file for part in parts)]), reached)
    if any(part.width for part in parts):
        # A row before all stretches goes to the first file. Keys are not negative, so -1 equals none.
        is_start = F.get(constant_array([-1, *(part.start for part in parts)]), reached) == F.col(_KEY)
        first, width = ([0.0, *(getattr(part, name) for part in parts)] for name in ("first", "width"))
        share = F.pmod(F.xxhash64(FILE_ID_COLUMN, ROW_INDEX_COLUMN), F.lit(_SHARES)) / F.lit(_SHARES)
        spread = F.get(constant_array(first), reached) + share * F.get(constant_array(width), reached)
        file = F.when(is_start, F.least(F.floor(spread), F.lit(parts[-1].file))).otherwise(file)
    return numbered.withColumn(_FILE_NUMBER, file.cast("int"))
