"""Values as readers of a table get them: strings within their length limit, partition values as in directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.errors.constraints import LengthLimitError
from anabranch.schema.enforcement import WritePlan
from anabranch.schema.logical_types import DECLARED_TYPE, LengthLimit
from anabranch.schema.paths import FieldPath, quote, quoted
from anabranch.spark.write.file_schema import partition_value
from anabranch.spark.write.row_checks import refuse_when

COLUMNS_SHOWN_MAX = 8
"""The number of columns of a row that an error shows, so that a person finds the row."""
SHOWN_TYPES = (IntegralType, DecimalType, StringType, BooleanType, DateType, TimestampType, TimestampNTZType)


def stored_value(
    value: Column, target: StructField, plan: WritePlan, *, row: Column | Callable[[], Column], table: str
) -> Column:
    """`value`, of the column's type, as readers get it; rules are checked on this value.

    The job fails with `LengthLimitError` for a string that is too long; the error shows `row`, made where needed.
    """
    for limit in plan.length_limits:
        if limit.path[0] == target.name:
            value = _at(
                value,
                target.dataType,
                limit.path[1:],
                _limiter(limit, row if isinstance(row, Column) else row(), table),
            )
    return partition_value(value, target.dataType) if target.name in plan.partition_columns else value


def named_as(target: StructField, value: Column) -> Column:
    """`value` under the column's name, and as `char` if the column is: rules must compare it as readers do."""
    declared = target.metadata.get(DECLARED_TYPE)
    if declared is None:
        return value.alias(target.name)
    return value.alias(target.name, metadata={DECLARED_TYPE: declared})


def row_as_json(names: Sequence[str], types: Sequence[DataType]) -> Column:
    """The first columns of simple types of a row, as JSON, to show the row to a person."""
    simple = [F.col(quote(name)) for name, kind in zip(names, types, strict=False) if isinstance(kind, SHOWN_TYPES)]
    return F.to_json(F.struct(*simple[:COLUMNS_SHOWN_MAX])) if simple else F.lit("{}")


def _limiter(limit: LengthLimit, row: Column, table: str) -> Callable[[Column], Column]:
    """A function that cuts spaces beyond the limit, pads `char` and refuses longer strings, as Spark's writes do."""
    facts = {"table": table, "column": quoted(limit.path), "declared": limit.declared}

    def limited(text: Column) -> Column:
        cut = F.when(F.char_length(text) > limit.length, F.substring(text, 1, limit.length)).otherwise(text)
        fitted = F.rpad(cut, limit.length, " ") if limit.padded else cut
        too_long = F.char_length(F.rtrim(text)) > limit.length
        return refuse_when(too_long, fitted, LengthLimitError, facts, shown={"value": text, "row": row})

    return limited


def _at(value: Column, kind: DataType, path: FieldPath, change: Callable[[Column], Column]) -> Column:
    """`value` with `change` applied to the field at `path` below it."""
    if not path:
        return change(value)
    if isinstance(kind, StructType):
        step = path[0]
        changed = _at(value.getField(step), kind[step].dataType, path[1:], change)
        return F.when(value.isNotNull(), value.withField(quote(step), changed))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda item: _at(item, element, path[1:], change))
    assert isinstance(kind, MapType)
    types = kind
    if path[0] == "key":
        return F.transform_keys(value, lambda key, _: _at(key, types.keyType, path[1:], change))
    return F.transform_values(value, lambda _, item: _at(item, types.valueType, path[1:], change))
