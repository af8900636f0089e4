"""Values of a column as numbers of ranges that hold about the same number of rows each.

Bounds come from a sample; the range of a row is computed by Spark's own functions. The numbers need not be exact: they
only decide which rows are near each other.
"""

from __future__ import annotations

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

Numbers = npt.NDArray[np.int64]

_PREFIX_LENGTH = 64
_SEPARATOR = "\x1f"
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
    """Whether rows can be sorted by values of this type."""
    return isinstance(data_type, _ORDERED)


def comparable(column: Column, kind: DataType) -> Column:
    """The column as a long, a double or a text, which never decreases as the value increases."""
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


def quantiles(values: pa.Array, parts: int) -> list[Any]:
    """The first values of all parts but the first, where the sorted values are cut into equal parts.

    A value at which several parts begin is there several times.
    """
    ordered = values.drop_null().sort()
    if not len(ordered) or parts < 2:
        return []
    positions = np.arange(1, parts, dtype=np.int64) * len(ordered) // parts
    starts: list[Any] = ordered.take(pa.array(positions)).to_pylist()
    return starts


def bounds_of(values: pa.Array, parts: int) -> list[Any]:
    """The different `quantiles`, in order: fewer than parts where values repeat."""
    return list(dict.fromkeys(quantiles(values, parts)))


def range_numbers(values: pa.Array, bounds: Sequence[Any]) -> Numbers:
    """The numbers of `with_range_number`, for values of an array."""
    if not bounds:
        return np.zeros(len(values), dtype=np.int64)
    kind = object if pa.types.is_string(values.type) else None
    first = bounds[0]
    numbers = np.searchsorted(
        np.array(bounds, dtype=kind), np.array(values.fill_null(first).to_pylist(), dtype=kind), side="right"
    )
    numbers[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.asarray(numbers, dtype=np.int64)


def with_range_number(frame: DataFrame, value: Column, bounds: Sequence[Any], name: str) -> DataFrame:
    """The frame with one more column: how many of the ascending `bounds` the value reaches; 0 for null.

    A binary search, each step a column of its own, which Spark compiles into a few comparisons.
    """
    frame = frame.withColumn(name, F.lit(0))
    if not bounds:
        return frame
    array = constant_array(bounds)
    for power in reversed(range(len(bounds).bit_length())):
        step = 1 << power
        reached = F.get(array, F.col(name) + (step - 1)) <= value
        frame = frame.withColumn(name, F.col(name) + F.when(reached, step).otherwise(0))
    return frame


def constant_array(values: Sequence[Any]) -> Column:
    """An array of constants, made by one call if possible: to pass each value is slower than to use them."""
    texts = [str(value) for value in values]
    if any(_SEPARATOR in text for text in texts):
        return F.array(*map(F.lit, values))
    kind = "string" if isinstance(values[0], str) else "double" if isinstance(values[0], float) else "bigint"
    return F.split(F.lit(_SEPARATOR.join(texts)), _SEPARATOR).cast(f"array<{kind}>")


def any_of_bits(parts: Sequence[Column]) -> Column:
    """The bitwise OR of the parts, as a balanced tree: Connect servers reject expressions that nest too deeply."""
    left = list(parts)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [one.bitwiseOR(other) for one, other in pairs] + ([left[-1]] if len(left) % 2 else [])
    (combined,) = left
    return combined


def bit_of(number: Column, bit: int, *, to: int) -> Column:
    """One bit of a number, moved to bit `to`."""
    return F.shiftleft(F.shiftright(number, bit).bitwiseAND(F.lit(1)).cast(LongType()), to)
