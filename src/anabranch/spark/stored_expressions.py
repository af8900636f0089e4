"""Expressions of a table's metadata as Spark columns, once they are known to be harmless."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

from anabranch.errors.constraints import ExpressionTypeError
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql
from anabranch.schema.comparison import as_nullable
from anabranch.schema.visibility import visible_schema
from anabranch.schema.void import without_void

NO_COLUMNS = StructType([])
"""Of a default, which names none."""


def to_column(expression: StoredExpression) -> Column:
    """For a frame whose columns are the table's. Raises `ExpressionTypeError` for text that Spark cannot read."""
    try:
        return F.expr(expression.sql)
    except ParseException as error:
        raise _unusable(expression, _first_line(error)) from error


def stored_column(text: str, schema: StructType, *, table: str, owner: str) -> Column:
    """The column that SQL of the metadata means. Raises `UntrustedExpressionError`, `ExpressionTypeError`."""
    return to_column(read_stored_sql(text, schema, table=table, owner=owner))


def result_type(spark: SparkSession, expression: StoredExpression, schema: StructType) -> DataType:
    """The type of the expression's values. Raises `ExpressionTypeError` where Spark cannot make sense of it."""
    try:
        return _no_rows(spark, schema).select(to_column(expression).alias("value")).schema["value"].dataType
    except ExpressionTypeError:
        raise
    except (AnalysisException, ParseException) as error:
        raise _unusable(expression, _first_line(error)) from error


def check_is_condition(
    spark: SparkSession, text: str, schema: StructType, *, table: str, owner: str
) -> StoredExpression:
    """The expression, if it is one of rows of this schema that is true or false.

    Raises `UntrustedExpressionError` and `ExpressionTypeError`.
    """
    expression = read_stored_sql(text, schema, table=table, owner=owner)
    found = result_type(spark, expression, schema)
    if not isinstance(found, BooleanType):
        problem = f"its values are {found.simpleString()}, and a constraint is true or false"
        raise _unusable(expression, problem)
    return expression


def check_has_type(
    spark: SparkSession, text: str, schema: StructType, wanted: DataType, *, table: str, owner: str
) -> StoredExpression:
    """The expression, if its values are of type `wanted`. Raises `UntrustedExpressionError`, `ExpressionTypeError`."""
    expression = read_stored_sql(text, schema, table=table, owner=owner)
    found = result_type(spark, expression, schema)
    if _nullable(found) != _nullable(wanted):
        problem = f"its values are {found.simpleString()}, and the column is {wanted.simpleString()}; cast them"
        raise _unusable(expression, problem)
    return expression


def _no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    plain = as_nullable(visible_schema(without_void(schema)))
    # A frame needs a column, also where an expression must not name any.
    return spark.createDataFrame([], plain) if plain.fields else spark.range(0).select(F.lit(1).alias("one"))


def _nullable(data_type: DataType) -> DataType:
    return as_nullable(StructType([StructField("", data_type)])).fields[0].dataType


def _unusable(expression: StoredExpression, problem: str) -> ExpressionTypeError:
    return ExpressionTypeError(
        table=expression.table, owner=expression.owner, expression=expression.text, problem=problem
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
