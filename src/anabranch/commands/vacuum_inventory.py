"""A listing of the table's folder that somebody else has made, as storages offer them: `USING INVENTORY`."""

from __future__ import annotations

import functools
import operator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from anabranch.commands.table_access import TableHandle
from anabranch.commands.vacuum_listing import Inventory
from anabranch.errors.vacuum import InventorySchemaError
from anabranch.spark.file_listing import file_root
from anabranch.storage.file_tree import TREE_SCHEMA

INVENTORY_SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("length", LongType()),
        StructField("isDir", BooleanType()),
        StructField("modificationTime", LongType()),
    ]
)


def inventory_of(handle: TableHandle, inventory: DataFrame) -> Inventory:
    """The rows below the table's folder.

    Paths are complete and plain, as `file:/t/a b.parquet`. Other columns are passed over. Raises
    `InventorySchemaError`.
    """
    given = {field.name: field.dataType for field in inventory.schema.fields}
    if any(given.get(field.name) != field.dataType for field in INVENTORY_SCHEMA):
        raise InventorySchemaError(
            table=handle.label, found=_described(inventory.schema), expected=_described(INVENTORY_SCHEMA)
        )
    roots = _roots(handle.path)
    is_below = functools.reduce(operator.or_, [F.col("path").startswith(root) for root in roots])
    columns = ("path", "length", "modificationTime", "isDir")
    rows = inventory.select(*columns).where(is_below).toArrow()
    return Inventory(rows=rows.rename_columns(TREE_SCHEMA.names), roots=roots)


def _roots(path: str) -> tuple[str, ...]:
    """What complete paths of the table's files begin with, longest first."""
    root = path.rstrip("/")
    spellings = [file_root(root), root] if not root.startswith("/") else [f"file://{root}", f"file:{root}", root]
    return tuple(f"{spelling}/" for spelling in dict.fromkeys(spellings))


def _described(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
