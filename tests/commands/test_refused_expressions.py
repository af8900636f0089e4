"""What is refused where it is defined, by Delta's conditions. Bug B42."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from anabranch.commands.definition.rule_checks import check_reads_no_clock, constraint_refused, generation_refused
from anabranch.errors.constraints import UnsupportedGenerationError, UntrustedExpressionError
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql

SCHEMA = StructType([StructField("a", LongType()), StructField("t", TimestampType())])
UNSUPPORTED, RANDOM, AGGREGATE = (
    "DELTA_UNSUPPORTED_EXPRESSION_{}",
    "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_{}",
    "DELTA_AGGREGATE_IN_{}",
)
REFUSED = {
    "rand() > 0": RANDOM,
    "uuid() = 'x'": RANDOM,
    "sum(a) > 0": AGGREGATE,
    "COUNT(a) > 0": AGGREGATE,
    "sum(a) OVER (ORDER BY a) > 0": UNSUPPORTED,
    "row_number() OVER (ORDER BY a) > 0": UNSUPPORTED,
    "explode(array(a)) > 0": UNSUPPORTED,
    "current_user() = 'x'": UNSUPPORTED,
    "reflect('java.lang.System', 'exit') = 'x'": UNSUPPORTED,
    "a > (SELECT 1)": UNSUPPORTED,
}


def read(text: str) -> StoredExpression:
    return read_stored_sql(text, SCHEMA, table="t", owner="column d")


@pytest.mark.parametrize("expression", REFUSED)
def test_constraints_and_generated_columns_are_of_one_row(expression: str) -> None:
    with pytest.raises(UntrustedExpressionError) as refused, constraint_refused():
        read(expression)
    assert refused.value.condition == REFUSED[expression].format("CHECK_CONSTRAINT")
    with pytest.raises(UntrustedExpressionError) as refused, generation_refused():
        read(expression)
    assert refused.value.condition == REFUSED[expression].format("GENERATED_COLUMN")
    assert (refused.value.sqlstate, refused.value.expression) == ("42621", expression)


@pytest.mark.parametrize(
    "expression",
    ["current_date()", "date_add(CURRENT_DATE, 1)", "curdate()", "localtimestamp", "unix_timestamp()"],
)
def test_no_column_is_generated_by_the_clock(expression: str) -> None:
    with pytest.raises(UnsupportedGenerationError, match="clock"):
        check_reads_no_clock(read(expression))


@pytest.mark.parametrize("expression", ["a + 1", "unix_timestamp(t)", "now()", "concat('current_date', a)"])
def test_other_columns_are(expression: str) -> None:
    """`now()` is among what Delta takes."""
    check_reads_no_clock(read(expression))
