"""schemaString: what Spark writes, what other writers do, and what an enemy might."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from pyspark.ml.linalg import MatrixUDT, VectorUDT
from pyspark.mllib.linalg import VectorUDT as OldVectorUDT
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VarcharType,
    YearMonthIntervalType,
)

from anabranch.errors.protocol import UnknownTypeError
from anabranch.errors.schema import MalformedSchemaError, UnsupportedTypeError
from anabranch.schema.serialization import DEPTH_MAX, parse_schema, parse_type, schema_string
from schema.schema_samples import INT, LONG, NTZ, STRING, VARIANT, VOID, required, schemas, struct


def schema_of(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def field(kind: object, name: str = "a", **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}, **more}


@given(schemas)
def test_a_round_trip_keeps_everything(schema: StructType) -> None:
    assert parse_schema(schema_string(schema)) == schema


@given(schemas)
def test_the_json_is_that_of_pyspark(schema: StructType) -> None:
    """Spark's own form, but for the spaces."""
    assert json.loads(schema_string(schema)) == schema.jsonValue()


def test_the_text_is_byte_for_byte_sparks() -> None:
    schema = struct(ä=required(INT), b=ArrayType(struct(c=LONG), False), m=MapType(STRING, NTZ), v=VARIANT, n=VOID)
    assert schema_string(schema) == (
        '{"type":"struct","fields":[{"name":"ä","type":"integer","nullable":false,"metadata":{}},'
        '{"name":"b","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"c","type":"long",'
        '"nullable":true,"metadata":{}}]},"containsNull":false},"nullable":true,"metadata":{}},'
        '{"name":"m","type":{"type":"map","keyType":"string","valueType":"timestamp_ntz","valueContainsNull":true},'
        '"nullable":true,"metadata":{}},{"name":"v","type":"variant","nullable":true,"metadata":{}},'
        '{"name":"n","type":"void","nullable":true,"metadata":{}}]}'
    )


def test_missing_keys_take_sparks_defaults() -> None:
    text = schema_of({"name": "a", "type": {"type": "array", "elementType": "integer"}})
    assert parse_schema(text) == StructType([StructField("a", ArrayType(INT, True), True, {})])


def test_old_spellings_are_read_and_rewritten() -> None:
    text = schema_of(field("null"), field("timestamp_ltz", "b"), field("decimal", "c"), field("decimal( 6, 2 )", "d"))
    types = [entry["type"] for entry in json.loads(schema_string(parse_schema(text)))["fields"]]
    assert types == ["void", "timestamp", "decimal(10,0)", "decimal(6,2)"]


def test_char_and_varchar_become_strings_that_remember() -> None:
    schema = StructType([StructField("c", CharType(5)), StructField("s", struct(v=ArrayType(VarcharType(3))))])
    back = parse_schema(schema_string(schema))
    assert back["c"] == StructField("c", STRING, True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    assert back["s"].dataType == struct(v=ArrayType(STRING))
    assert back["s"].metadata == {"__CHAR_VARCHAR_TYPE_STRING": "struct<v:array<varchar(3)>>"}
    assert parse_schema(schema_of(field("char(5)", "c")))["c"] == back["c"]


def test_collations_travel_in_metadata() -> None:
    collated = StringType("UNICODE_CI")
    schema = struct(a=collated, m=MapType(collated, ArrayType(StringType("UTF8_LCASE"))), p=STRING)
    first, second, _ = json.loads(schema_string(schema))["fields"]
    assert (first["type"], first["metadata"]) == ("string", {"__COLLATIONS": {"a": "icu.UNICODE_CI"}})
    assert second["metadata"]["__COLLATIONS"] == {"m.key": "icu.UNICODE_CI", "m.value.element": "spark.UTF8_LCASE"}
    assert parse_schema(schema_string(schema)) == schema


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "not JSON"),
        ("[]", "top level"),
        ('{"type":"struct"}', "no list of fields"),
        (schema_of(field("integer", metadata=[])), "column a"),
        (schema_of(field("integer", nullable="yes")), "nullable"),
        (schema_of({"name": "a"}), "no type"),
        (schema_of({"type": "integer"}), "field 0 has no name"),
        (schema_of(field("decimal(39,1)")), "out of range"),
        (schema_of(field("decimal(5,6)")), "out of range"),
        (schema_of(field({"type": "array"})), "elementType"),
        (schema_of(field({"type": "map", "keyType": "string"})), "valueType"),
        (schema_of(field({"type": "struct", "fields": [{"name": "b"}]})), "column a.b"),
        (schema_of(field(7)), "neither a name nor an object"),
        (schema_of(field({"type": ["array"]})), "no name"),
        (schema_of(field("string", metadata={"__COLLATIONS": {"a": 1}})), "__COLLATIONS"),
    ],
)
def test_malformed_schemas_name_table_and_column(text: str, where: str) -> None:
    with pytest.raises(MalformedSchemaError) as caught:
        parse_schema(text, table="sales")
    assert "sales" in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize("kind", ["int", "timestamp_ns", {"type": "tensor"}])
def test_unknown_types_may_be_newer(kind: str | dict[str, str]) -> None:
    """Covers bug B90: they were reported as damage, with the advice to restore an earlier version."""
    nested = {"type": "struct", "fields": [field(kind, "b")]}
    with pytest.raises(UnknownTypeError, match=r"Column a\.b of sales .* newer"):
        parse_schema(schema_of(field(nested)), table="sales")


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 5_000, 200_000])
def test_deep_nesting_is_refused_without_recursing_into_it(levels: int) -> None:
    deep = '{"type":"array","containsNull":true,"elementType":' * levels + '"integer"' + "}" * levels
    with pytest.raises(MalformedSchemaError):
        parse_schema('{"type":"struct","fields":[{"name":"a","type":' + deep + "}]}")


INTERVALS: list[tuple[str, DataType | None]] = [
    ("interval year to month", YearMonthIntervalType()),
    ("interval year", YearMonthIntervalType()),
    ("interval month", YearMonthIntervalType()),
    ("interval day to second", DayTimeIntervalType()),
    ("interval hour to second", DayTimeIntervalType()),
    ("interval second", DayTimeIntervalType()),
    ("interval month to second", None),
    ("interval second to day", None),
    ("interval day to day", None),
    ("INTERVAL Year To Month", None),
    ("interval week", None),
]


@pytest.mark.parametrize(("name", "kind"), INTERVALS)
def test_intervals_are_read_as_either_kind(name: str, kind: DataType | None) -> None:
    """Covers bug B90, by the names that the protocol's RFC permits."""
    text = schema_of(field({"type": "array", "elementType": name}))
    if kind is None:
        with pytest.raises(UnknownTypeError, match=name):
            parse_schema(text, "sales")
        return
    schema = parse_schema(text, "sales")
    assert schema["a"].dataType == ArrayType(kind)
    assert parse_schema(schema.json()) == schema
    with pytest.raises(UnsupportedTypeError):
        schema_string(schema, "sales")


@pytest.mark.parametrize("kind", ["interval", "time(6)", "geometry", "geography(4326)"])
def test_types_no_delta_table_holds_are_refused_by_name(kind: str) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        parse_schema(schema_of(field({"type": "array", "elementType": kind})), table="sales")
    assert caught.value.columns == {"a.element": kind}


def test_a_udt_entry_never_imports_the_class_it_names() -> None:
    entry = {"type": "udt", "class": None, "pyClass": "antigravity.Boom", "sqlType": "integer", "serializedClass": ""}
    with pytest.raises(UnsupportedTypeError):
        parse_schema(schema_of(field(entry)))
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("kind", [VectorUDT, MatrixUDT, OldVectorUDT])
def test_vectors_and_matrices_of_spark(kind: type[UserDefinedType]) -> None:
    schema = struct(v=kind(), a=ArrayType(kind()))
    text = schema_string(schema, "sales")
    assert json.loads(text) == schema.jsonValue()
    assert parse_schema(text) == schema


@pytest.mark.parametrize(
    "change", [{"pyClass": "antigravity.Boom"}, {"sqlType": "integer"}, {"serializedClass": "gASV"}, {"pyClass": None}]
)
def test_what_calls_itself_a_vector_and_is_another(change: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedTypeError, match="VectorUDT"):
        parse_schema(schema_of(field({**VectorUDT().jsonValue(), **change})))
    assert "antigravity" not in sys.modules


def test_writing_names_every_column_of_an_unsupported_type() -> None:
    class Point(UserDefinedType):
        @classmethod
        def sqlType(cls) -> DataType:  # noqa: N802
            return INT

    schema = struct(a=DayTimeIntervalType(), b=struct(c=ArrayType(Point())), d=INT)
    with pytest.raises(UnsupportedTypeError) as caught:
        schema_string(schema, "sales")
    assert set(caught.value.columns) == {"a", "b.c.element"}


def test_types_by_themselves() -> None:
    assert parse_type("decimal(6, 2)") == DecimalType(6, 2)
    assert parse_type({"type": "map", "keyType": "string", "valueType": "long"}) == MapType(STRING, LONG, True)
