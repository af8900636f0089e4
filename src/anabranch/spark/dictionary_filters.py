"""A filter of Spark's Parquet reader that loses rows, left out where it could."""

from __future__ import annotations

from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from anabranch.protocol.column_rules import contains_type

_OFF = {"parquet.filter.dictionary.enabled": "false"}


def filter_options(schema: StructType) -> dict[str, str]:
    """Options for reading files of these columns, so that `x = 0.0` finds -0.0.

    SQL says that the two are equal; the dictionary filter of the Parquet library compares them as bits, and skips row
    groups whose only zero is the other one. Statistics are no danger: writers must widen them for zeros.
    """
    return dict(_OFF) if contains_type(schema, _is_floating) else {}


def _is_floating(kind: DataType) -> bool:
    return isinstance(kind, FloatType | DoubleType)
