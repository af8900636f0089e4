"""Identity values: numbers for the rows of a frame, unique and with few gaps, made without a shuffle.

Row `r` of partition `p` of `n` gets number `r * n + p`, as Delta does. So `n` must be known before the rows are
written, and the rows must stay in their partitions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.errors.constraints import IdentityOverflowError
from anabranch.schema.computed_columns import LONG_MAX, LONG_MIN, IdentityNumbering
from anabranch.spark.write.row_checks import refuse_when

NUMBER_COLUMN = "__anabranch_row_number"
_ROW_BITS = 33
"""The bits of the row in `monotonically_increasing_id`; the others are the partition's."""


def with_row_numbers(frame: DataFrame) -> DataFrame:
    """The frame with one more column, `NUMBER_COLUMN`: different numbers from 0 on, with few gaps."""
    fixed, partitions = _with_fixed_partitions(frame)
    unique = F.monotonically_increasing_id()
    row, partition = unique.bitwiseAND((1 << _ROW_BITS) - 1), F.shiftright(unique, _ROW_BITS)
    return fixed.select("*", (row * F.lit(partitions).cast("bigint") + partition).alias(NUMBER_COLUMN))


def identity_value(identity: IdentityNumbering, *, first: int | None = None, table: str, column: str) -> Column:
    """The value of an identity column for a row, computed from `NUMBER_COLUMN`: from `first` or else its mark on."""
    facts = {"table": table, "column": column}
    first = identity.next_value if first is None else first
    if not LONG_MIN <= first <= LONG_MAX:
        return refuse_when(F.lit(True), F.lit(None).cast("bigint"), IdentityOverflowError, facts)
    number = F.col(NUMBER_COLUMN)
    # Plain arithmetic may wrap around, by a setting of the session; these functions give NULL instead.
    value = F.try_add(F.try_multiply(number, F.lit(identity.step).cast("bigint")), F.lit(first).cast("bigint"))
    return refuse_when(value.isNull(), value, IdentityOverflowError, facts)


def _with_fixed_partitions(frame: DataFrame) -> tuple[DataFrame, int]:
    """The same rows in partitions that no longer change, and the number of the partitions."""
    # Shuffles at the beginning of the plan run now, once; the job that reads the frame uses their outputs.
    rows = frame._jdf.queryExecution().toRdd()
    session = frame.sparkSession
    fixed = session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return DataFrame(fixed, session), max(1, rows.getNumPartitions())
