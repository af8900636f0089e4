"""Optimized writes: a shuffle brings rows together before they are written, so that one write makes few, larger files.

By Spark's own adaptive shuffle: rows of one partition of the table come together, and tasks are joined or split until
each has about as much as a file is to hold. As Spark does elsewhere, it keeps as many tasks as there are cores, as long
as each has a mebibyte, unless `spark.sql.adaptive.coalescePartitions.parallelismFirst` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.errors.arguments import InvalidOptionError
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.property_table import parse_bytes
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import parse_flag

ENABLED = "spark.databricks.delta.optimizeWrite.enabled"
BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"
_BIN_SIZE_DEFAULT = "512"
"""In mebibytes, as Delta has it."""
_ADAPTIVE = "spark.sql.adaptive.enabled"


def optimized(
    session: DeltaSession,
    rows: DataFrame,
    *,
    properties: TableProperties,
    partition_columns: Sequence[str],
    option: bool | None = None,
) -> DataFrame:
    """The rows, brought together where the option, or else the session, or else the table asks for it.

    They stay as they are where Spark's adaptive execution is off: its shuffle would make more files, not fewer. Raises
    `InvalidOptionError`.
    """
    wanted = option
    if wanted is None and (text := session.setting(ENABLED)) is not None:
        wanted = parse_flag(ENABLED, text)
    if wanted is None:
        wanted = properties.optimize_write_enabled
    if not wanted or not session.flag(_ADAPTIVE, default=True):
        return rows
    return _rebalanced(rows, partition_columns, bin_bytes(session))


def bin_bytes(session: DeltaSession) -> int:
    """How much of the shuffle goes into one file. Raises `InvalidOptionError`."""
    text = (session.setting(BIN_SIZE) or _BIN_SIZE_DEFAULT).strip()
    try:
        return parse_bytes(f"{text}m" if text.isdecimal() else text)
    except ValueError:
        problem = "it is a number of mebibytes, or a size such as 64m or 1g"
        raise InvalidOptionError(option=BIN_SIZE, value=text, problem=problem) from None


def _rebalanced(rows: DataFrame, partition_columns: Sequence[str], size_bytes: int) -> DataFrame:
    """As the hint REBALANCE does it, which has no words for the size."""
    spark = rows.sparkSession
    jvm: Any = spark._jvm
    frame: Any = rows._jdf
    plan = frame.logicalPlan()
    output = frame.queryExecution().analyzed().output()
    chosen = jvm.java.util.ArrayList()
    for name in partition_columns:
        chosen.add(output.apply(rows.columns.index(name)))
    size = jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(size_bytes))
    expressions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(chosen).toList()
    rebalance = jvm.org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions
    together = rebalance(expressions, plan, jvm.scala.Option.empty(), size)
    session: Any = spark._jsparkSession
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, together), spark)
