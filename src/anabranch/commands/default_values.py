"""The keyword DEFAULT."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField

from anabranch.commands.table_access import TableHandle
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.schema.conversions import Keep
from anabranch.schema.enforcement import ColumnPlan, Fill, fill_of
from anabranch.schema.paths import FieldPath, child
from anabranch.spark.row_rules import default_value


def default_of(field: StructField, *, table: str) -> Column | None:
    """What DEFAULT stands for in that column: its default, or NULL; None for values that the table makes itself.

    Raises `UntrustedExpressionError`.
    """
    fill, expression = fill_of(field)
    if fill is Fill.NULL:
        return F.lit(None).cast(field.dataType)
    if fill is not Fill.DEFAULT:
        return None
    plan = ColumnPlan(target=field, source=None, source_index=None, conversion=Keep(), fill=fill, expression=expression)
    return default_value(plan, table=table)


def given_default(handle: TableHandle, path: FieldPath) -> Column:
    """The value of DEFAULT where a value must stand, as beside rows that have one; NULL within a struct.

    Raises `UnsupportedOperationError` for a column whose values the table makes, `UntrustedExpressionError`.
    """
    field = child(handle.latest().schema, path[0])
    if field is None or len(path) > 1:
        return F.lit(None)
    value = default_of(field, table=handle.label)
    if value is None:
        raise UnsupportedOperationError(
            operation=f"The keyword DEFAULT for the {fill_of(field)[0].value} column {field.name} of {handle.label}",
            instead="Leave the column out, or write these rows by a statement of their own.",
        )
    return value
