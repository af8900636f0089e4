"""The rows of a `DeltaTable` as a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.table_access import TableRef
from anabranch.spark.extension.row_change_plans import RowChangePlans, once_more


class TableRows:
    """The newest rows of a table.

    They are one frame for as long as the table has the same columns, so that Columns taken from it can be used in
    conditions and values; it follows its table.
    """

    def __init__(self, spark: SparkSession, handle: TableRef) -> None:
        self._spark = spark
        self._handle = handle
        self._frame: DataFrame | None = None
        self._schema_string = ""

    def frame(self, alias: str | None) -> DataFrame:
        """The rows, under a name if there is one."""
        schema_string = self._handle.latest().metadata.schema_string
        if self._frame is None or schema_string != self._schema_string:
            self._frame = rows_by_spark(self._spark, self._handle)
            self._schema_string = schema_string
        # A frame that has run once gives the rows of then; another over the same columns follows the table.
        frame = once_more(self._frame)
        return frame if alias is None else frame.alias(alias)

    def plans(self, conflict_retries: int | None) -> RowChangePlans:
        """Makes plans of statements."""
        return RowChangePlans(self._spark, conflict_retries=conflict_retries)


def rows_by_spark(spark: SparkSession, handle: TableRef) -> DataFrame:
    """The newest rows, as Spark finds the table."""
    if handle.entry is None:
        return spark.read.format("delta").options(**dict(handle.storage)).load(handle.path)
    return spark.table(handle.entry.full_name.quoted)
