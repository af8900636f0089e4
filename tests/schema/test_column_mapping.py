"""Logical and physical names, ids, and what must hold between them."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from anabranch.errors.schema import (
    ColumnMappingChangeError,
    ColumnNotFoundError,
    InvalidColumnMappingError,
    UnknownColumnMappingModeError,
)
from anabranch.schema.column_mapping import (
    ID,
    NESTED_IDS,
    PHYSICAL_NAME,
    ColumnMappingMode,
    assign_ids_and_names,
    check_mapping,
    check_mode_change,
    has_mapping,
    logical_path,
    max_column_id,
    physical_name,
    physical_path,
    physical_paths,
    random_names,
    reuse_mapping,
    strip_mapping,
    to_physical,
    with_field_ids,
)
from anabranch.schema.paths import find, walk
from schema.schema_samples import INT, LONG, STRING, noted, schemas, struct

NONE, NAME, BY_ID = ColumnMappingMode.NONE, ColumnMappingMode.NAME, ColumnMappingMode.ID
PLAIN = struct(a=INT, s=struct(b=STRING, m=MapType(STRING, struct(c=LONG))), l=ArrayType(struct(d=INT)))


def mapped(schema: StructType = PLAIN, *, max_id: int = 0, keep_names: bool = False) -> StructType:
    return assign_ids_and_names(schema, max_id, keep_names=keep_names, new_name=random_names(random.Random(7)))[0]


@given(schemas, st.integers())
def test_every_path_goes_to_physical_names_and_back(schema: StructType, seed: int) -> None:
    ours, max_id = assign_ids_and_names(schema, 0, keep_names=False, new_name=random_names(random.Random(seed)))
    check_mapping(ours, NAME, max_id, table="t")
    physical = to_physical(ours, NAME)
    for path, field in physical_paths(ours, NAME).items():
        assert physical_path(ours, path, NAME) == field
        assert logical_path(ours, field, NAME) == path
        physical_field = find(physical, field)
        assert physical_field is not None
        assert physical_field.name == field[-1]


@given(schemas)
def test_ids_count_up_parents_before_children(schema: StructType) -> None:
    ours, max_id = assign_ids_and_names(schema, 10, keep_names=True, new_name=random_names(random.Random(0)))
    ids = [field.metadata[ID] for _, field in walk(ours)]
    assert ids == list(range(11, 11 + len(ids)))
    assert max_id == 10 + len(ids)
    assert [field.metadata[PHYSICAL_NAME] for _, field in walk(ours)] == [field.name for _, field in walk(schema)]
    assert strip_mapping(ours) == strip_mapping(schema)


def test_new_columns_get_fresh_ids_and_old_ones_keep_theirs() -> None:
    old = mapped()
    grown = StructType([*old.fields, StructField("z", struct(y=INT))])
    ours, max_id = assign_ids_and_names(grown, 20, keep_names=False, new_name=random_names(random.Random(1)))
    assert ours.fields[:-1] == old.fields
    assert [field.metadata[ID] for path, field in walk(ours) if path[0] == "z"] == [21, 22]
    assert max_id == 22


def test_names_look_like_deltas() -> None:
    assert re.fullmatch(
        r"col-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", random_names(random.Random(3))()
    )


def test_paths_follow_case_and_collections() -> None:
    ours = mapped()
    path = physical_path(ours, ("S", "M", "value", "C"), NAME)
    assert path[0].startswith("col-")
    assert path[2] == "value"
    assert logical_path(ours, path, NAME) == ("s", "m", "value", "c")
    assert physical_path(ours, ("l", "element"), NAME)[1] == "element"
    with pytest.raises(ColumnNotFoundError):
        physical_path(ours, ("s", "nope"), NAME)
    assert logical_path(ours, ("nope",), NAME) is None


def test_without_mapping_names_are_what_they_are() -> None:
    ours = mapped()
    assert to_physical(ours, NONE) == ours
    assert physical_name(ours.fields[0], NONE) == "a"
    assert physical_path(ours, ("s", "b"), NONE) == ("s", "b")


def test_parquet_gets_ids_nested_ones_too() -> None:
    schema = struct(m=MapType(STRING, ArrayType(INT)), s=struct(l=ArrayType(STRING)))
    ours, max_id = assign_ids_and_names(
        schema, 0, keep_names=True, new_name=random_names(random.Random(0)), with_nested_ids=True
    )
    assert ours["m"].metadata[NESTED_IDS] == {"m.key": 4, "m.value": 5, "m.value.element": 6}
    assert ours["s"].dataType["l"].metadata[NESTED_IDS] == {"l.element": 7}
    assert max_id == max_column_id(ours) == 7
    check_mapping(ours, NAME, max_id, table="t")
    parquet = with_field_ids(to_physical(ours, NAME))
    assert parquet["m"].metadata["parquet.field.id"] == 1
    assert parquet["m"].metadata["parquet.field.nested.ids"] == ours["m"].metadata[NESTED_IDS]
    assert not has_mapping(strip_mapping(parquet))


def test_nested_ids_do_not_change() -> None:
    schema = struct(l=ArrayType(INT))
    names = random_names(random.Random(0))
    once = assign_ids_and_names(schema, 0, keep_names=False, new_name=names, with_nested_ids=True)
    assert assign_ids_and_names(*once, keep_names=False, new_name=names, with_nested_ids=True) == once


@pytest.mark.parametrize(
    ("schema", "max_id", "fault"),
    [
        (struct(a=INT), 5, "no id"),
        (struct(a=noted(INT, delta__columnMapping__id=1)), 5, "physical name"),
        (struct(a=noted(INT, **{ID: "1", PHYSICAL_NAME: "x"})), 5, "32-bit"),
        (struct(a=noted(INT, **{ID: True, PHYSICAL_NAME: "x"})), 5, "32-bit"),
        (struct(a=noted(INT, **{ID: 2**31, PHYSICAL_NAME: "x"})), 5, "32-bit"),
        (struct(a=noted(INT, **{ID: 1, PHYSICAL_NAME: 3})), 5, "physical name"),
        (struct(a=noted(INT, **{ID: 1, PHYSICAL_NAME: "x", NESTED_IDS: {"x.element": "2"}})), 5, "32-bit"),
        (struct(a=noted(INT, **{ID: 1, PHYSICAL_NAME: "x"}), b=noted(INT, **{ID: 1, PHYSICAL_NAME: "y"})), 5, "also"),
        (struct(a=noted(INT, **{ID: 1, PHYSICAL_NAME: "x"}), b=noted(INT, **{ID: 2, PHYSICAL_NAME: "x"})), 5, "same"),
        (struct(a=noted(INT, **{ID: 7, PHYSICAL_NAME: "x"})), 6, "above"),
        (struct(a=noted(INT, **{ID: 7, PHYSICAL_NAME: "x"})), None, "not set"),
    ],
)
def test_mappings_that_could_mix_columns_up_are_refused(schema: StructType, max_id: int | None, fault: str) -> None:
    with pytest.raises(InvalidColumnMappingError, match=fault):
        check_mapping(schema, BY_ID, max_id, table="t")
    check_mapping(schema, NONE, max_id, table="t")


def test_an_overwrite_keeps_the_identity_of_columns_that_stay() -> None:
    old = mapped(struct(a=INT, b=INT, s=struct(c=INT)))
    new = reuse_mapping(struct(A=INT, b=LONG, s=struct(c=INT), d=INT), old)
    assert new["A"].metadata == old["a"].metadata
    assert new["s"] == old["s"]
    assert not new["b"].metadata
    assert not new["d"].metadata


def test_modes() -> None:
    assert ColumnMappingMode.parse("NAME") is NAME
    assert ColumnMappingMode.parse(None) is NONE
    with pytest.raises(UnknownColumnMappingModeError, match="'uuid'"):
        ColumnMappingMode.parse("uuid")
    check_mode_change(NONE, NAME)
    check_mode_change(BY_ID, BY_ID)
    with pytest.raises(ColumnMappingChangeError):
        check_mode_change(NONE, BY_ID)
    with pytest.raises(ColumnMappingChangeError):
        check_mode_change(NAME, NONE)
