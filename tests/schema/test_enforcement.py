"""Which DataFrames fit a table, how they are made to, and what is said when they do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType, TimestampType

from anabranch.errors.schema import (
    ColumnCountError,
    ColumnNotFoundError,
    DuplicateColumnsError,
    IdentityInsertError,
    IncompatibleTypesError,
    InvalidPartitioningError,
    MissingColumnsError,
    MissingFieldsError,
    MissingInsertFieldsError,
    MissingNotNullColumnsError,
    MissingPartitionColumnsError,
    PartitionColumnMismatchError,
    SchemaMismatchError,
    UnsupportedTypeError,
    VoidWriteError,
)
from anabranch.schema.casts import Cast, Casting, FieldSource, Keep, RebuildArray, RebuildMap, RebuildStruct
from anabranch.schema.enforcement import Fill, WritePlan, plan_new_schema, plan_write
from anabranch.schema.logical_types import DECLARED_TYPE, LengthLimit
from anabranch.schema.paths import as_nullable
from anabranch.schema.schema_evolution import TYPE_CHANGES, Widening, visible_schema
from anabranch.schema.write_rules import WriteApi, WriteRules, rules_for
from schema.schema_samples import (
    BYTE,
    INT,
    LONG,
    SHORT,
    STRING,
    VARIANT,
    VOID,
    noted,
    required,
    schemas,
    struct,
)

SAVE, SAVE_AS_TABLE, INSERT_INTO = WriteApi.SAVE, WriteApi.SAVE_AS_TABLE, WriteApi.INSERT_INTO
SQL_BY_NAME = WriteApi.SQL_BY_NAME


def rules(api: WriteApi = SAVE, **settings: Any) -> WriteRules:
    return rules_for(api, **{"overwriting": False, "merge_schema": False, "overwrite_schema": False, **settings})


def plan(data: StructType, table: StructType, how: WriteRules | None = None, **more: Any) -> WritePlan:
    return plan_write(data, table, how or rules(), table="sales", constraints={}, **more)


def sources(planned: WritePlan) -> list[tuple[str, int | None]]:
    return [(column.target.name, column.source_index) for column in planned.columns]


def is_identity(planned: WritePlan) -> bool:
    """Whether each column of the data goes unchanged into the table's column at its position."""
    return all(
        column.source_index == position and isinstance(column.conversion, Keep)
        for position, column in enumerate(planned.columns)
    )


@given(schemas)
def test_data_read_from_a_table_goes_back_as_it_is(schema: StructType) -> None:
    if not schema.fields:
        return
    planned = plan(visible_schema(schema), as_nullable(schema))
    assert is_identity(planned)
    assert not planned.schema_changed
    assert planned.schema == as_nullable(schema)


def test_columns_match_by_name_in_any_case_and_order() -> None:
    planned = plan(struct(B=STRING, a=INT), struct(a=INT, b=STRING))
    assert sources(planned) == [("a", 1), ("b", 0)]
    assert not is_identity(planned)


def test_missing_columns_become_null() -> None:
    planned = plan(struct(a=INT), struct(a=INT, b=STRING))
    assert sources(planned) == [("a", 0), ("b", None)]
    assert planned.columns[1].fill is Fill.NULL


def test_what_the_table_fills_in_by_itself() -> None:
    table = struct(
        a=INT,
        g=noted(INT, delta__generationExpression="a + 1"),
        d=noted(INT, CURRENT_DEFAULT="42"),
        i=noted(LONG, delta__identity__start=1, delta__identity__step=1, delta__identity__allowExplicitInsert=False),
    )
    filled = plan(struct(a=INT), table).columns
    assert [(column.fill, column.expression) for column in filled[1:]] == [
        (Fill.GENERATED, "a + 1"),
        (Fill.DEFAULT, "42"),
        (Fill.IDENTITY, None),
    ]
    written = plan(struct(a=INT, g=INT), table).columns[1]
    assert (written.fill, written.expression) == (None, "a + 1")
    with pytest.raises(IdentityInsertError, match="leave it out"):
        plan(struct(a=INT, i=LONG), table)


def test_an_extra_column_needs_merge_schema() -> None:
    table, data = struct(a=INT), struct(a=INT, b=struct(c=STRING))
    with pytest.raises(SchemaMismatchError) as caught:
        plan(data, table)
    assert caught.value.extra == {"b": "struct<c:string>"}
    assert "sales" in str(caught.value)
    assert "mergeSchema" in str(caught.value)
    assert "overwriteSchema" not in str(caught.value)
    with pytest.raises(SchemaMismatchError, match="overwriteSchema"):
        plan(data, table, rules(overwriting=True))
    grown = plan(data, table, rules(merge_schema=True))
    assert grown.schema_changed
    assert grown.schema == data


def test_one_error_names_every_fault() -> None:
    table = struct(a=INT, s=struct(x=SHORT), l=ArrayType(struct(y=INT)))
    data = struct(a=STRING, s=struct(x=INT, z=INT), l=ArrayType(struct(y=INT, w=INT)), b=INT)
    with pytest.raises(IncompatibleTypesError) as caught:
        plan(data, table)
    assert caught.value.extra == {"s.z": "int", "l.element.w": "int", "b": "int"}
    assert caught.value.mismatched == {"a": ("int", "string"), "s.x": ("smallint", "int")}
    with pytest.raises(IncompatibleTypesError) as caught:
        plan(data, table, rules(merge_schema=True))
    assert (caught.value.extra, caught.value.mismatched) == ({}, {"a": ("int", "string")})


def test_save_needs_types_that_agree_and_the_others_cast() -> None:
    table, data = struct(a=LONG, b=INT), struct(a=INT, b=LONG)
    for exact in (rules(SAVE), rules(SAVE, overwriting=True), rules(SAVE_AS_TABLE, overwriting=True)):
        with pytest.raises(IncompatibleTypesError):
            plan(data, table, exact)
    for api in (SAVE_AS_TABLE, INSERT_INTO, WriteApi.WRITE_TO, WriteApi.STREAM, WriteApi.SQL_BY_POSITION, SQL_BY_NAME):
        planned = plan(data, table, rules(api))
        assert [column.conversion for column in planned.columns] == [Cast(LONG), Cast(INT, may_fail=True)]
        assert planned.casting is Casting.ANSI
        assert not planned.schema_changed


def test_the_sessions_policy_decides_on_casts() -> None:
    table = struct(a=INT)
    assert plan(struct(a=STRING), table, rules(INSERT_INTO)).columns[0].conversion == Cast(INT, may_fail=True)
    with pytest.raises(IncompatibleTypesError):
        plan(struct(a=STRING), table, rules(INSERT_INTO, policy=Casting.STRICT))
    with pytest.raises(IncompatibleTypesError):
        plan(struct(a=ArrayType(INT)), table, rules(INSERT_INTO))
    assert plan(struct(a=VARIANT), table, rules(INSERT_INTO)).columns[0].conversion == Cast(INT, may_fail=True)


def test_narrow_integers_fit_wider_columns_of_one_parquet_type() -> None:
    assert plan(struct(a=BYTE), struct(a=INT)).columns[0].conversion == Cast(INT)
    with pytest.raises(SchemaMismatchError) as caught:
        plan(struct(a=INT), struct(a=BYTE))
    assert not isinstance(caught.value, IncompatibleTypesError)
    assert plan(struct(a=INT), struct(a=BYTE), rules(merge_schema=True)).schema == struct(a=INT)


def test_type_widening_widens_and_takes_note() -> None:
    table, data = struct(a=INT, d=DecimalType(4, 2)), struct(a=LONG, d=DecimalType(4, 2))
    widening = rules(WriteApi.WRITE_TO, merge_schema=True, widening=Widening.SAME_FAMILY)
    planned = plan(data, table, widening)
    assert planned.schema["a"].dataType == LONG
    assert planned.schema["a"].metadata == {TYPE_CHANGES: [{"fromType": "integer", "toType": "long"}]}
    assert planned.columns[0].conversion == Keep()
    for off in (
        rules(WriteApi.WRITE_TO, widening=Widening.ALL),
        rules(WriteApi.WRITE_TO, merge_schema=True),
    ):
        assert plan(data, table, off).columns[0].conversion == Cast(INT, may_fail=True)


def test_a_change_of_type_is_noted_only_in_tables_that_widen() -> None:
    table, data = struct(a=BYTE), struct(a=INT)
    assert plan(data, table, rules(merge_schema=True)).schema["a"].metadata == {}
    noting = plan(data, table, rules(merge_schema=True, records_type_changes=True)).schema["a"].metadata
    assert noting == {TYPE_CHANGES: [{"fromType": "byte", "toType": "integer"}]}


def test_nested_fields_match_by_name() -> None:
    table = struct(
        s=struct(x=INT, y=STRING), l=ArrayType(struct(x=INT, y=INT)), m=MapType(STRING, struct(x=INT, y=INT))
    )
    data = struct(s=struct(Y=STRING), l=ArrayType(struct(y=INT, x=INT)), m=MapType(STRING, struct(x=INT)))
    in_struct, in_array, in_map = [column.conversion for column in plan(data, table).columns]
    x_int, y_int = StructField("x", INT), StructField("y", INT)
    assert in_struct == RebuildStruct(
        (FieldSource(x_int, None, Keep()), FieldSource(StructField("y", STRING), 0, Keep()))
    )
    assert in_array == RebuildArray(RebuildStruct((FieldSource(x_int, 1, Keep()), FieldSource(y_int, 0, Keep()))))
    assert in_map == RebuildMap(
        Keep(), RebuildStruct((FieldSource(x_int, 0, Keep()), FieldSource(y_int, None, Keep())))
    )


def test_one_cast_does_where_nested_types_line_up() -> None:
    table = struct(s=struct(x=LONG, l=ArrayType(required(INT).dataType, False)))
    data = struct(s=struct(X=INT, l=ArrayType(INT, False)))
    (column,) = plan(data, table, rules(SAVE_AS_TABLE)).columns
    assert column.conversion == Cast(struct(x=LONG, l=ArrayType(INT, True)))


def test_insert_into_matches_by_position() -> None:
    table = struct(a=INT, b=STRING)
    assert sources(plan(struct(b=INT, a=STRING), table, rules(INSERT_INTO))) == [("a", 0), ("b", 1)]
    with pytest.raises(ColumnCountError, match="2 fields and the data has 1"):
        plan(struct(a=INT), table, rules(INSERT_INTO))
    with pytest.raises(SchemaMismatchError) as caught:
        plan(struct(x=INT, y=STRING, z=LONG), table, rules(INSERT_INTO))
    assert caught.value.extra == {"z": "bigint"}
    grown = plan(struct(x=INT, y=STRING, z=LONG), table, rules(INSERT_INTO, merge_schema=True))
    assert sources(grown) == [("a", 0), ("b", 1), ("z", 2)]
    assert grown.schema == struct(a=INT, b=STRING, z=LONG)


def test_insert_into_takes_two_columns_of_one_name() -> None:
    data = StructType([StructField("n", INT), StructField("n", INT)])
    planned = plan(data, struct(a=INT, b=INT), rules(INSERT_INTO))
    assert [column.source_index for column in planned.columns] == [0, 1]
    with pytest.raises(DuplicateColumnsError):
        plan(data, struct(a=INT, b=INT), rules(SAVE_AS_TABLE))


def test_statements_need_every_field_of_a_struct() -> None:
    """A frame may leave fields out, which are NULL then."""
    table = struct(s=struct(x=INT, y=INT), l=ArrayType(struct(x=INT, y=INT)), n=struct(v=VOID, z=INT))
    data = struct(s=struct(y=INT), l=ArrayType(struct(x=INT)), n=struct(z=INT))
    for api in (SAVE, SAVE_AS_TABLE, WriteApi.WRITE_TO, WriteApi.STREAM):
        assert plan(data, table, rules(api)).schema == table
    for grows in (False, True):
        with pytest.raises(MissingInsertFieldsError, match=r"lacks s\.x, l\.element\.y") as inserted:
            plan(data, table, rules(SQL_BY_NAME, merge_schema=grows))
        assert inserted.value.getCondition() == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    with pytest.raises(MissingFieldsError) as changed:
        plan(data, table, rules(WriteApi.CHANGED_ROWS, fills_fields=False))
    assert changed.value.columns == ("s.x", "l.element.y")
    assert plan(struct(s=VOID, l=ArrayType(VOID)), table, rules(SQL_BY_NAME)).schema == table


def test_insert_into_goes_by_position_inside_structs_unless_all_fits_by_name() -> None:
    """Covers bugs B108 and B102: fields in another order are taken by name where names and types are the table's."""
    table = struct(s=struct(x=INT, y=INT))
    by_position = plan(struct(s=struct(p=INT, q=INT)), table, rules(INSERT_INTO)).columns[0].conversion
    assert by_position == Cast(struct(x=INT, y=INT))
    x, y = StructField("x", INT), StructField("y", INT)
    swapped = struct(s=struct(y=INT, x=INT))
    by_name = RebuildStruct((FieldSource(x, 1, Keep()), FieldSource(y, 0, Keep())))
    assert plan(swapped, table, rules(INSERT_INTO)).columns[0].conversion == by_name
    for other in (struct(S=swapped["s"].dataType), struct(s=struct(Y=INT, X=INT))):
        conversion = plan(other, table, rules(INSERT_INTO)).columns[0].conversion
        assert conversion == Cast(struct(x=INT, y=INT)), other
    # What may overflow is cast by itself.
    narrowed = RebuildStruct((FieldSource(x, 0, Cast(INT, may_fail=True)), FieldSource(y, 1, Keep())))
    assert plan(struct(s=struct(y=LONG, x=INT)), table, rules(INSERT_INTO)).columns[0].conversion == narrowed
    widening = rules(INSERT_INTO, merge_schema=True, widening=Widening.SAME_FAMILY)
    assert plan(struct(s=struct(y=LONG, x=INT)), table, widening).schema["s"].dataType.simpleString() == (
        "struct<x:int,y:bigint>"
    )
    first = struct(s=struct(z=INT, y=INT, x=INT))
    assert plan(first, table, rules(INSERT_INTO, merge_schema=True)).schema == struct(s=struct(x=INT, y=INT, z=INT))
    with pytest.raises(SchemaMismatchError, match=r"s\.z \(int\) is not in the table"):
        plan(first, table, rules(INSERT_INTO))
    with pytest.raises(DuplicateColumnsError, match="in the data, taken by position"):
        plan(struct(s=struct(z=INT, y=LONG, x=INT)), table, rules(INSERT_INTO))
    with pytest.raises(ColumnCountError, match="column s of sales"):
        plan(struct(s=struct(p=INT)), table, rules(INSERT_INTO))
    growing = struct(s=struct(p=INT, q=INT, r=INT))
    grown = plan(growing, struct(s=struct(x=INT, v=VOID)), rules(INSERT_INTO, merge_schema=True))
    assert grown.schema == struct(s=struct(x=INT, v=INT, r=INT))
    assert grown.columns[0].conversion == Cast(struct(x=INT, v=INT, r=INT))


def test_fields_matched_by_position_are_picked_by_their_own_names() -> None:
    table = struct(s=struct(x=INT, v=VOID), l=ArrayType(struct(t=struct(a=INT, b=INT))))
    data = struct(s=struct(p=INT, q=VOID), l=ArrayType(struct(u=struct(b=INT, a=INT))))
    in_struct, in_array = [column.conversion for column in plan(data, table, rules(INSERT_INTO)).columns]
    assert in_struct == RebuildStruct((FieldSource(StructField("x", INT), 0, Keep()),))
    assert in_array == Cast(ArrayType(struct(t=struct(a=INT, b=INT))))


def test_columns_without_nulls_must_be_there() -> None:
    table = struct(k=required(INT), s=struct(x=required(INT), y=INT), l=ArrayType(struct(z=required(INT))))
    planned = plan(struct(k=INT, s=struct(x=INT)), table)
    assert planned.not_null_paths == (("k",), ("s", "x"), ("l", "element", "z"))
    assert not planned.schema_changed
    with pytest.raises(MissingNotNullColumnsError) as caught:
        plan(struct(s=struct(x=INT)), table)
    assert caught.value.columns == ("k",)
    with pytest.raises(MissingNotNullColumnsError) as caught:
        plan(struct(k=INT, s=struct(y=INT)), table)
    assert caught.value.columns == ("s.x",)


def test_partition_columns_must_be_there_and_agree() -> None:
    table = struct(a=INT, p=STRING)
    with pytest.raises(MissingPartitionColumnsError):
        plan(struct(a=INT), table, partition_columns=["p"])
    with pytest.raises(PartitionColumnMismatchError):
        plan(struct(a=INT, p=STRING), table, partition_columns=["p"], requested_partitioning=["a"])
    assert plan(struct(a=INT), table, rules(SQL_BY_NAME), partition_columns=["p"]).columns[1].fill is Fill.NULL
    assert is_identity(plan(struct(a=INT, p=STRING), table, partition_columns=["p"], requested_partitioning=["P"]))


def test_sql_by_name_is_stricter_where_the_session_says_so() -> None:
    table = struct(a=INT, b=INT)
    with pytest.raises(MissingColumnsError):
        plan(struct(a=INT), table, rules(SQL_BY_NAME, nulls_for_missing=False))
    plan(struct(a=INT), table, rules(SAVE_AS_TABLE, nulls_for_missing=False))
    with pytest.raises(ColumnNotFoundError):
        plan(struct(A=INT, b=INT), table, rules(SQL_BY_NAME, case_sensitive=True))
    plan(struct(A=INT, b=INT), table, rules(SAVE, case_sensitive=True))


def test_declared_lengths_are_checked_on_writing() -> None:
    table = StructType([StructField("c", STRING, True, {DECLARED_TYPE: "char(3)"})])
    assert plan(struct(c=STRING), table).length_limits == (LengthLimit(path=("c",), length=3, padded=True),)


def test_void_data_is_null_and_void_columns_are_not_written() -> None:
    planned = plan(struct(a=VOID, v=VOID), struct(a=INT, v=VOID))
    assert [column.target.name for column in planned.columns] == ["a"]
    assert planned.columns[0].conversion == Cast(INT, may_fail=True)
    with pytest.raises(VoidWriteError):
        plan(struct(a=INT), struct(a=INT, l=ArrayType(VOID)))
    with pytest.raises(SchemaMismatchError):
        plan(struct(a=INT, v=INT), struct(a=INT, v=VOID))
    assert plan(struct(a=INT, v=INT), struct(a=INT, v=VOID), rules(merge_schema=True)).schema == struct(a=INT, v=INT)


def test_new_columns_do_not_bring_another_tables_notes() -> None:
    data = struct(a=INT, b=noted(INT, comment="kept", delta__columnMapping__id=9, CURRENT_DEFAULT="1"))
    assert plan(data, struct(a=INT), rules(merge_schema=True)).schema["b"].metadata == {"comment": "kept"}


def test_a_new_table_takes_the_datas_schema_with_nulls_allowed() -> None:
    data = struct(a=required(INT), s=struct(b=required(INT)), l=ArrayType(INT, False))
    planned = plan_new_schema(data, table="sales", constraints={}, partition_columns=["A"])
    assert planned.schema == struct(a=INT, s=struct(b=INT), l=ArrayType(INT))
    assert is_identity(planned)
    assert planned.not_null_paths == ()
    with pytest.raises(InvalidPartitioningError):
        plan_new_schema(data, table="sales", constraints={}, partition_columns=["x"])
    with pytest.raises(UnsupportedTypeError):
        plan_new_schema(struct(a=_interval()), table="sales", constraints={})


def test_overwrite_schema_replaces_and_only_an_overwrite_may() -> None:
    table, data = struct(a=required(INT)), struct(b=STRING, t=TimestampType())
    planned = plan(data, table, rules(overwriting=True, overwrite_schema=True), requested_partitioning=["b"])
    assert planned.schema == data
    assert planned.schema_changed
    with pytest.raises(SchemaMismatchError):
        plan(data, struct(a=INT), rules(overwrite_schema=True))


def test_collations_do_not_hinder_a_cast() -> None:
    planned = plan(struct(a=STRING), struct(a=StringType("UNICODE")), rules(SAVE_AS_TABLE))
    assert planned.columns[0].conversion == Cast(StringType("UNICODE"))


def _interval() -> Any:
    from pyspark.sql.types import YearMonthIntervalType

    return YearMonthIntervalType()


def test_a_write_that_repeats_another_is_planned_once() -> None:
    """Unless it may change the schema, or anything differs that the plan depends on."""
    table, data = struct(a=INT, b=STRING), struct(a=INT, b=STRING)
    planned = plan(data, table)
    assert plan(struct(a=INT, b=STRING), struct(a=INT, b=STRING)) is planned
    assert plan(data, table, rules(merge_schema=True)) is not plan(data, table, rules(merge_schema=True))
    others = [
        plan(struct(a=INT, b=VOID), table),
        plan(data, struct(a=INT, b=noted(STRING, CURRENT_DEFAULT="'x'"))),
        plan(data, struct(a=INT, b=required(STRING))),
        plan(data, table, rules(SQL_BY_NAME)),
        plan(data, table, partition_columns=["a"]),
        plan_write(data, table, rules(), table="returns", constraints={}),
        plan_write(data, table, rules(), table="sales", constraints={"c": "a > 0"}),
    ]
    assert all(other is not planned for other in others)
    assert [rule.expression for rule in others[-1].row_rules] == ["a > 0"]


def test_names_that_a_query_makes_up_do_not_make_a_plan() -> None:
    """What is taken by position is planned once, whether or not its names are the table's."""
    table = struct(a=INT, s=struct(x=INT, y=INT))
    first = plan(
        StructType([StructField("(1 + 1)", INT), StructField("t", struct(x=INT, y=INT))]), table, rules(INSERT_INTO)
    )
    assert plan(struct(a2=INT, u=struct(x=INT, y=INT)), table, rules(INSERT_INTO)) is first
    # Here fields of structs are taken by name.
    swapped = struct(a=INT, s=struct(y=INT, x=INT))
    renamed = struct(a=INT, t=struct(y=INT, x=INT))
    assert (
        plan(swapped, table, rules(INSERT_INTO)).columns[1].conversion
        != plan(renamed, table, rules(INSERT_INTO)).columns[1].conversion
    )
