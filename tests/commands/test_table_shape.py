"""The columns and properties of a table that is made or changed."""

from __future__ import annotations

import random

import pytest
from pyspark.sql.types import DataType, IntegerType, StructField, StructType

from anabranch.commands.definition.table_definition import table_shape
from anabranch.errors.schema import DuplicateColumnsError

INT = IntegerType()
NESTED = StructType([StructField("x", INT), StructField("x", INT)])
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.mark.parametrize(
    "columns", [[("a", INT), ("b", INT), ("a", INT)], [("s", NESTED)], [("a", INT), ("A", INT)]], ids=str
)
@pytest.mark.parametrize("configuration", [{}, MAPPED], ids=["plain", "mapped"])
def test_two_columns_of_one_name_are_called_so(
    columns: list[tuple[str, DataType]], configuration: dict[str, str]
) -> None:
    """As where another writer has added the column since Spark looked. No id that they share is complained of."""
    schema = StructType([StructField(name, kind) for name, kind in columns])
    with pytest.raises(DuplicateColumnsError, match="Duplicate columns in"):
        table_shape(schema, configuration, label="t", source=random.Random(0))
