"""Names of columns, partitioning, declared lengths, void."""

from __future__ import annotations

import pickle

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, CharType, MapType, StructField, StructType, VarcharType

from anabranch.errors.schema import (
    DuplicateColumnsError,
    InvalidColumnNamesError,
    InvalidPartitioningError,
    PartitionColumnMismatchError,
    ReservedColumnsError,
    VoidWriteError,
)
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.logical_types import DECLARED_TYPE, LengthLimit, check_storable, length_limits, without_void
from anabranch.schema.names import check_column_names, check_partitioning, partition_columns_of
from anabranch.schema.paths import quoted
from anabranch.schema.schema_evolution import visible_schema
from schema.schema_samples import INT, STRING, VOID, noted, struct

NONE, NAME = ColumnMappingMode.NONE, ColumnMappingMode.NAME


@pytest.mark.parametrize("character", list(" ,;{}()\n\t="))
def test_names_that_parquet_refuses_need_column_mapping(character: str) -> None:
    schema = struct(a=ArrayType(struct(**{f"x{character}y": INT})))
    with pytest.raises(InvalidColumnNamesError, match="columnMapping") as caught:
        check_column_names(schema, NONE, table="t")
    assert caught.value.columns == (f"a.element.`x{character}y`",)
    check_column_names(schema, NAME, table="t")


def test_dots_and_quotes_are_fine_names() -> None:
    check_column_names(struct(**{"a.b": INT, "a": struct(b=INT), "c`d": INT, "ü-é": INT}), NONE, table="t")
    assert quoted(["a.b", "c`d", "e"]) == "`a.b`.`c``d`.e"


def test_names_that_differ_by_case_are_duplicates_at_every_level() -> None:
    schema = struct(a=INT, m=MapType(STRING, struct(x=INT, X=INT)), A=INT)
    with pytest.raises(DuplicateColumnsError) as caught:
        check_column_names(schema, NAME, table="t")
    assert caught.value.columns == ("m.value.X (m.value.x)", "A (a)")


def test_reserved_names() -> None:
    schema = struct(_Change_Type=INT, s=struct(_commit_version=INT))
    check_column_names(schema, NONE, table="t")
    with pytest.raises(ReservedColumnsError) as caught:
        check_column_names(schema, NONE, table="t", change_data_feed=True)
    assert caught.value.columns == ("_Change_Type",)
    with pytest.raises(ReservedColumnsError):
        check_column_names(struct(a=INT), NONE, table="t", reserved=["A"])


def test_errors_are_sparks_and_survive_pickling() -> None:
    with pytest.raises(AnalysisException) as caught:
        check_column_names(struct(a=INT, A=INT), NONE, table="t")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.getCondition() == "DELTA_DUPLICATE_COLUMNS_FOUND"
    assert again.getSqlState() == "42711"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [(["x"], "no column x"), (["l"], "array<int>"), (["a", "A"], "twice"), (["v"], "void"), (["s"], "struct")],
)
def test_partitioning_that_cannot_be(columns: list[str], reason: str) -> None:
    with pytest.raises(InvalidPartitioningError, match=reason):
        partition_columns_of(struct(a=INT, l=ArrayType(INT), v=VOID, s=struct(b=INT)), columns, table="t")


def test_partitioning() -> None:
    assert partition_columns_of(struct(a=INT, b=INT), ["B"], table="t") == ("b",)
    with pytest.raises(InvalidPartitioningError, match="remain"):
        partition_columns_of(struct(a=INT, b=INT), ["b", "a"], table="t")
    check_partitioning([], ["a"], table="t", overwriting=False)
    check_partitioning(["A"], ["a"], table="t", overwriting=False)
    with pytest.raises(
        PartitionColumnMismatchError, match="partitioned by a, b, and the write has the partition columns b, a"
    ) as caught:
        check_partitioning(["b", "a"], ["a", "b"], table="t", overwriting=True)
    assert "overwriteSchema" in str(caught.value)


def test_declared_lengths() -> None:
    schema = StructType(
        [
            StructField("c", CharType(5)),
            StructField("n", struct(**{"x,y": VarcharType(3), "m": MapType(CharType(2), ArrayType(VarcharType(9)))})),
            StructField("s", STRING, True, {DECLARED_TYPE: "struct<`a b`:int,broken"}),
            StructField("i", INT, True, {DECLARED_TYPE: "char(5)"}),
            StructField(
                "old", struct(kept=STRING, new=STRING), True, {DECLARED_TYPE: "struct<gone:char(1),kept:varchar(2)>"}
            ),
        ]
    )
    quoted_name = StructField("q", struct(**{"x,y": STRING}), True, {DECLARED_TYPE: "struct<`x,y`:char(4)>"})
    assert length_limits(StructType([*schema.fields, quoted_name])) == [
        LengthLimit(path=("c",), length=5, padded=True),
        LengthLimit(path=("n", "x,y"), length=3, padded=False),
        LengthLimit(path=("n", "m", "key"), length=2, padded=True),
        LengthLimit(path=("n", "m", "value", "element"), length=9, padded=False),
        LengthLimit(path=("old", "kept"), length=2, padded=False),
        LengthLimit(path=("q", "x,y"), length=4, padded=True),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        struct(a=INT, l=ArrayType(VOID)),
        struct(a=INT, l=ArrayType(struct(x=INT, v=VOID))),
        struct(a=INT, m=MapType(STRING, VOID)),
        struct(a=INT, s=struct(x=VOID)),
        struct(a=INT, s=struct(t=struct(x=VOID))),
        struct(a=VOID),
    ],
)
def test_void_where_it_cannot_be_left_out(schema: StructType) -> None:
    with pytest.raises(VoidWriteError):
        check_storable(schema, table="t")


def test_void_that_can_be_left_out() -> None:
    schema = struct(a=INT, v=VOID, s=struct(x=INT, v=VOID))
    check_storable(schema, table="t")
    assert without_void(schema) == struct(a=INT, s=struct(x=INT))


def test_users_do_not_see_the_tables_notes() -> None:
    hidden = {"delta.columnMapping.id": 1, "delta.typeChanges": [], "CURRENT_DEFAULT": "1", "delta.identity.start": 1}
    schema = struct(a=noted(INT, comment="kept", **hidden), s=struct(b=noted(INT, **hidden)))
    assert visible_schema(schema) == struct(a=noted(INT, comment="kept"), s=struct(b=INT))
