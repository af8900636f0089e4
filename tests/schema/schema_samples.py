"""Schemas for the tests: short ways to write one down, and a hypothesis strategy."""

from __future__ import annotations

from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

BYTE, SHORT, INT, LONG = ByteType(), ShortType(), IntegerType(), LongType()
FLOAT, DOUBLE, STRING, BOOLEAN, BINARY = FloatType(), DoubleType(), StringType(), BooleanType(), BinaryType()
DATE, TIMESTAMP, NTZ, VOID, VARIANT = DateType(), TimestampType(), TimestampNTZType(), NullType(), VariantType()


def struct(**columns: DataType | StructField) -> StructType:
    """A struct of nullable fields; a value that is a field already brings its own nullability and metadata."""
    return StructType(
        [
            StructField(name, kind.dataType, kind.nullable, kind.metadata)
            if isinstance(kind, StructField)
            else StructField(name, kind)
            for name, kind in columns.items()
        ]
    )


def required(kind: DataType) -> StructField:
    return StructField("", kind, False)


def noted(kind: DataType, **metadata: object) -> StructField:
    return StructField("", kind, True, {key.replace("__", "."): value for key, value in metadata.items()})


primitives = st.one_of(
    st.sampled_from([BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BOOLEAN, BINARY, DATE, TIMESTAMP, NTZ, VARIANT]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DecimalType(p, s))),
)
letters = "abAB1_ .`,{}é漢\n\U0001f600"
names = st.text(letters, min_size=1, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(letters, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(letters, max_size=5), inner, max_size=2),
    max_leaves=4,
)


def structs(
    inner: st.SearchStrategy[DataType], field_names: st.SearchStrategy[str] = names
) -> st.SearchStrategy[StructType]:
    fields = st.builds(
        StructField,
        field_names,
        inner,
        st.booleans(),
        st.dictionaries(st.text("abc.", max_size=5), json_values, max_size=2),
    )
    return st.lists(fields, max_size=4, unique_by=lambda field: field.name.lower()).map(StructType)


def nested(field_names: st.SearchStrategy[str] = names) -> st.SearchStrategy[DataType]:
    return st.recursive(
        primitives,
        lambda inner: st.one_of(
            st.builds(ArrayType, inner, st.booleans()),
            st.builds(MapType, inner, inner, st.booleans()),
            structs(inner, field_names),
        ),
        max_leaves=6,
    )


schemas = structs(nested())
few_names = st.sampled_from(["a", "b", "c", "D", "e f"])
similar_schemas = structs(nested(few_names), few_names)
"""Schemas whose columns often have the same names."""
