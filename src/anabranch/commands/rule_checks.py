"""Rules that a table is to get, checked before they are part of it: what they say, and that Spark understands them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType, VariantType

from anabranch.commands.refused_expressions import check_asks_no_clock, constraint_refused, generation_refused
from anabranch.errors.constraints import ConstraintNameError, DefaultTypeError, ExpressionTypeError
from anabranch.errors.schema import IdentityPartitioningError
from anabranch.errors.tables import DefaultsNotEnabledError, InvalidIdentityColumnError
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import supported
from anabranch.schema.casts import Casting
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.identity import identity_of
from anabranch.schema.paths import quoted
from anabranch.schema.row_rules import check_owner
from anabranch.spark.row_rules import default_owner, generation_owner
from anabranch.spark.stored_expressions import NO_COLUMNS, check_has_type, check_is_condition, result_type

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
    """Raises a typed error for the first rule that the table could not keep to."""
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
    """Raises a typed error where the values that `field` makes for itself do not fit it."""
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
    """The default, if it may be one of `field`. Raises a typed error."""
    if not supported(protocol, "allowColumnDefaults"):
        raise DefaultsNotEnabledError(table=table, column=field.name)
    owner = default_owner(field.name)
    read = read_stored_sql(expression, NO_COLUMNS, table=table, owner=owner)
    found = result_type(spark, read, NO_COLUMNS)
    if found != field.dataType and not _may_be_default(found, field.dataType):
        problem = f"it is {found.simpleString()}, which does not become {field.dataType.simpleString()}"
        raise DefaultTypeError(table=table, owner=owner, expression=expression, problem=problem)
    if isinstance(field.dataType, VariantType) and expression.strip().upper() != "NULL":
        problem = "a variant can have no default but NULL"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
    return read


def _may_be_default(found: DataType, wanted: DataType) -> bool:
    """As Spark has it for defaults: a truth value is neither a number nor a date, though a write may make it one."""
    if isinstance(found, BooleanType) or isinstance(wanted, BooleanType):
        return Casting.STRICT.allows(found, wanted)
    return Casting.ANSI.allows(found, wanted)


def _check_generated(spark: SparkSession, field: StructField, expression: str, schema: StructType, table: str) -> None:
    owner = generation_owner(field.name)
    if isinstance(field.dataType, VariantType):
        problem = "variants cannot be compared, so nobody could check them"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
    others = StructType([other for other in schema.fields if fill_of(other)[0] is not Fill.GENERATED])
    with generation_refused():
        read = check_has_type(spark, expression, others, field.dataType, table=table, owner=owner)
    check_asks_no_clock(read)
    numbered = [path for path in read.columns if identity_of(schema[path[0]], table) is not None]
    if numbered:
        problem = f"{quoted(numbered[0])} is an identity column"
        raise ExpressionTypeError(table=table, owner=owner, expression=expression, problem=problem)
