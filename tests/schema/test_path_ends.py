"""What a path ends at: fields, and the elements, keys and values of arrays and maps."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StringType, StructField, StructType

from anabranch.schema.paths import FieldPath, find_field_or_part

INT, LONG, STRING = IntegerType(), LongType(), StringType()
INNER = StructType([StructField("value", INT, nullable=False)])
SCHEMA = StructType(
    [
        StructField("l", ArrayType(ArrayType(INT, containsNull=False))),
        StructField("element", ArrayType(LONG), nullable=False),
        StructField("m", MapType(STRING, INNER, valueContainsNull=False)),
    ]
)


@pytest.mark.parametrize(
    ("path", "kind", "nullable"),
    [
        (("l",), ArrayType(ArrayType(INT, containsNull=False)), True),
        (("l", "element"), ArrayType(INT, containsNull=False), True),
        (("l", "element", "element"), INT, False),
        (("element",), ArrayType(LONG), False),
        (("element", "element"), LONG, True),
        (("m", "key"), STRING, False),
        (("m", "value"), INNER, False),
        (("m", "value", "value"), INT, False),
    ],
)
def test_what_a_path_ends_at(path: FieldPath, kind: DataType, nullable: bool) -> None:
    assert find_field_or_part(SCHEMA, path) == StructField(path[-1], kind, nullable)


@pytest.mark.parametrize("path", [("nope",), ("l", "key"), ("m", "element"), ("l", "element", "element", "x")])
def test_paths_that_end_nowhere(path: FieldPath) -> None:
    assert find_field_or_part(SCHEMA, path) is None
