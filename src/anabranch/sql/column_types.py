"""Types of columns, as statements write them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import DataType, StructType

from anabranch.sql.grammar.cursor import Fragment


def types_of(written: Sequence[Fragment]) -> list[DataType]:
    """What Spark understands by them. Raises its `ParseException`."""
    if not written:
        return []
    columns = ", ".join(f"c{place} {each.text}" for place, each in enumerate(written))
    kind = StructType.fromDDL(columns)
    assert isinstance(kind, StructType)
    return [field.dataType for field in kind.fields]


def columns_of(written: Fragment) -> StructType:
    """The columns that a list of names and types means. Raises Spark's `ParseException`."""
    schema = StructType.fromDDL(written.text)
    assert isinstance(schema, StructType)
    return schema
