"""Bug B42: what a table may not compute, require or be called, refused where it is defined, by Delta's conditions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, StringType, StructField, StructType

from anabranch.commands.create.create_table import CreationMode, create_table
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import table_at
from anabranch.errors.constraints import DefaultTypeError, UntrustedExpressionError
from anabranch.schema.computed_columns import default_column, generated_column
from anabranch.spark.session.delta_session import DeltaSession

pytestmark = pytest.mark.spark

GENERATED = "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"
RANDOM = "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"
GENERATED_COLUMNS = {
    ("date", "current_date()"): GENERATED,
    ("date", "date_add(current_date, 1)"): GENERATED,
    ("timestamp", "current_timestamp()"): GENERATED,
    ("bigint", "unix_timestamp()"): GENERATED,
    ("string", "current_user()"): GENERATED,
    ("double", "rand()"): RANDOM,
    ("string", "uuid()"): RANDOM,
    ("bigint", "sum(a)"): "DELTA_AGGREGATE_IN_GENERATED_COLUMN",
    ("bigint", "sum(a) OVER (ORDER BY a)"): GENERATED,
    ("int", "row_number() OVER (ORDER BY a)"): GENERATED,
    ("bigint", "explode(array(a))"): GENERATED,
}
DEFAULTS = [("bigint", "false"), ("boolean", "1"), ("date", "true")]
CONSTRAINTS = {
    "rand() > 0": "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_CHECK_CONSTRAINT",
    "sum(a) > 0": "DELTA_AGGREGATE_IN_CHECK_CONSTRAINT",
    "row_number() OVER (ORDER BY a) > 0": "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
    "explode(array(a)) > 0": "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT",
    "current_user() = 'x'": "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
}


def create(native: SparkSession, path: str, fields: Sequence[StructField]) -> None:
    """Below Spark's own check of CREATE TABLE, as the builder and other front ends reach it."""
    definition = TableDefinition(
        schema=StructType(list(fields)), properties={"delta.feature.allowColumnDefaults": "supported"}
    )
    create_table(table_at(DeltaSession.of(native), path), definition, CreationMode.CREATE)


@pytest.fixture
def name(native: SparkSession) -> Iterator[str]:
    made = f"ruled_{uuid.uuid4().hex[:8]}"
    yield made
    native.sql(f"DROP TABLE IF EXISTS {made}")


def refusal(native: SparkSession, statement: str) -> str:
    with pytest.raises(AnalysisException) as refused:
        native.sql(statement)
    return str(refused.value.getCondition())


def parsed_fields(ddl: str) -> list[StructField]:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema.fields


def test_columns_are_not_computed_by_expressions_that_cannot_be_checked(native: SparkSession, path: str) -> None:
    refusals = {}
    for kind, expression in GENERATED_COLUMNS:
        fields = parsed_fields(f"a bigint, d {kind}")
        with pytest.raises(UntrustedExpressionError) as refused:
            create(native, path, [fields[0], generated_column(fields[1], expression)])
        refusals[kind, expression] = refused.value.condition
        assert refused.value.sqlstate == "42621"
    assert refusals == GENERATED_COLUMNS
    create(
        native, path, [*StructType.fromDDL("a bigint"), generated_column(StructField("d", DateType()), "to_date('x')")]
    )


def test_defaults_are_of_their_column_s_type(native: SparkSession, path: str) -> None:
    """The condition is Spark's own."""
    for kind, expression in DEFAULTS:
        (field,) = parsed_fields(f"d {kind}")
        with pytest.raises(DefaultTypeError) as refused:
            create(native, path, [default_column(field, expression)])
        assert refused.value.condition == "INVALID_DEFAULT_VALUE.DATA_TYPE"
    create(native, path, [default_column(StructField("s", StringType()), "false")])


def test_constraints_are_on_the_row_alone(native: SparkSession, name: str) -> None:
    """The clock is allowed here, as in Delta: a row is checked once, when it is written."""
    native.sql(f"CREATE TABLE {name} (a BIGINT, t TIMESTAMP) USING delta")
    refusals = {rule: refusal(native, f"ALTER TABLE {name} ADD CONSTRAINT c CHECK ({rule})") for rule in CONSTRAINTS}
    expected = dict(CONSTRAINTS)
    if pyspark.__version__ < "4.1":
        # Its parser does not know the statement, and Spark looks for these later than we do.
        for rule in ("row_number() OVER (ORDER BY a) > 0", "explode(array(a)) > 0"):
            expected[rule] = "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"
    elif pyspark.__version__ < "4.2":
        # This condition had no name of its own yet.
        expected["row_number() OVER (ORDER BY a) > 0"] = "_LEGACY_ERROR_TEMP_1034"
    assert refusals == expected
    native.sql(f"ALTER TABLE {name} ADD CONSTRAINT c CHECK (t <= current_timestamp())")
