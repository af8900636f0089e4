"""A Bloom filter of keys: nearly all rows that equal none of them are left out before a join looks them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.gateway.column_functions import jvm_column
from anabranch.spark.gateway.jvm_classes import column_of

KEYS_MAX = 500_000
"""The filter of more keys lets too many others pass."""
_BITS = 1 << 23
"""A megabyte: of 250,000 keys it lets one of a million others pass, of `KEYS_MAX` three of ten thousand."""


class KeyFilter:
    """A filter of the keys of at most `KEYS_MAX` rows, which the JVM has."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def may_have(self, key: Sequence[Column]) -> Column:
        """A condition that is true for all keys of the filter, and for very few others.

        The columns have the types of those that the filter is made of, in the same order.
        """
        return column_of(self._made.mayHave(jvm_column(hash_of(key))))


def hash_of(key: Sequence[Column]) -> Column:
    """What a filter is made of: values that Spark takes for equal have the same hash, but for floating point."""
    return F.xxhash64(*key)


def is_worth_a_filter(rows: DataFrame) -> bool:
    """Whether few tasks compute the rows, as far as is known: each of them makes a whole filter."""
    jvm: Any = rows.sparkSession._jvm
    return bool(jvm.anabranch.KeyFilter.isWorth(rows._jdf))


def aggregate_with_filter(rows: DataFrame, aggregates: Sequence[str], *, hashes: str) -> tuple[Row, KeyFilter]:
    """The values of `aggregates`, SQL over the columns of `rows`, by a job that also makes the filter of `hashes`."""
    jvm: Any = rows.sparkSession._jvm
    made = column_of(jvm.anabranch.KeyFilter.aggregate(jvm_column(F.expr(hashes)), KEYS_MAX, _BITS))
    result = jvm.anabranch.KeyFilter(rows.select(*map(F.expr, aggregates), made)._jdf)
    (row,) = DataFrame(result.others(), rows.sparkSession).collect()
    return row, KeyFilter(result)
