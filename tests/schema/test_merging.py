"""mergeSchema: what grows, what stays, what does not go together."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from anabranch.errors.schema import DuplicateColumnsError, IncompatibleTypesError
from anabranch.schema.casts import Casting
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import as_nullable, same_type, schema_differences
from anabranch.schema.schema_evolution import MergeRules, Widening, merge_schemas
from schema.schema_samples import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NTZ,
    SHORT,
    STRING,
    VOID,
    noted,
    required,
    schemas,
    similar_schemas,
    struct,
)


def merged_schema(
    table_schema: StructType, data_schema: StructType, rules: MergeRules | None = None, *, table: str = "the table"
) -> StructType:
    """`table_schema` grown so that data of `data_schema` fits."""
    check_duplicates(data_schema, where="the data", table=table)
    merged = merge_schemas(table_schema, data_schema, rules or MergeRules())
    if merged.conflicts:
        raise IncompatibleTypesError(table=table, extra={}, mismatched=merged.conflicts, overwriting=False)
    return merged.schema


def merged(left: StructType, right: StructType) -> StructType | None:
    try:
        return merged_schema(left, right)
    except IncompatibleTypesError:
        return None


@given(schemas)
def test_merging_with_itself_changes_nothing(schema: StructType) -> None:
    assert merged_schema(schema, schema) == schema
    assert merged_schema(schema, as_nullable(schema)) == schema


@given(similar_schemas, similar_schemas)
def test_merging_twice_is_merging_once(left: StructType, right: StructType) -> None:
    once = merged(left, right)
    assume(once is not None)
    assert once is not None
    assert merged_schema(once, right) == once
    assert once.fields[: len(left.fields)] == left.fields or schema_differences(left, once)
    assert once.names[: len(left.names)] == left.names


@settings(max_examples=50)
@given(similar_schemas, similar_schemas, similar_schemas)
def test_merging_is_associative_where_it_succeeds(a: StructType, b: StructType, c: StructType) -> None:
    ab, bc = merged(a, b), merged(b, c)
    assume(ab is not None and bc is not None)
    assert ab is not None
    assert bc is not None
    left, right = merged(ab, c), merged(a, bc)
    assume(left is not None and right is not None)
    assert left == right


def test_new_columns_go_to_the_end_of_their_struct() -> None:
    table = struct(a=INT, s=struct(x=INT), l=ArrayType(struct(x=INT)), m=MapType(STRING, struct(x=INT)))
    data = struct(z=LONG, M=MapType(STRING, struct(y=INT)), s=struct(w=INT, X=INT), l=ArrayType(struct(y=INT, x=INT)))
    assert merged_schema(table, data) == struct(
        a=INT,
        s=struct(x=INT, w=INT),
        l=ArrayType(struct(x=INT, y=INT)),
        m=MapType(STRING, struct(x=INT, y=INT)),
        z=LONG,
    )


def test_the_tables_side_keeps_nullability_and_metadata() -> None:
    ours = StructField("a", ArrayType(INT, False), False, {"delta.columnMapping.id": 4})
    assert merged_schema(StructType([ours]), struct(A=ArrayType(INT))).fields == [ours]


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        (BYTE, SHORT, SHORT),
        (BYTE, INT, INT),
        (INT, BYTE, INT),
        (SHORT, BYTE, SHORT),
        (VOID, LONG, LONG),
        (LONG, VOID, LONG),
    ],
)
def test_types_that_files_store_alike_merge_without_any_feature(
    ours: DataType, theirs: DataType, result: DataType
) -> None:
    assert merged_schema(struct(a=ours), struct(a=theirs)) == struct(a=result)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(INT, LONG), (LONG, INT), (FLOAT, DOUBLE), (DATE, NTZ), (DecimalType(5, 2), DecimalType(6, 2)), (INT, STRING)],
)
def test_other_types_need_a_feature(ours: DataType, theirs: DataType) -> None:
    with pytest.raises(IncompatibleTypesError):
        merged_schema(struct(a=ours), struct(a=theirs))


def test_widening_as_far_as_allowed() -> None:
    table = struct(a=INT, d=DecimalType(5, 2), t=DATE)
    data = struct(a=LONG, d=DecimalType(7, 3), t=NTZ)
    assert merged_schema(table, data, MergeRules(widening=Widening.SAME_FAMILY)) == data
    across = struct(a=DOUBLE)
    assert merged_schema(struct(a=INT), across, MergeRules(widening=Widening.ALL)) == across
    with pytest.raises(IncompatibleTypesError):
        merged_schema(struct(a=INT), across, MergeRules(widening=Widening.SAME_FAMILY))
    with pytest.raises(IncompatibleTypesError) as caught:
        merged_schema(table, data, MergeRules(widening=Widening.SAME_FAMILY, iceberg=True))
    assert set(caught.value.mismatched) == {"d", "t"}


def test_castable_data_leaves_the_table_as_it_is() -> None:
    table = struct(a=SHORT, s=STRING)
    assert merged_schema(table, struct(a=LONG, s=INT), MergeRules(casting=Casting.ANSI)) == table


def test_one_error_names_all_conflicts_with_path_and_types() -> None:
    table = struct(a=INT, s=struct(l=ArrayType(struct(x=INT))), m=MapType(STRING, INT))
    data = struct(a=STRING, s=struct(l=ArrayType(struct(x=ArrayType(INT)))), m=INT)
    with pytest.raises(IncompatibleTypesError) as caught:
        merged_schema(table, data, table="sales")
    assert caught.value.mismatched == {
        "a": ("int", "string"),
        "s.l.element.x": ("int", "array<int>"),
        "m": ("map<string,int>", "int"),
    }
    assert "a is int in the table and string in the data" in str(caught.value)


def test_data_with_columns_that_differ_by_case_is_refused() -> None:
    with pytest.raises(DuplicateColumnsError, match="A"):
        merged_schema(struct(b=INT), struct(a=INT, A=INT))


def test_an_empty_struct_may_fill_a_void_column() -> None:
    assert merged_schema(struct(a=VOID), struct(a=StructType([]))) == struct(a=StructType([]))


def test_differences_in_words() -> None:
    before = struct(a=INT, b=struct(c=INT), l=ArrayType(INT, False), gone=STRING)
    after = struct(b=struct(c=LONG, d=INT), A=required(INT), l=ArrayType(INT), new=noted(STRING, comment="x"))
    assert schema_differences(before, after) == [
        "a no longer allows nulls",
        "b.c is bigint, was int",
        "b.d is new (int)",
        "l now allows null elements",
        "gone is gone (string)",
        "new is new (string)",
    ]
    assert schema_differences(after, after) == []
    assert schema_differences(struct(a=noted(INT, comment="x")), struct(a=INT)) == ["a has other metadata (comment)"]


def test_layout_ignores_what_files_do_not_show() -> None:
    assert same_type(struct(a=required(INT), l=ArrayType(INT, False)), struct(A=INT, l=ArrayType(INT)))
    assert not same_type(struct(a=INT, b=INT), struct(b=INT, a=INT))
    assert schema_differences(struct(a=INT, b=INT), struct(B=INT, a=INT)) == []
