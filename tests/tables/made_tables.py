"""Tables that tests of statements begin with."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.table_access import TableRef
from anabranch.tables import DeltaTable
from session_kinds import table_ref


def make_table(
    delta: SparkSession, path: str, frame: DataFrame, *, by: tuple[str, ...] = (), **properties: str
) -> DeltaTable:
    """A table of these rows, in as many files as the frame has partitions. Properties come without `delta.`."""
    writer = frame.write.format("delta").partitionBy(*by)
    for name, value in properties.items():
        writer = writer.option("delta." + name, value)
    writer.save(path)
    return DeltaTable.forPath(delta, path)


def numbered_table(
    delta: SparkSession, path: str, *, rows: int = 20, by: tuple[str, ...] = (), **properties: str
) -> TableRef:
    """Rows `id`, `n = id`, `part = id % 2`, all of one partition in one file."""
    frame = delta.range(0, rows, 1, 1).select("id", F.col("id").alias("n"), (F.col("id") % 2).alias("part"))
    make_table(delta, path, frame, by=by, **properties)
    return table_ref(delta, path)
