"""Whether rows written under one schema can be read under another."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructField, StructType

from anabranch.change_feed.feed_columns import feed_schema
from anabranch.change_feed.schema_compatibility import TableColumns, unreadable_difference
from anabranch.errors.schema import ReservedColumnsError
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.paths import transform

INT, LONG, STRING = IntegerType(), LongType(), StringType()
NONE, NAME = ColumnMappingMode.NONE, ColumnMappingMode.NAME


def struct(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def columns(mode: ColumnMappingMode = NONE, *, by: tuple[str, ...] = (), **types: DataType) -> TableColumns:
    """Columns of a version. With column mapping, their physical names are the logical ones."""
    schema = struct(**types)
    return TableColumns(schema=mapped(schema) if mode.maps else schema, mode=mode, partition_columns=by)


def mapped(schema: StructType) -> StructType:
    def named(_: object, field: StructField) -> StructField:
        return StructField(field.name, field.dataType, field.nullable, {"delta.columnMapping.physicalName": field.name})

    return transform(schema, named)


def renamed(of: TableColumns, old: str, new: str) -> TableColumns:
    fields = [StructField(new if f.name == old else f.name, f.dataType, True, f.metadata) for f in of.schema.fields]
    return TableColumns(schema=StructType(fields), mode=of.mode, partition_columns=of.partition_columns)


@pytest.mark.parametrize(
    ("before", "read"),
    [
        (columns(a=INT), columns(b=STRING, a=INT)),
        (columns(a=INT), columns(a=LONG)),
        (columns(a=ArrayType(struct(x=INT))), columns(a=ArrayType(struct(x=LONG, y=STRING)))),
        (columns(a=INT), columns(NAME, a=INT)),
        (columns(a=INT, p=INT, by=("p",)), columns(a=INT, p=INT, c=INT, by=("p",))),
    ],
)
def test_readable(before: TableColumns, read: TableColumns) -> None:
    assert unreadable_difference(before, read) is None


@pytest.mark.parametrize(
    ("before", "read", "word"),
    [
        (columns(a=INT, b=INT), columns(a=INT), "a column b, which has been dropped"),
        (columns(a=LONG), columns(a=INT), "column a was of type bigint"),
        (columns(a=ArrayType(STRING)), columns(a=ArrayType(INT)), "column a was of type array<string>"),
        (columns(s=struct(x=INT, y=INT)), columns(s=struct(x=INT)), r"a column s\.y"),
        (columns(NAME, a=INT), columns(a=INT), "physical names"),
        (columns(NAME, a=INT), renamed(columns(NAME, a=INT), "a", "z"), "column z was called a"),
        (columns(a=INT), renamed(columns(NAME, a=INT), "a", "z"), "column z was called a"),
        (columns(a=INT, p=INT), columns(a=INT, p=INT, by=("p",)), "partitioned by no column"),
        (columns(a=INT, p=INT, by=("p",)), columns(a=INT, p=INT, by=("a",)), "partitioned by p"),
    ],
)
def test_unreadable(before: TableColumns, read: TableColumns, word: str) -> None:
    assert re.search(word, unreadable_difference(before, read) or "")


def test_the_feed_has_columns_of_its_own() -> None:
    schema = feed_schema(columns(NAME, a=INT).schema, NAME, table="t")
    assert schema.fieldNames() == ["a", "_change_type", "_commit_version", "_commit_timestamp"]
    with pytest.raises(ReservedColumnsError):
        feed_schema(columns(_Change_Type=INT).schema, NONE, table="t")
