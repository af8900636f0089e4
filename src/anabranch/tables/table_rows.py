"""The rows of a `DeltaTable` as a DataFrame."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.read.read_table import read
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.base import DeltaError
from anabranch.spark.extension.install import is_installed
from anabranch.spark.extension.row_change_plans import RowChangePlans, once_more

_FRAMES_COLUMN = ("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN")
"""How Spark's conditions begin of a Column that belongs to a DataFrame, where the rows are another's."""


@contextlib.contextmanager
def columns_by_name() -> Iterator[None]:
    """For statements that look columns up by name alone. Raises `InvalidArgumentError` for a Column of a DataFrame."""
    try:
        yield
    except AnalysisException as error:
        if isinstance(error, DeltaError) or not (error.getCondition() or "").startswith(_FRAMES_COLUMN):
            raise
        problem = (
            "it is a Column of a DataFrame, as df['id']; write F.col('id'), or call anabranch.enable(spark) first, "
            "which makes Spark itself know whose column that is"
        )
        raise InvalidArgumentError(
            argument="a condition or value", value=str(error).split(";")[0], problem=problem
        ) from error


class TableRows:
    """The newest rows of a table.

    Where Spark itself knows Delta, it is one frame for as long as the table has the same columns, so that Columns
    taken from it can be used in conditions and values; it follows its table.
    """

    def __init__(self, spark: SparkSession, handle: TableRef) -> None:
        self._spark = spark
        self._handle = handle
        self._frame: DataFrame | None = None
        self._schema_string = ""

    def frame(self, alias: str | None) -> DataFrame:
        """The rows, under a name if there is one."""
        # A frame that has run once gives the rows of then; another over the same columns follows the table.
        frame = once_more(self._following()) if is_installed(self._spark) else read(self._handle)
        return frame if alias is None else frame.alias(alias)

    def plans(self, conflict_retries: int | None) -> RowChangePlans | None:
        """What makes plans of statements; None where Spark does not know Delta."""
        return RowChangePlans(self._spark, conflict_retries=conflict_retries) if is_installed(self._spark) else None

    def _following(self) -> DataFrame:
        schema_string = self._handle.latest().metadata.schema_string
        if self._frame is None or schema_string != self._schema_string:
            self._frame = rows_by_spark(self._spark, self._handle)
            self._schema_string = schema_string
        return self._frame


def rows_by_spark(spark: SparkSession, handle: TableRef) -> DataFrame:
    """The newest rows, as Spark finds the table where it knows Delta itself."""
    if handle.entry is None:
        return spark.read.format("delta").options(**dict(handle.storage)).load(handle.path)
    return spark.table(handle.entry.full_name.quoted)
