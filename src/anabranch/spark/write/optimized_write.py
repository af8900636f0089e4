"""Optimized writes: a shuffle brings rows together before they are written, so that one write makes few, larger files.

Spark's own adaptive shuffle does it: rows of one partition of the table come together, and tasks are joined or split
until each has about as much as a file is to hold. As elsewhere, Spark keeps as many tasks as there are cores, as long
as each has a mebibyte, unless `spark.sql.adaptive.coalescePartitions.parallelismFirst` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame

from anabranch.errors.arguments import InvalidOptionError
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.property_table import parse_bytes

ENABLED = "spark.databricks.delta.optimizeWrite.enabled"
BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"
_BIN_SIZE_DEFAULT = "512"
"""In mebibytes, as Delta has it."""
_ADAPTIVE = "spark.sql.adaptive.enabled"


class SessionSettings(Protocol):
    """The runtime settings of a session, as `DeltaSession` has them."""

    def setting(self, key: str, default: str | None = None) -> str | None:
        """The text of a setting, or `default` where it is not set."""

    def flag(self, key: str, *, default: bool) -> bool:
        """A setting that is true or false. Raises `InvalidOptionError` for any other word."""


def optimized(
    session: SessionSettings,
    rows: DataFrame,
    *,
    properties: TableProperties,
    partition_columns: Sequence[str],
    option: bool | None = None,
) -> DataFrame:
    """The rows, shuffled where the option says so, or else the session, or else the table.

    The rows are returned as they are where Spark's adaptive execution is off: its shuffle would make more files, not
    fewer. Raises `InvalidOptionError`.
    """
    enabled = option
    if enabled is None and session.setting(ENABLED) is not None:
        enabled = session.flag(ENABLED, default=False)
    if enabled is None:
        enabled = properties.optimize_write_enabled
    if not enabled or not session.flag(_ADAPTIVE, default=True):
        return rows
    return _rebalanced(rows, partition_columns, bin_bytes(session))


def bin_bytes(session: SessionSettings) -> int:
    """The size of the rows that go into one file, as the shuffle counts it. Raises `InvalidOptionError`."""
    text = (session.setting(BIN_SIZE) or _BIN_SIZE_DEFAULT).strip()
    try:
        return parse_bytes(f"{text}m" if text.isdecimal() else text)
    except ValueError:
        problem = "it must be a number of mebibytes, or a size such as 64m or 1g"
        raise InvalidOptionError(option=BIN_SIZE, value=text, problem=problem) from None


def _rebalanced(rows: DataFrame, partition_columns: Sequence[str], size_bytes: int) -> DataFrame:
    """The rows shuffled as by the hint REBALANCE, in which no size can be written."""
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
