"""Column functions of ours, in Java: each takes one call of the JVM where PySpark's take one for each node."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.types import DataType

from anabranch.spark.gateway.jvm_classes import column_of


def cast(value: Column, to: DataType) -> Column:
    """The value cast as by `Column.cast`."""
    return column_of(_functions().cast(jvm_column(value), to.json()))


def legacy_cast(value: Column, to: DataType) -> Column:
    """The value cast by the policy LEGACY, for any ANSI setting: numbers wrap around, invalid text becomes null."""
    return column_of(_functions().legacyCast(jvm_column(value), to.json()))


def checked_cast(value: Column, to: DataType, failure: str) -> Column:
    """The value cast; where it does not fit, the job fails with the text and the value, as `refused` says."""
    return column_of(_functions().checkedCast(jvm_column(value), to.json(), failure))


def refused(violated: Column, value: Column, failure: str, shown: dict[str, Column]) -> Column:
    """`value`, unless `violated` is true in a row: then the job fails with the text and `shown`, one or two columns.

    They are strings in a JSON object after the text, by these names.
    """
    columns = [*map(jvm_column, shown.values()), None, None][:2]
    return column_of(_functions().refused(jvm_column(violated), jvm_column(value), failure, "\0".join(shown), *columns))


def _functions() -> Any:
    context: Any = SparkContext._active_spark_context
    return context._jvm.anabranch.ColumnFunctions


def jvm_column(column: Any) -> Any:
    """The JVM's column for one of PySpark."""
    return column._jc
