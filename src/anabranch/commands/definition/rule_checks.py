"""Checks of new rules: constraints, defaults, generated and identity columns, before a table gets them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType, VariantType

from anabranch.errors.constraints import (
    AggregateInConstraintError,
    AggregateInGenerationError,
    ConstraintNameError,
    DefaultTypeError,
    ExpressionTypeError,
    NonDeterministicConstraintError,
    NonDeterministicGenerationError,
    UnsupportedConstraintError,
    UnsupportedGenerationError,
    UntrustedExpressionError,
)
from anabranch.errors.schema import IdentityPartitioningError
from anabranch.errors.tables import DefaultsNotEnabledError, InvalidIdentityColumnError
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import supported
from anabranch.schema.casts import Casting
from anabranch.schema.computed_columns import identity_of
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.paths import quoted
from anabranch.schema.write_rules import check_owner
from anabranch.spark.write.row_rules import (
    NO_COLUMNS,
    check_has_type,
    check_is_condition,
    default_owner,
    generation_owner,
    result_type,
)

# Functions that rules may not call. A user who defines such a rule gets the error with Delta's condition; in an
# existing table the same expression raises `UntrustedExpressionError`.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NON_DETERMINISTIC: Final = _words(
    """
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand randn
    random randstr shuffle spark_partition_id uniform uuid
    """
)
_AGGREGATES: Final = _words(
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and
    bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first
    first_value grouping grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean
    median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev
    stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
    """
)
_WINDOW: Final = re.compile(r"\bover\s*\(", re.IGNORECASE)
_CLOCKS: Final = frozenset({"curdate", "current_date", "current_timestamp", "localtimestamp"})
"""`now` is not among them: Delta allows it in generated columns."""
_NOW_IN_SECONDS: Final = re.compile(r"\bunix_timestamp \( \)")


@contextlib.contextmanager
def generation_refused() -> Iterator[None]:
    """Replaces an `UntrustedExpressionError` by the error of a generated column."""
    try:
        yield
    except UntrustedExpressionError as error:
        kinds = (NonDeterministicGenerationError, AggregateInGenerationError, UnsupportedGenerationError)
        raise _as(error, *kinds) from None


@contextlib.contextmanager
def constraint_refused() -> Iterator[None]:
    """Replaces an `UntrustedExpressionError` by the error of a CHECK constraint."""
    try:
        yield
    except UntrustedExpressionError as error:
        kinds = (NonDeterministicConstraintError, AggregateInConstraintError, UnsupportedConstraintError)
        raise _as(error, *kinds) from None


def check_reads_no_clock(read: StoredExpression) -> None:
    """Raises `UnsupportedGenerationError` for an expression whose value depends on the current time."""
    called = read.functions & _CLOCKS
    if _NOW_IN_SECONDS.search(read.sql):
        called |= {"unix_timestamp"}
    if called:
        name = min(called)
        raise UnsupportedGenerationError(
            table=read.table,
            owner=read.owner,
            expression=read.text,
            reason=f"{name} reads the clock, so its values could not be checked later",
            function=name,
        )


def _as(
    error: UntrustedExpressionError,
    non_deterministic: type[UntrustedExpressionError],
    aggregate: type[UntrustedExpressionError],
    unsupported: type[UntrustedExpressionError],
) -> UntrustedExpressionError:
    kind = unsupported
    if not _WINDOW.search(error.expression):
        kind = aggregate if error.function in _AGGREGATES else kind
        kind = non_deterministic if error.function in _NON_DETERMINISTIC else kind
    return kind(
        table=error.table,
        owner=error.owner,
        expression=error.expression,
        reason=error.reason,
        function=error.function,
    )


_RESERVED = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"
"""Delta's name for its checks of `char(n)` and `varchar(n)`."""


def check_rules(
    spark: SparkSession,
    schema: StructType,
    constraints: Mapping[str, str],
    protocol: Protocol,
    *,
    partition_columns: Sequence[str] = (),
    table: str,
) -> None:
    """Raises a typed error for the first rule that the table cannot have."""
    for field in schema.fields:
        check_column_rule(spark, field, schema, protocol, table=table)
        if field.name in partition_columns and identity_of(field, table) is not None:
            reason = f"{field.name} is an identity column"
            raise IdentityPartitioningError(table=table, columns=tuple(partition_columns), reason=reason)
    for name, expression in constraints.items():
        check_constraint(spark, name, expression, schema, table=table)


def check_constraint(
    spark: SparkSession, name: str, expression: str, schema: StructType, *, table: str
) -> StoredExpression:
    """The CHECK constraint, if a table of this schema may have it. Raises a typed error."""
    if name == _RESERVED:
        raise ConstraintNameError(table=table, name=name)
    with constraint_refused():
        return check_is_condition(spark, expression, schema, table=table, owner=check_owner(name))


def check_column_rule(
    spark: SparkSession, field: StructField, schema: StructType, protocol: Protocol, *, table: str
) -> None:
    """Raises a typed error where the default, identity or generation expression of `field` does not fit it."""
    fill, expression = fill_of(field)
    if fill is Fill.IDENTITY and not isinstance(field.dataType, LongType):
        raise InvalidIdentityColumnError(column=field.name, column_type=field.dataType.simpleString())
    if expression is None:
        return
    if fill is Fill.GENERATED:
        _check_generated(spark, field, expression, schema, table)
    else:
        check_default(spark, field, expression, protocol, table=table)


def check_default(
    spark: SparkSession, field: StructField, expression: str, protocol: Protocol, *, table: str
) -> StoredExpression:
    """The default, if `field` can have it. Raises a typed error."""
    if not supported(protocol, "allowColumnDefaults"):
        raise DefaultsNotEnabledError(table=table, column=field.name)
    owner = default_owner(field.name)
    read = read_stored_sql(expression, NO_COLUMNS, table=table, owner=owner)
    default_type = result_type(spark, read, NO_COLUMNS)
    if default_type != field.dataType and not _may_be_default(default_type, field.dataType):
        problem = f"it is {default_type.simpleString()}, which does not become {field.dataType.simpleString()}"
        raise DefaultTypeError(table=table, owner=owner, expression=expression, problem=problem)
    if isinstance(field.dataType, VariantType) and expression.strip().upper() != "NULL":
        problem = "the only default that a variant can have is NULL"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
    return read


def _may_be_default(default_type: DataType, wanted: DataType) -> bool:
    """Whether Spark casts a default of one type to the other. It casts no BOOLEAN, though writes may."""
    if isinstance(default_type, BooleanType) or isinstance(wanted, BooleanType):
        return Casting.STRICT.allows(default_type, wanted)
    return Casting.ANSI.allows(default_type, wanted)


def _check_generated(spark: SparkSession, field: StructField, expression: str, schema: StructType, table: str) -> None:
    owner = generation_owner(field.name)
    if isinstance(field.dataType, VariantType):
        problem = "variants cannot be compared, so they could not be checked"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
    others = StructType([other for other in schema.fields if fill_of(other)[0] is not Fill.GENERATED])
    with generation_refused():
        read = check_has_type(spark, expression, others, field.dataType, table=table, owner=owner)
    check_reads_no_clock(read)
    numbered = [path for path in read.columns if identity_of(schema[path[0]], table) is not None]
    if numbered:
        problem = f"{quoted(numbered[0])} is an identity column"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
