"""Schemas after ALTER TABLE, without a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.errors.alterations import NotAStructError, UnsupportedColumnChangeError
from anabranch.errors.schema import ColumnNotFoundError, MalformedSchemaError
from anabranch.schema.column_changes import (
    FIRST,
    ColumnChange,
    NewColumn,
    Position,
    is_in_structs,
    spelled,
    with_change,
    with_column,
    with_field,
    without_column,
)
from anabranch.schema.computed_columns import LONG_MAX, LONG_MIN, IdentityNumbering, identity_of
from anabranch.schema.paths import find
from anabranch.schema.replaced_columns import replaced_columns, with_renamed_stats_column, without_stats_column
from anabranch.schema.schema_evolution import TYPE_CHANGES
from anabranch.schema.write_rules import row_rules
from schema.schema_samples import INT, LONG, SHORT, STRING, noted, struct

NESTED = struct(
    a=INT, s=struct(x=INT, y=struct(z=LONG)), l=ArrayType(struct(k=INT)), m=MapType(STRING, ArrayType(struct(v=INT)))
)


def names(schema: DataType | None) -> list[str]:
    assert isinstance(schema, StructType)
    return schema.names


def inner(schema: StructType, *path: str) -> list[str]:
    field = find(schema, path)
    assert field is not None
    return names(field.dataType)


@pytest.mark.parametrize(
    ("path", "position", "expected"),
    [
        (("b",), None, ["a", "s", "l", "m", "b"]),
        (("b",), FIRST, ["b", "a", "s", "l", "m"]),
        (("b",), Position(after="S"), ["a", "s", "b", "l", "m"]),
    ],
)
def test_a_new_column_goes_to_its_position(
    path: tuple[str, ...], position: Position | None, expected: list[str]
) -> None:
    schema = with_column(NESTED, NewColumn(path=path, data_type=INT, position=position), table="t")
    assert names(schema) == expected


def test_nested_columns_come_and_go() -> None:
    grown = with_column(NESTED, NewColumn(path=("S", "Y", "w"), data_type=INT, position=FIRST), table="t")
    assert inner(grown, "s", "y") == ["w", "z"]
    in_map = with_column(NESTED, NewColumn(path=("m", "value", "element", "w"), data_type=INT), table="t")
    kind = in_map["m"].dataType
    assert isinstance(kind, MapType)
    assert isinstance(kind.valueType, ArrayType)
    assert names(kind.valueType.elementType) == ["v", "w"]
    assert inner(without_column(grown, ("s", "y", "w"), table="t"), "s", "y") == ["z"]
    with pytest.raises(UnsupportedColumnChangeError, match="only column"):
        without_column(NESTED, ("l", "element", "k"), table="t")
    for path in [("a", "b"), ("l", "k"), ("m", "element"), ("m", "key", "b")]:
        with pytest.raises(NotAStructError):
            without_column(NESTED, path, table="t")
    with pytest.raises(ColumnNotFoundError, match=r"s\.q"):
        without_column(NESTED, ("s", "q"), table="t")


def test_paths_as_the_schema_spells_them() -> None:
    assert spelled(NESTED, ("M", "VALUE", "Element", "V"), table="t") == ("m", "value", "element", "v")
    assert is_in_structs(NESTED, ("s", "y", "z"))
    assert not is_in_structs(NESTED, ("l", "element", "k"))


def test_a_column_moves_among_its_own() -> None:
    def same(field: StructField) -> StructField:
        return field

    moved = with_field(NESTED, ("m",), same, position=Position(after="a"), table="t")
    assert names(moved) == ["a", "m", "s", "l"]
    assert with_field(NESTED, ("s",), same, position=Position(after="S"), table="t") == NESTED
    assert inner(with_field(NESTED, ("s", "y"), same, position=FIRST, table="t"), "s") == ["y", "x"]


def test_every_type_change_is_written_down() -> None:
    schema = struct(a=SHORT, l=ArrayType(SHORT))
    wider = with_change(schema, ColumnChange(path=("a",), data_type=INT), widens=True, table="t")
    widest = with_change(wider, ColumnChange(path=("a",), data_type=LONG), widens=True, table="t")
    assert [(entry["fromType"], entry["toType"]) for entry in widest["a"].metadata[TYPE_CHANGES]] == [
        ("short", "integer"),
        ("integer", "long"),
    ]
    element = with_change(schema, ColumnChange(path=("l", "element"), data_type=INT), widens=True, table="t")
    assert element["l"].metadata[TYPE_CHANGES][0]["fieldPath"] == "element"


def test_replaced_columns_keep_their_identity() -> None:
    old = StructType(
        [StructField("a", INT, True, {"delta.columnMapping.id": 1, "comment": "x"}), StructField("b", INT)]
    )
    replaced = replaced_columns(old, struct(b=LONG, A=INT), widens=True, table="t")
    assert replaced.schema.names == ["b", "a"]
    assert replaced.schema["a"].metadata == {"delta.columnMapping.id": 1, "comment": "x"}
    assert (replaced.dropped, replaced.retyped) == ((), (("b",),))
    assert replaced_columns(old, struct(a=INT), widens=False, table="t").dropped == (("b",),)
    with pytest.raises(UnsupportedColumnChangeError, match="NOT NULL"):
        replaced_columns(old, StructType([old["a"], StructField("b", INT, False)]), widens=False, table="t")


def test_stats_columns_follow() -> None:
    properties = {"delta.dataSkippingStatsColumns": "a,`s`.x,s.y.z", "k": "v"}
    renamed = with_renamed_stats_column(properties, ("s",), "odd name")
    assert renamed["delta.dataSkippingStatsColumns"] == "a,`odd name`.x,`odd name`.y.z"
    assert without_stats_column(properties, ("S", "y"))["delta.dataSkippingStatsColumns"] == "a,s.x"
    assert without_stats_column({"k": "v"}, ("a",)) == {"k": "v"}


def test_rules_of_rows() -> None:
    invariant = '{"expression": {"expression": "x > 3"}}'
    note = {"delta.invariants": invariant}
    schema = StructType(
        [
            StructField("s", StructType([StructField("x", INT, True, note)])),
            StructField("l", ArrayType(StructType([StructField("y", INT, True, note)]))),
        ]
    )
    rules = row_rules(schema, {"c": "s.x < 9"})
    assert [(rule.owner, rule.expression) for rule in rules] == [
        ("CHECK constraint c", "s.x < 9"),
        ("invariant of column s.x", "x > 3"),
    ]
    for broken in ["x > 3", "{}", "[]", '{"expression": null}', '{"expression": {"expression": 1}}']:
        with pytest.raises(MalformedSchemaError, match="no expression"):
            row_rules(StructType([StructField("x", INT, True, {"delta.invariants": broken})]), {})


STEPS = st.integers(-1000, 1000).filter(bool)
VALUES = st.integers(-(10**6), 10**6)


@given(start=VALUES, step=STEPS, mark=st.none() | VALUES, candidates=st.lists(VALUES, max_size=5))
def test_the_mark_of_an_identity_column(start: int, step: int, mark: int | None, candidates: list[int]) -> None:
    """It stays on the column's own steps, never goes back, and the next value is behind all that it knows."""
    forward = 1 if step > 0 else -1
    identity = IdentityNumbering(start=start, step=step, allow_explicit=True, high_water_mark=mark)
    for candidate in candidates:
        moved = identity.mark_after(candidate)
        if (candidate - start) * forward < 0:
            assert moved == identity.high_water_mark
        else:
            assert moved is not None
            assert (moved - start) % step == 0
            assert (moved - candidate) * forward >= 0 or moved == identity.high_water_mark
        if identity.high_water_mark is not None and (identity.high_water_mark - start) * forward >= 0:
            assert moved is not None
            assert (moved - identity.high_water_mark) * forward >= 0
        identity = IdentityNumbering(start=start, step=step, allow_explicit=True, high_water_mark=moved)
        assert (identity.next_value - start) % step == 0
        assert (identity.next_value - start) * forward >= 0
        if (candidate - start) * forward >= 0:
            assert (identity.next_value - candidate) * forward > 0


def test_the_mark_stays_a_bigint() -> None:
    identity = IdentityNumbering(start=0, step=10, allow_explicit=True, high_water_mark=None)
    assert identity.mark_after(LONG_MAX) == LONG_MAX // 10 * 10


@pytest.mark.parametrize(
    "wrong",
    [{"start": "1"}, {"step": 0}, {"step": None}, {"start": LONG_MAX + 1}, {"start": LONG_MIN - 1}, {"explicit": 1}],
)
def test_identity_columns_that_are_none(wrong: dict[str, object]) -> None:
    values = {"start": 1, "step": 1, "explicit": True, **wrong}
    field = noted(
        LONG,
        delta__identity__start=values["start"],
        delta__identity__step=values["step"],
        delta__identity__allowExplicitInsert=values["explicit"],
    )
    with pytest.raises(MalformedSchemaError, match="identity"):
        identity_of(StructField("i", *_parts(field)))


def _parts(noted_field: object) -> tuple[DataType, bool, dict[str, object]]:
    field = struct(i=noted_field)["i"]  # type: ignore[arg-type]
    return field.dataType, field.nullable, dict(field.metadata)
