"""A Bloom filter of keys: nearly all rows that equal none of them are left out before a join looks them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.gateway.jvm_classes import column_of, jvm_column

KEYS_MAX = 2_000_000
"""A filter of so many keys has eight megabytes, which each task that reads the table gets."""


class KeyFilter:
    """A filter of the keys of at most `KEYS_MAX` rows, which the JVM has."""

    def __init__(self, rows: DataFrame, key: Sequence[Column]) -> None:
        """Runs the frame, which has the columns of the key."""
        jvm: Any = rows.sparkSession._jvm
        self._made = jvm.anabranch.KeyFilter(rows.select(_hash_of(key))._jdf)

    def may_have(self, key: Sequence[Column]) -> Column:
        """A condition that is true for all keys of the filter, and for one of a million others.

        The columns have the types of those that the filter is made of, in the same order.
        """
        return column_of(self._made.mayHave(jvm_column(_hash_of(key))))


def _hash_of(key: Sequence[Column]) -> Column:
    """Values that Spark takes for equal have the same hash, but for floating point; it is not NULL."""
    return F.xxhash64(*key)
