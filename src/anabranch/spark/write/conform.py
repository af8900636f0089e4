"""A DataFrame's rows as rows of a table: the plan of `anabranch.schema.enforcement` in Spark columns."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from anabranch.errors.constraints import CastOverflowError, MalformedValueError
from anabranch.schema.casts import (
    Cast,
    Casting,
    Conversion,
    FieldSource,
    Keep,
    RebuildArray,
    RebuildMap,
    RebuildStruct,
)
from anabranch.schema.computed_columns import identity_of
from anabranch.schema.enforcement import ColumnPlan, Fill, WritePlan
from anabranch.schema.paths import ELEMENT, FieldPath, quote, quoted
from anabranch.spark.gateway.jvm_classes import SelectedColumn, cast, checked_cast, legacy_cast, select
from anabranch.spark.write.identity_values import identity_value, with_row_numbers
from anabranch.spark.write.row_checks import failure_text
from anabranch.spark.write.row_rules import (
    default_value,
    named_as,
    row_as_json,
    stored_value,
    with_generated_columns,
    with_row_checks,
)

_NESTED = (StructType, ArrayType, MapType)


def conform(
    frame: DataFrame,
    plan: WritePlan,
    *,
    table: str,
    keep: Sequence[str] = (),
    new_rows: str | None = None,
    first_numbers: Mapping[str, int] | None = None,
) -> DataFrame:
    """The rows of `frame` converted by `plan`; values that break a rule of the table fail the job that reads them.

    All rules of a table for its writers are applied here: casts, defaults, numbers of identity columns, generated
    columns, lengths, NOT NULL, CHECK constraints. Raises `UntrustedExpressionError` for an expression in the
    table's metadata that may not run. If identity numbers are made, shuffles of `frame` run at once. `keep` names
    further columns of `frame`, which are put last without a change. `new_rows` names a column that is true for the
    rows that get a number for NULL, if not all do: an existing row of the table with NULL as its number keeps that.
    `first_numbers` are those from which identity columns are counted; others are counted from their marks.
    """
    names = frame.columns
    unique = len({name.lower() for name in names}) == len(names)
    source = frame if unique else frame.toDF(*(f"c{position}" for position in range(len(names))))
    if plan.is_plain and not keep and [column.source_index for column in plan.columns] == list(range(len(names))):
        # No column needs a change, so no call is made for each.
        targets = [column.target.name for column in plan.columns]
        return source if source.columns == targets else source.toDF(*targets)
    types = [field.dataType for field in source.schema.fields]
    if plan.generates_identity:
        source = with_row_numbers(source)
    row = functools.cache(lambda: row_as_json(source.columns, types))

    def computed(column: ColumnPlan) -> Column:
        is_new = None if new_rows is None else F.col(quote(source.columns[names.index(new_rows)]))
        first = (first_numbers or {}).get(column.target.name)
        value = _value(column, source.columns, types, plan.casting, table, is_new=is_new, first=first)
        return named_as(column.target, stored_value(value, column.target, plan, row=row, table=table))

    written = [column for column in plan.columns if column.fill is not Fill.GENERATED]
    kept = [SelectedColumn(position=names.index(name), name=name) for name in keep]
    columns = [_selected(column, types, plan, table) or computed(column) for column in written]
    selected = select(source, [*columns, *kept])
    if len(written) < len(plan.columns):
        selected = with_generated_columns(selected, plan, table=table)
    return with_row_checks(selected, plan, table=table) if plan.checks_rows else selected


def _selected(column: ColumnPlan, types: Sequence[DataType], plan: WritePlan, table: str) -> SelectedColumn | None:
    """A column of the data whose values are stored as they are, or cast; None for one that takes more than that."""
    target, index = column.target, column.source_index
    if index is None or not plan.stores_as_is(column) or "\0" in target.name:
        return None
    if isinstance(column.conversion, Keep):
        return SelectedColumn(position=index, name=target.name)
    if not isinstance(column.conversion, Cast) or plan.casting is Casting.LEGACY:
        return None
    failure = _failure(column.conversion, types[index], (target.name,), table)
    return SelectedColumn(position=index, name=target.name, to=column.conversion.to, failure=failure)


def converted(value: Column, plan: ColumnPlan, source: DataType, *, casting: Casting, table: str) -> Column:
    """One value of type `source` as a value of the column; the job fails where it does not fit."""
    return _converted(value, plan.conversion, source, casting, (plan.target.name,), table)


def _value(
    plan: ColumnPlan,
    names: list[str],
    types: list[DataType],
    casting: Casting,
    table: str,
    *,
    is_new: Column | None,
    first: int | None,
) -> Column:
    if plan.source_index is None:
        return _missing_value(plan, table, first)
    column = F.col(quote(names[plan.source_index]))
    source_type = types[plan.source_index]
    value = _converted(column, plan.conversion, source_type, casting, (plan.target.name,), table)
    if plan.fill is not Fill.IDENTITY:
        return value
    missing = value.isNull() if is_new is None else value.isNull() & is_new
    return F.when(missing, _missing_value(plan, table, first)).otherwise(value)


def _missing_value(plan: ColumnPlan, table: str, first: int | None) -> Column:
    """The value of a column that the data lacks: its default, an identity number from `first` on, or NULL."""
    if plan.fill is Fill.DEFAULT:
        return default_value(plan, table=table)
    identity = identity_of(plan.target, table) if plan.fill is Fill.IDENTITY else None
    if identity is not None:
        return identity_value(identity, first=first, table=table, column=quoted([plan.target.name]))
    return F.lit(None).cast(plan.target.dataType)


def _converted(
    column: Column, conversion: Conversion, source: DataType | None, casting: Casting, path: FieldPath, table: str
) -> Column:
    if isinstance(conversion, Keep):
        return column
    if isinstance(conversion, Cast):
        return _cast(column, conversion, source, casting, path, table)
    if isinstance(conversion, RebuildStruct):
        return _rebuilt_struct(column, conversion.fields, source, casting, path, table)
    if isinstance(conversion, RebuildArray):
        element = source.elementType if isinstance(source, ArrayType) else None
        inner = conversion.element
        return F.transform(column, lambda item: _converted(item, inner, element, casting, (*path, ELEMENT), table))
    assert isinstance(conversion, RebuildMap)
    return _rebuilt_map(column, conversion, source, casting, path, table)


def _cast(
    column: Column, conversion: Cast, source: DataType | None, casting: Casting, path: FieldPath, table: str
) -> Column:
    to, failure = conversion.to, _failure(conversion, source, path, table)
    if not failure:
        return cast(column, to)
    # Both casts ignore spark.sql.ansi.enabled, which is about queries and not about writes.
    return legacy_cast(column, to) if casting is Casting.LEGACY else checked_cast(column, to, failure)


def _failure(conversion: Cast, source: DataType | None, path: FieldPath, table: str) -> str:
    """The text with which the job fails where a value does not fit; empty if every value does."""
    if not conversion.may_fail:
        return ""
    facts = {"table": table, "column": quoted(path), "column_type": conversion.to.simpleString()}
    return failure_text(MalformedValueError if isinstance(source, StringType) else CastOverflowError, facts)


def _rebuilt_struct(
    column: Column,
    fields: tuple[FieldSource, ...],
    source: DataType | None,
    casting: Casting,
    path: FieldPath,
    table: str,
) -> Column:
    values = []
    for field in fields:
        if field.source_index is None or not isinstance(source, StructType):
            value = F.lit(None).cast(field.target.dataType)
        else:
            source_field = source.fields[field.source_index]
            inner = column.getField(source_field.name)
            value = _converted(
                inner, field.conversion, source_field.dataType, casting, (*path, field.target.name), table
            )
        values.append(value.alias(field.target.name))
    return F.when(column.isNotNull(), F.struct(*values))


def _rebuilt_map(
    column: Column, conversion: RebuildMap, source: DataType | None, casting: Casting, path: FieldPath, table: str
) -> Column:
    key = source.keyType if isinstance(source, MapType) else None
    value = source.valueType if isinstance(source, MapType) else None

    def entry(pair: Column) -> Column:
        return F.struct(
            _converted(pair.getField("key"), conversion.key, key, casting, (*path, "key"), table).alias("key"),
            _converted(pair.getField("value"), conversion.value, value, casting, (*path, "value"), table).alias(
                "value"
            ),
        )

    return F.map_from_entries(F.transform(F.map_entries(column), entry))
