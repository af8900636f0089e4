"""Numbers for the rows of a frame, unique and close to each other, made without a shuffle.

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
"""Of `monotonically_increasing_id`: the rest are the partition's."""


def numbered(frame: DataFrame) -> DataFrame:
    """The rows of `frame` with one more column, `NUMBER_COLUMN`: from 0 on, each once, with few gaps."""
    fixed, partitions = _with_known_partitions(frame)
    unique = F.monotonically_increasing_id()
    row, partition = unique.bitwiseAND((1 << _ROW_BITS) - 1), F.shiftright(unique, _ROW_BITS)
    return fixed.select("*", (row * F.lit(partitions).cast("bigint") + partition).alias(NUMBER_COLUMN))


def identity_value(identity: IdentityNumbering, *, table: str, column: str) -> Column:
    """The value of an identity column for the row, out of `NUMBER_COLUMN`."""
    facts = {"table": table, "column": column}
    first = identity.next_value
    if not LONG_MIN <= first <= LONG_MAX:
        return refuse_when(F.lit(True), F.lit(None).cast("bigint"), IdentityOverflowError, facts)
    number = F.col(NUMBER_COLUMN)
    # The settings of the session decide whether plain arithmetic wraps around; these give NULL.
    value = F.try_add(F.try_multiply(number, F.lit(identity.step).cast("bigint")), F.lit(first).cast("bigint"))
    return refuse_when(value.isNull(), value, IdentityOverflowError, facts)


def _with_known_partitions(frame: DataFrame) -> tuple[DataFrame, int]:
    """The same rows, in partitions that no longer change, and how many these are."""
    # Shuffles that the frame begins with run now, once; their outputs wait for the job that reads them.
    rows = frame._jdf.queryExecution().toRdd()
    session = frame.sparkSession
    fixed = session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return DataFrame(fixed, session), max(1, rows.getNumPartitions())
