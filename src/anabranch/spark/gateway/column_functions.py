"""Column functions of ours, in Java: each takes one call of the JVM where PySpark's take one for each node."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.types import DataType

from anabranch.spark.gateway.jvm_classes import column_of


def cast(value: Column, to: DataType) -> Column:
    """The value cast as by `Column.cast`."""
    return column_of(_functions().cast(_jvm_column(value), to.json()))


def legacy_cast(value: Column, to: DataType) -> Column:
    """The value cast by the policy LEGACY, for any ANSI setting: numbers wrap around, invalid text becomes null."""
    return column_of(_functions().legacyCast(_jvm_column(value), to.json()))


def checked_cast(value: Column, to: DataType, failure: str) -> Column:
    """The value cast; where it does not fit, the job fails with the text and the value, as `refused` says."""
    return column_of(_functions().checkedCast(_jvm_column(value), to.json(), failure))


def refused(violated: Column, value: Column, failure: str, shown: dict[str, Column]) -> Column:
    """`value`, unless `violated` is true in a row: then the job fails with the text and `shown`, one or two columns.

    They are strings in a JSON object after the text, by these names.
    """
    columns = [*map(_jvm_column, shown.values()), None, None][:2]
    return column_of(
        _functions().refused(_jvm_column(violated), _jvm_column(value), failure, "\0".join(shown), *columns)
    )


def _functions() -> Any:
    context: Any = SparkContext._active_spark_context
    return context._jvm.anabranch.ColumnFunctions


def _jvm_column(column: Any) -> Any:
    return column._jc
