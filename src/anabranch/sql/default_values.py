"""The keyword DEFAULT."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.table_access import TableHandle
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.paths import child
from anabranch.spark.row_rules import default_owner
from anabranch.spark.stored_expressions import stored_column


def default_of(handle: TableHandle, path: tuple[str, ...], alias: str | None = None) -> Column:
    """What DEFAULT stands for in that column: its default, or NULL where it has none.

    Raises `UnsupportedOperationError` for a column whose values the table computes.
    """
    schema = handle.latest().schema
    of_alias = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
    name, *below = path[1:] if of_alias else path
    field = child(schema, name)
    if field is None or below:
        return F.lit(None)
    fill, expression = fill_of(field)
    if fill in {Fill.GENERATED, Fill.IDENTITY}:
        raise UnsupportedOperationError(
            operation=f"The keyword DEFAULT for the {fill.value} column {field.name} of {handle.label}",
            instead="Leave the column out.",
        )
    if expression is None:
        return F.lit(None).cast(field.dataType)
    owner = default_owner(field.name)
    return stored_column(expression, StructType([]), table=handle.label, owner=owner).cast(field.dataType)
