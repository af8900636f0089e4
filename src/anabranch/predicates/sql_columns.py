"""Which column of a schema a name in SQL text means."""

from __future__ import annotations

from pyspark.sql.types import DataType, StringType, StructType

from anabranch.predicates.expressions import ColumnPath


def find_path(schema: StructType, path: ColumnPath) -> ColumnPath | None:
    """The path in the schema's own spelling."""
    found: list[str] = []
    below: DataType = schema
    for part in path:
        if not isinstance(below, StructType):
            return None
        names = [name for name in below.names if name == part] or [
            name for name in below.names if name.casefold() == part.casefold()
        ]
        if len(names) != 1:
            return None
        found.append(names[0])
        below = below[names[0]].dataType
    return tuple(found)


def has_plain_order(data_type: DataType | None) -> bool:
    """Whether values are compared as such; text with a collation is not."""
    return not isinstance(data_type, StringType) or getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
