"""The values of a written row as readers get them, those that the table computes, and the rules that it checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention  # noqa: N812 - PySpark's own convention
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

from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    ExpressionTypeError,
    GeneratedColumnMismatchError,
    LengthLimitError,
    NotNullViolationError,
)
from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql
from anabranch.schema.enforcement import ColumnPlan, Fill, WritePlan, fill_of
from anabranch.schema.logical_types import DECLARED_TYPE, LengthLimit, without_void
from anabranch.schema.paths import KEY, FieldPath, as_nullable, nullable_type, quote, quoted
from anabranch.schema.schema_evolution import visible_schema
from anabranch.schema.write_rules import RowRule
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


NO_COLUMNS = StructType([])
"""The columns that a default may read: none."""


def to_column(expression: StoredExpression) -> Column:
    """The expression as a column, for a frame with the table's columns. Raises `ExpressionTypeError` for text Spark
    cannot parse.
    """
    try:
        return F.expr(expression.sql)
    except ParseException as error:
        raise _unusable(expression, _first_line(error)) from error


def stored_column(text: str, schema: StructType, *, table: str, owner: str) -> Column:
    """The column for SQL in the metadata. Raises `UntrustedExpressionError`, `ExpressionTypeError`."""
    return to_column(read_stored_sql(text, schema, table=table, owner=owner))


def result_type(spark: SparkSession, expression: StoredExpression, schema: StructType) -> DataType:
    """The type of the expression's values. Raises `ExpressionTypeError` where Spark cannot resolve it."""
    try:
        return _no_rows(spark, schema).select(to_column(expression).alias("value")).schema["value"].dataType
    except ExpressionTypeError:
        raise
    except (AnalysisException, ParseException) as error:
        raise _unusable(expression, _first_line(error)) from error


def check_is_condition(
    spark: SparkSession, text: str, schema: StructType, *, table: str, owner: str
) -> StoredExpression:
    """The expression, if it is true or false for rows of this schema.

    Raises `UntrustedExpressionError` and `ExpressionTypeError`.
    """
    expression = read_stored_sql(text, schema, table=table, owner=owner)
    kind = result_type(spark, expression, schema)
    if not isinstance(kind, BooleanType):
        problem = f"its values are {kind.simpleString()}, and a constraint must be true or false"
        raise _unusable(expression, problem)
    return expression


def check_has_type(
    spark: SparkSession, text: str, schema: StructType, wanted: DataType, *, table: str, owner: str
) -> StoredExpression:
    """The expression, if its values are of type `wanted`. Raises `UntrustedExpressionError`, `ExpressionTypeError`."""
    expression = read_stored_sql(text, schema, table=table, owner=owner)
    kind = result_type(spark, expression, schema)
    if nullable_type(kind) != nullable_type(wanted):
        problem = f"its values are {kind.simpleString()}, and the column is {wanted.simpleString()}; cast them"
        raise _unusable(expression, problem)
    return expression


def _no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    plain = as_nullable(visible_schema(without_void(schema)))
    # A frame needs a column, even if the expression must not read any.
    return spark.createDataFrame([], plain) if plain.fields else spark.range(0).select(F.lit(1).alias("one"))


def _unusable(expression: StoredExpression, problem: str) -> ExpressionTypeError:
    return ExpressionTypeError(
        table=expression.table, owner=expression.owner, expression=expression.text, problem=problem
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")


EXPRESSION_SHOWN_MAX = 500


def default_value(plan: ColumnPlan, *, table: str) -> Column:
    """The default of a column that the data lacks."""
    assert plan.expression is not None
    owner = default_owner(plan.target.name)
    # A default reads no column: it is the same for all rows.
    return stored_column(plan.expression, NO_COLUMNS, table=table, owner=owner).cast(plan.target.dataType)


def default_owner(name: str) -> str:
    """The name of a column's default in messages."""
    return f"default of column {quoted([name])}"


def generation_owner(name: str) -> str:
    """The name of a generated column's expression in messages."""
    return f"generated column {quoted([name])}"


def with_generated_columns(rows: DataFrame, plan: WritePlan, *, table: str) -> DataFrame:
    """`rows` with the columns that are computed from others: then all columns of the table are there, in order.

    Other columns of `rows` stay last.
    """
    base = _base_columns(plan)
    row = functools.cache(lambda: row_as_json(base.names, [field.dataType for field in base.fields]))
    columns = []
    for column in plan.columns:
        value = F.col(quote(column.target.name))
        if column.fill is Fill.GENERATED:
            assert column.expression is not None
            owner = generation_owner(column.target.name)
            value = stored_column(column.expression, base, table=table, owner=owner).cast(column.target.dataType)
            value = stored_value(value, column.target, plan, row=row, table=table)
        columns.append(named_as(column.target, value))
    own = {column.target.name for column in plan.columns}
    return rows.select(*columns, *(F.col(quote(name)) for name in rows.columns if name not in own))


def with_row_checks(rows: DataFrame, plan: WritePlan, *, table: str) -> DataFrame:
    """`rows`, which has all columns of the table: a row that breaks a rule fails the job that reads it.

    For a row that breaks several, the error is first about a missing value, then about a wrong one.
    """
    values = {name: F.col(quote(name)) for name in rows.columns}
    # The check that wraps a value last runs first, and columns are computed from left to right.
    last = plan.columns[-1].target.name
    for rule in reversed(plan.row_rules):
        values[last] = _satisfying(values[last], rule, plan, table)
    for column in plan.columns:
        if column.expression is not None and column.source_index is not None:
            values[column.target.name] = _as_generated(values[column.target.name], column, plan, table)
    for path in reversed(plan.not_null_paths):
        if path[0] in values:
            values[path[0]] = _not_null(values[path[0]], path, plan, table)
    return rows.select(*(value.alias(name) for name, value in values.items()))


def _columns_to_show(path: FieldPath, plan: WritePlan) -> list[ColumnPath]:
    """The column at fault and others, by whose values a person finds the row; not all, for there may be thousands."""
    simple = [column.target for column in plan.columns if isinstance(column.target.dataType, SHOWN_TYPES)]
    return [path, *((field.name,) for field in simple[:COLUMNS_SHOWN_MAX])]


def _not_null(value: Column, path: FieldPath, plan: WritePlan, table: str) -> Column:
    violated = _is_null(F.col(quote(path[0])), plan.schema[path[0]].dataType, path[1:])
    facts = {"table": table, "column": quoted(path)}
    sample = _sample(_columns_to_show(path, plan), plan)
    return refuse_when(violated, value, NotNullViolationError, facts, shown={"row": sample})


def _is_null(value: Column, kind: DataType, path: FieldPath) -> Column:
    """Whether the field at `path` below a value is NULL, in any element of arrays and maps on the path."""
    if not path:
        return value.isNull()
    step, rest = path[0], path[1:]
    if isinstance(kind, StructType):
        return _is_null(value.getField(step), kind[step].dataType, rest)
    if isinstance(kind, ArrayType):
        values, below = value, kind.elementType
    else:
        assert isinstance(kind, MapType)
        values, below = (F.map_keys(value), kind.keyType) if step == KEY else (F.map_values(value), kind.valueType)
    if not rest:
        return F.exists(values, lambda element: element.isNull())
    # An element may be NULL; its fields are then no violation.
    return F.exists(values, lambda element: element.isNotNull() & _is_null(element, below, rest))


def _as_generated(value: Column, column: ColumnPlan, plan: WritePlan, table: str) -> Column:
    """The data's value for a generated column; the job fails unless it is the one that the column computes."""
    assert column.expression is not None
    name = column.target.name
    owner = generation_owner(name)
    expression = read_stored_sql(column.expression, _base_columns(plan), table=table, owner=owner)
    facts = {"table": table, "column": quoted([name]), "expression": _shown(expression.text)}
    sample = _sample(((name,), *expression.columns), plan)
    computed = to_column(expression).cast(column.target.dataType)
    same = F.col(quote(name)).eqNullSafe(stored_value(computed, column.target, plan, row=sample, table=table))
    return refuse_when(~same, value, GeneratedColumnMismatchError, facts, shown={"row": sample})


def _satisfying(value: Column, rule: RowRule, plan: WritePlan, table: str) -> Column:
    expression = read_stored_sql(rule.expression, without_void(plan.schema), table=table, owner=rule.owner)
    violated = ~F.coalesce(to_column(expression), F.lit(False))
    facts = {
        "table": table,
        "constraint": rule.owner,
        "expression": _shown(expression.text),
        "columns": [quoted(path) for path in expression.columns],
    }
    sample = _sample(expression.columns, plan)
    return refuse_when(violated, value, CheckConstraintViolationError, facts, shown={"row": sample})


def _base_columns(plan: WritePlan) -> StructType:
    """The columns from which others may be computed: those that are not computed themselves."""
    stored = without_void(plan.schema)
    return StructType([field for field in stored.fields if fill_of(field)[0] is not Fill.GENERATED])


def _sample(columns: Sequence[ColumnPath], plan: WritePlan) -> Column:
    """The values of these columns, or of all where there are none, as JSON."""
    names = list(dict.fromkeys(path[0] for path in columns)) or [column.target.name for column in plan.columns]
    return F.to_json(F.struct(*(F.col(quote(name)) for name in names)), {"ignoreNullFields": "false"})


def _shown(expression: str) -> str:
    return expression if len(expression) <= EXPRESSION_SHOWN_MAX else expression[:EXPRESSION_SHOWN_MAX] + " …"
