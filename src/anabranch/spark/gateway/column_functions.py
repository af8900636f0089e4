"""Column functions of Spark, and ours in Java, with one call of the JVM each.

PySpark looks each of its functions up by the path of its class at every use, which takes a dozen calls.
"""

from __future__ import annotations

import functools
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.types import DataType

from anabranch.spark.gateway.jvm_classes import CachedClass, column_of, our_classes


def col(name: str) -> Column:
    """The column of that name; the name is parsed, as by PySpark's `col`."""
    return column_of(_functions(_jvm()).col(name))


def cast(value: Column, to: DataType) -> Column:
    """The value cast as by `Column.cast`."""
    return column_of(our_classes(_jvm()).Writes.cast(_jvm_column(value), to.json()))


def legacy_cast(value: Column, to: DataType) -> Column:
    """The value cast by the policy LEGACY, for any ANSI setting: numbers wrap around, invalid text becomes null."""
    return column_of(our_classes(_jvm()).Writes.legacyCast(_jvm_column(value), to.json()))


def checked_cast(value: Column, to: DataType, failure: str) -> Column:
    """The value cast; where it does not fit, the job fails with the text and the value, as `refused` says."""
    return column_of(our_classes(_jvm()).Writes.checkedCast(_jvm_column(value), to.json(), failure))


def refused(violated: Column, value: Column, failure: str, shown: dict[str, Column]) -> Column:
    """`value`, unless `violated` is true in a row: then the job fails with the text and `shown`, one or two columns.

    They are strings in a JSON object after the text, by these names.
    """
    columns = [*map(_jvm_column, shown.values()), None, None][:2]
    writes = our_classes(_jvm()).Writes
    return column_of(writes.refused(_jvm_column(violated), _jvm_column(value), failure, "\0".join(shown), *columns))


def alias(value: Column, name: str) -> Column:
    """The value under another name, without metadata of its own."""
    return column_of(_jvm_column(value).alias(name))


def _jvm() -> Any:
    context: Any = SparkContext._active_spark_context
    return context._jvm


def _jvm_column(column: Any) -> Any:
    return column._jc


@functools.lru_cache(maxsize=1)
def _functions(jvm: Any) -> CachedClass:
    return CachedClass(jvm.org.apache.spark.sql.functions)
