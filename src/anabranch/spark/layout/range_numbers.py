"""Values of a column as numbers of ranges that hold about as many rows each.

Bounds come from a sample; which range a row falls into is computed by Spark's own functions. That a number be exact is
not needed for anything: it only decides who stands near whom.
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
    """Whether rows can be put in order by values of this type."""
    return isinstance(data_type, _ORDERED)


def comparable(column: Column, kind: DataType) -> Column:
    """A long, a double or a text that is no smaller where the value is larger."""
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
    """The smallest values of all parts but the first, when they are cut into equal ones; as often as there are parts
    that begin with one.
    """
    ordered = values.drop_null().sort()
    if not len(ordered) or parts < 2:
        return []
    places = np.arange(1, parts, dtype=np.int64) * len(ordered) // parts
    found: list[Any] = ordered.take(pa.array(places)).to_pylist()
    return found


def bounds_of(values: pa.Array, parts: int) -> list[Any]:
    """As `quantiles`, each once: fewer where values repeat."""
    return list(dict.fromkeys(quantiles(values, parts)))


def range_numbers(values: pa.Array, bounds: Sequence[Any]) -> Numbers:
    """As `with_range_number`, for values that are here."""
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
    """How many of the ascending `bounds` the value reaches, by halving; 0 for null.

    Step by step in columns of their own, which Spark keeps apart and compiles into a few comparisons.
    """
    frame = frame.withColumn(name, F.lit(0))
    if not bounds:
        return frame
    known = constant_array(bounds)
    for power in reversed(range(len(bounds).bit_length())):
        step = 1 << power
        reached = F.get(known, F.col(name) + (step - 1)) <= value
        frame = frame.withColumn(name, F.col(name) + F.when(reached, step).otherwise(0))
    return frame


def constant_array(values: Sequence[Any]) -> Column:
    """A constant, made by one call where that goes: to hand over values one by one takes longer than to use them."""
    texts = [str(value) for value in values]
    if any(_SEPARATOR in text for text in texts):
        return F.array(*map(F.lit, values))
    kind = "string" if isinstance(values[0], str) else "double" if isinstance(values[0], float) else "bigint"
    return F.split(F.lit(_SEPARATOR.join(texts)), _SEPARATOR).cast(f"array<{kind}>")


def any_of_bits(parts: Sequence[Column]) -> Column:
    """All bits that one of them has. By halves: expressions that nest too deep do not travel to a Connect server."""
    left = list(parts)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [one.bitwiseOR(other) for one, other in pairs] + ([left[-1]] if len(left) % 2 else [])
    (found,) = left
    return found


def bit_of(number: Column, bit: int, *, to: int) -> Column:
    """A bit of a number, put in another place."""
    return F.shiftleft(F.shiftright(number, bit).bitwiseAND(F.lit(1)).cast(LongType()), to)
