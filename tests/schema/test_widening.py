"""Type widening: which changes there are, and the record of them."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from anabranch.errors.protocol import UnknownTypeError
from anabranch.errors.schema import InvalidTypeChangeError, MalformedSchemaError
from anabranch.schema.casts import can_ansi_cast, can_legacy_cast, can_up_cast
from anabranch.schema.schema_evolution import (
    TYPE_CHANGES,
    TypeChange,
    all_type_changes,
    check_type_changes,
    is_iceberg_change,
    is_supported_change,
    read_type_changes,
    record_type_changes,
    without_type_changes,
)
from schema.schema_samples import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NTZ,
    SHORT,
    STRING,
    TIMESTAMP,
    VOID,
    noted,
    struct,
)

D10, D20 = DecimalType(10, 0), DecimalType(20, 0)
SUPPORTED = {
    (BYTE, SHORT), (BYTE, INT), (BYTE, LONG), (SHORT, INT), (SHORT, LONG), (INT, LONG),
    (FLOAT, DOUBLE), (BYTE, DOUBLE), (SHORT, DOUBLE), (INT, DOUBLE), (DATE, NTZ),
    (BYTE, D10), (SHORT, D10), (INT, D10), (BYTE, D20), (SHORT, D20), (INT, D20), (LONG, D20), (D10, D20),
}  # fmt: skip
ALL = [BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, NTZ, STRING, BINARY, BOOLEAN, D10, D20]


def test_the_list_of_the_protocol_and_no_more() -> None:
    assert {pair for pair in itertools.permutations(ALL, 2) if is_supported_change(*pair)} == SUPPORTED


def test_decimals_widen_without_losing_digits_on_either_side() -> None:
    assert is_supported_change(DecimalType(5, 2), DecimalType(7, 4))
    assert not is_supported_change(DecimalType(5, 2), DecimalType(6, 4))
    assert not is_supported_change(DecimalType(5, 2), DecimalType(7, 1))
    assert is_supported_change(INT, DecimalType(12, 2))
    assert not is_supported_change(INT, DecimalType(11, 2))


def test_iceberg_follows_fewer() -> None:
    followed = {pair for pair in SUPPORTED if is_iceberg_change(*pair)}
    integers = {(BYTE, SHORT), (BYTE, INT), (BYTE, LONG), (SHORT, INT), (SHORT, LONG), (INT, LONG)}
    assert followed == integers | {(FLOAT, DOUBLE), (D10, D20)}
    assert not is_iceberg_change(DecimalType(5, 2), DecimalType(7, 3))


def test_changes_are_recorded_at_the_nearest_field() -> None:
    old = struct(a=SHORT, m=MapType(FLOAT, ArrayType(DecimalType(6, 2))), s=struct(x=INT), v=VOID)
    new = struct(a=INT, m=MapType(DOUBLE, ArrayType(DecimalType(10, 4))), s=struct(x=LONG), v=INT, n=INT)
    ours = record_type_changes(new, old)
    assert ours["a"].metadata[TYPE_CHANGES] == [{"fromType": "short", "toType": "integer"}]
    assert ours["m"].metadata[TYPE_CHANGES] == [
        {"fromType": "float", "toType": "double", "fieldPath": "key"},
        {"fromType": "decimal(6,2)", "toType": "decimal(10,4)", "fieldPath": "value.element"},
    ]
    assert ours["s"].metadata == {}
    assert ours["s"].dataType["x"].metadata[TYPE_CHANGES] == [{"fromType": "integer", "toType": "long"}]
    assert not ours["v"].metadata
    assert not ours["n"].metadata
    assert [path for path, _ in all_type_changes(ours)] == [("a",), ("m", "key"), ("m", "value", "element"), ("s", "x")]
    check_type_changes(ours, "t")
    assert without_type_changes(ours) == new


def test_later_changes_follow_earlier_ones() -> None:
    first = record_type_changes(struct(a=SHORT), struct(a=BYTE))
    wider = StructType([type(first["a"])("a", LONG, True, first["a"].metadata)])
    changes = read_type_changes(record_type_changes(wider, first)["a"])
    assert changes == [
        TypeChange(old=BYTE, new=SHORT),
        TypeChange(old=SHORT, new=LONG),
    ]


def test_records_of_other_writers_are_read() -> None:
    entries = [{"fromType": "int", "toType": "BIGINT"}, {"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)"}]
    field = struct(a=noted(LONG, **{TYPE_CHANGES: entries})).fields[0]
    assert read_type_changes(field) == [
        TypeChange(old=INT, new=LONG),
        TypeChange(old=DecimalType(6, 2), new=DecimalType(10, 4)),
    ]


@pytest.mark.parametrize(
    "entries",
    [
        {},
        ["x"],
        [{"fromType": "int"}],
        [{"fromType": "x", "toType": "int"}],
        [{"fromType": "int", "toType": "long", "fieldPath": 3}],
    ],
)
def test_malformed_records_are_refused(entries: object) -> None:
    with pytest.raises((MalformedSchemaError, UnknownTypeError)):
        all_type_changes(struct(a=noted(LONG, **{TYPE_CHANGES: entries})))


def test_a_change_that_no_reader_can_follow_is_refused_by_name() -> None:
    bad = struct(s=struct(a=noted(INT, **{TYPE_CHANGES: [{"fromType": "string", "toType": "integer"}]})))
    with pytest.raises(InvalidTypeChangeError, match=r"s\.a of t was changed from string to int"):
        check_type_changes(bad, "t")
    check_type_changes(struct(a=noted(STRING, **{TYPE_CHANGES: [{"fromType": "char(3)", "toType": "string"}]})), "t")


@pytest.mark.parametrize(
    ("source", "target", "up", "ansi", "legacy"),
    [
        (INT, LONG, True, True, True),
        (LONG, INT, False, True, True),
        (INT, FLOAT, True, True, True),
        (INT, STRING, True, True, True),
        (STRING, INT, False, True, True),
        (BOOLEAN, INT, False, True, True),
        (INT, DATE, False, False, False),
        (INT, TIMESTAMP, False, True, True),
        (DATE, TIMESTAMP, True, True, True),
        (TIMESTAMP, DATE, False, True, True),
        (TIMESTAMP, NTZ, True, True, True),
        (DATE, INT, False, False, True),
        (BOOLEAN, TIMESTAMP, False, False, True),
        (INT, BINARY, False, False, True),
        (BINARY, INT, False, False, False),
        (DATE, BOOLEAN, False, False, True),
        (INT, DecimalType(10, 0), True, True, True),
        (INT, DecimalType(9, 0), False, True, True),
        (DecimalType(9, 0), INT, True, True, True),
        (DecimalType(10, 0), INT, False, True, True),
    ],
)
def test_casts_are_sparks(source: DataType, target: DataType, up: bool, ansi: bool, legacy: bool) -> None:
    outcome = can_up_cast(source, target), can_ansi_cast(source, target), can_legacy_cast(source, target)
    assert outcome == (up, ansi, legacy)
