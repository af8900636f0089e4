"""Files are left out when, and only when, their partition values and statistics allow no row to match."""

from __future__ import annotations

import decimal
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from anabranch.data_skipping.file_skipping import (
    SkippingColumns,
    added_files_to_read,
    can_be_true,
    files_to_read,
    files_wholly_true,
    live_row_count,
)
from anabranch.log.file_columns import table_of_adds
from anabranch.predicates.expressions import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.protocol.time_zones import UTC


def add(stats: Any = None, partition: dict[str, str | None] | None = None, **fields: Any) -> AddFile:
    text = stats if stats is None or isinstance(stats, str) else json.dumps(stats)
    return AddFile(
        path="f", partition_values=partition or {}, size=1, modification_time=0, data_change=True, stats=text, **fields
    )


def bounds(lower: Any, upper: Any, *, nulls: int | None = 0, rows: int = 10, **more: Any) -> dict[str, Any]:
    stats = {"numRecords": rows, "minValues": {"c": lower}, "maxValues": {"c": upper}, **more}
    return stats if nulls is None else stats | {"nullCount": {"c": nulls}}


def kept(
    predicate: Predicate, data_type: T.DataType, *stats: Any, metadata: dict[str, Any] | None = None
) -> list[bool]:
    schema = T.StructType([T.StructField("c", data_type, True, metadata)])
    mask = added_files_to_read(predicate, [add(text) for text in stats], physical_schema=schema, partition_columns=[])
    return mask.tolist()


def compare(operator: Operator, value: Any, data_type: T.DataType) -> Comparison:
    return Comparison(operator, Column(("c",)), Literal(value, data_type))


C = Column(("c",))
LONG, TEXT, DOUBLE = T.LongType(), T.StringType(), T.DoubleType()


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (EQ, [False, True, True, True, False]),
        (NE, [True, True, True, True, True]),
        (LT, [True, True, True, False, False]),
        (LE, [True, True, True, True, False]),
        (GT, [False, False, True, True, True]),
        (GE, [False, True, True, True, True]),
    ],
)
def test_comparisons_with_five(operator: Operator, expected: list[bool]) -> None:
    files = [bounds(1, 4), bounds(1, 5), bounds(1, 9), bounds(5, 9), bounds(6, 9)]
    assert kept(compare(operator, 5, LONG), LONG, *files) == expected


def test_one_value_in_a_file() -> None:
    assert kept(compare(NE, 5, LONG), LONG, bounds(5, 5), bounds(4, 5)) == [False, True]
    assert kept(Not(In(C, (Literal(5, LONG),))), LONG, bounds(5, 5), bounds(4, 5)) == [False, True]


def test_what_is_not_said_keeps_the_file() -> None:
    """Covers race 33."""
    silent = [None, "", "{}", "no json", {"numRecords": 10}, {"minValues": {"c": 1}}, bounds(None, None), [1], "{}\n{}"]
    assert kept(compare(EQ, 5, LONG), LONG, *silent, bounds(6, 7)) == [True] * len(silent) + [False]
    assert kept(IsNull(C), LONG, *silent[:-2], "{}\n{}", bounds(1, 2, nulls=None)) == [True] * 6 + [False, True, True]


def test_nulls() -> None:
    none, some, all_of_them = bounds(1, 2, nulls=0), bounds(1, 2, nulls=4), bounds(None, None, nulls=10)
    assert kept(IsNull(C), LONG, none, some, all_of_them) == [False, True, True]
    assert kept(IsNotNull(C), LONG, none, some, all_of_them) == [True, True, False]
    assert kept(compare(NE, 7, LONG), LONG, none, some, all_of_them) == [True, True, False]
    assert kept(Not(compare(EQ, 7, LONG)), LONG, all_of_them) == [False]
    null_safe = Comparison(Operator.EQ_NULL_SAFE, C, Literal(None, LONG))
    assert kept(null_safe, LONG, none, some, all_of_them) == [False, True, True]
    assert kept(compare(EQ, None, LONG), LONG, none, some, all_of_them) == [False] * 3


def test_wide_bounds_count_nulls_only_at_their_ends() -> None:
    """Covers race 34: with hidden rows, 4 nulls of 10 may be none or all of the live ones."""
    stale = bounds(1, 9, nulls=4, tightBounds=False)
    assert kept(IsNull(C), LONG, stale) == [True]
    assert kept(IsNotNull(C), LONG, stale) == [True]
    assert kept(IsNull(C), LONG, bounds(1, 9, nulls=0, tightBounds=False)) == [False]
    assert kept(IsNotNull(C), LONG, bounds(1, 9, nulls=10, tightBounds=False)) == [False]


def test_and_or_not() -> None:
    low, high = compare(LT, 3, LONG), compare(GT, 7, LONG)
    files = [bounds(1, 2), bounds(4, 6), bounds(8, 9)]
    assert kept(And((low, high)), LONG, *files) == [False] * 3
    assert kept(Or((low, high)), LONG, *files) == [True, False, True]
    assert kept(Not(Or((low, high))), LONG, *files) == [False, True, False]
    assert kept(And((low, Unknown("?"))), LONG, *files) == [True, False, False]
    assert kept(Or((low, Unknown("?"))), LONG, *files) == [True] * 3
    assert kept(Not(And((low, Unknown("?")))), LONG, *files) == [True] * 3


def test_long_lists() -> None:
    values = tuple(Literal(number * 10, LONG) for number in range(1000))
    assert kept(In(C, values), LONG, bounds(11, 19), bounds(15, 25), bounds(20, 20)) == [False, True, True]
    texts = tuple(Literal(f"k{number:04}", TEXT) for number in range(1000))
    assert kept(In(C, texts), TEXT, bounds("a", "b"), bounds("k0001", "k0002"), bounds("z", "zz")) == [
        False,
        True,
        False,
    ]
    assert kept(In(C, ()), LONG, bounds(1, 2)) == [False]


def test_texts_cut_short() -> None:
    """Covers race 32: a truncated upper bound covers all strings with that prefix."""
    cut = bounds("a" * 32, "m" * 32)
    assert kept(compare(EQ, "m" * 40, TEXT), TEXT, cut) == [True]
    assert kept(compare(GT, "m" * 32, TEXT), TEXT, cut) == [True]
    assert kept(compare(GT, "m" * 31 + "n", TEXT), TEXT, cut) == [False]
    assert kept(StartsWith(C, "m" * 33), TEXT, cut) == [True]
    assert kept(StartsWith(C, "n"), TEXT, cut) == [False]
    assert kept(compare(EQ, "a" * 31, TEXT), TEXT, cut) == [False]
    assert kept(compare(GT, "US", TEXT), TEXT, bounds("US", "US")) == [False]


def test_texts_sort_by_their_bytes() -> None:
    """UTF-16, in which Java compares, would have them the other way round."""
    assert kept(compare(GT, "\uffff", TEXT), TEXT, bounds("a", "\U0001f600")) == [True]
    assert kept(compare(LT, "\uffff", TEXT), TEXT, bounds("\U0001f600", "\U0001f601")) == [False]


def test_beginnings() -> None:
    files = [bounds("apple", "apricot"), bounds("banana", "cherry"), bounds("aa", "z")]
    assert kept(StartsWith(C, "ap"), TEXT, *files) == [True, False, True]
    assert kept(StartsWith(C, "bz"), TEXT, *files) == [False, True, True]
    assert kept(Not(StartsWith(C, "ap")), TEXT, *files) == [False, True, True]
    assert kept(StartsWith(C, ""), TEXT, *files) == [True] * 3


def test_nan_and_zeros() -> None:
    """Covers race 35: NaN is above all numbers, and not every writer counts it."""
    ordinary, infinite = bounds(1.0, 2.0), bounds("-Infinity", "Infinity")
    assert kept(compare(GT, 5.0, DOUBLE), DOUBLE, ordinary) == [True]
    assert kept(compare(NE, 2.0, DOUBLE), DOUBLE, bounds(2.0, 2.0)) == [True]
    assert kept(compare(EQ, float("nan"), DOUBLE), DOUBLE, ordinary, infinite) == [True, True]
    assert kept(compare(EQ, 5.0, DOUBLE), DOUBLE, ordinary, infinite) == [False, True]
    assert kept(compare(LT, 0.5, DOUBLE), DOUBLE, ordinary, bounds("NaN", "NaN")) == [False, True]
    assert kept(compare(EQ, 0.0, DOUBLE), DOUBLE, bounds(-1.0, -0.0)) == [True]
    assert kept(compare(EQ, -0.0, DOUBLE), DOUBLE, bounds(0.0, 1.0)) == [True]


def test_floats_are_the_ones_nearest_to_their_text() -> None:
    nearest = float(np.float32(1.1))
    assert kept(compare(EQ, nearest, T.FloatType()), T.FloatType(), bounds(1.1, 1.1)) == [True]
    assert kept(compare(EQ, nearest, DOUBLE), T.FloatType(), bounds(1.1, 1.1)) == [True]
    assert kept(compare(EQ, 1.1, DOUBLE), T.FloatType(), bounds(1.1, 1.1)) == [False]


def test_columns_that_were_narrower() -> None:
    """Statistics from before a type change speak of the old type."""
    changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    nearest = float(np.float32(1.1))
    assert kept(compare(EQ, nearest, DOUBLE), DOUBLE, bounds(1.1, 1.1), metadata=changes) == [True]
    assert kept(compare(EQ, 1.2, DOUBLE), DOUBLE, bounds(1.1, 1.1), metadata=changes) == [False]
    assert kept(compare(EQ, 5.0, DOUBLE), DOUBLE, bounds(1, 9), bounds(6, 9)) == [True, False]
    day = 19723 * 86_400_000_000
    ntz = T.TimestampNTZType()
    assert kept(compare(EQ, day, ntz), ntz, bounds("2024-01-01", "2024-01-01")) == [True]
    assert kept(compare(EQ, day, ntz), ntz, bounds("2024-01-02", "2024-01-03")) == [False]


def test_decimals() -> None:
    money, wide = T.DecimalType(10, 2), T.DecimalType(38, 10)
    assert kept(compare(EQ, decimal.Decimal("1.10"), money), money, bounds(1.1, 1.1), bounds(1.11, 2)) == [True, False]
    assert kept(compare(GT, decimal.Decimal("1.10"), money), money, bounds(0, 1.09), bounds(0, 1.11)) == [False, True]
    # One writer puts bounds through a double, so the upper one may be below the value.
    value = decimal.Decimal("1234567890123456789.0123456789")
    through_double = bounds(0, 1234567890123456800)
    lower_than_it = bounds(0, 1234567890123456700)
    assert kept(compare(EQ, value, wide), wide, through_double, lower_than_it) == [True, True]
    assert kept(compare(EQ, value, wide), wide, bounds(0, 1234567880000000000)) == [False]


def test_timestamps_are_cut_to_milliseconds() -> None:
    """Covers race 32."""
    stamp, ntz = T.TimestampType(), T.TimestampNTZType()
    base = 1704067200_123_000
    zoned = bounds("2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.123Z")
    shifted = bounds("2024-01-01T05:30:00.123+05:30", "2023-12-31T16:00:00.123-08:00")
    for after, expected in ((999, True), (2000, False)):
        assert kept(compare(EQ, base + after, stamp), stamp, zoned, shifted) == [expected] * 2
        local = bounds("2024-01-01T00:00:00.123", "2024-01-01T00:00:00.123")
        assert kept(compare(EQ, base + after, ntz), ntz, local) == [expected]
    # Before the epoch, cutting towards it raises the lower bound.
    assert kept(compare(EQ, -1500, stamp), stamp, bounds("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z")) == [
        True
    ]
    # Without an offset the instant is unknown.
    assert kept(compare(EQ, 0, stamp), stamp, bounds("2024-01-01T00:00:00.123", "2024-01-01T00:00:00.123")) == [True]


def test_dates_and_odd_ones_beside_them() -> None:
    day = T.DateType()
    files = [
        bounds("2024-01-01", "2024-01-31"),
        bounds("2024-02-30", "2024-02-31"),
        bounds("+12024-01-01", "x"),
        bounds(1, 2),
    ]
    assert kept(compare(GT, 19800, day), day, *files) == [False, True, True, True]


def test_padded_text() -> None:
    """Covers race 35: a char compares filled up with spaces, whether the file has them or not."""
    char = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    files = [bounds("ab", "ab"), bounds("ab   ", "ab   "), bounds("b", "c")]
    for written in ("ab", "ab   "):
        assert kept(compare(EQ, written, TEXT), TEXT, *files, metadata=char) == [True, True, False]
    assert kept(compare(NE, "ab   ", TEXT), TEXT, *files, metadata=char) == [True] * 3


def test_types_without_an_order_of_ours() -> None:
    """Covers race 35 for collations."""
    folded = T.StringType("UTF8_LCASE")
    assert kept(compare(EQ, "ZZ", folded), folded, bounds("a", "b")) == [True]
    assert kept(compare(EQ, "ZZ", TEXT), folded, bounds("a", "b")) == [True]
    assert kept(IsNull(C), folded, bounds("a", "b")) == [False]
    assert kept(compare(EQ, b"z", T.BinaryType()), T.BinaryType(), bounds("a", "b")) == [True]
    assert kept(compare(EQ, True, T.BooleanType()), T.BooleanType(), bounds(False, False)) == [True]


def test_literals_of_another_type_keep_the_file() -> None:
    assert kept(compare(EQ, "5", TEXT), LONG, bounds(6, 7)) == [True]
    assert kept(compare(EQ, 5.0, DOUBLE), LONG, bounds(6, 7)) == [True]
    assert kept(compare(EQ, 2**70, T.DecimalType(38, 0)), LONG, bounds(6, 7)) == [True]
    assert kept(compare(EQ, 5, LONG), TEXT, bounds("6", "7")) == [True]
    assert kept(compare(EQ, 5, T.IntegerType()), LONG, bounds(6, 7)) == [False]


def test_nested_fields_and_odd_names() -> None:
    schema = T.StructType(
        [T.StructField("a.b", T.StructType([T.StructField("x y", LONG)])), T.StructField("l", T.ArrayType(LONG))]
    )
    stats = {"numRecords": 1, "minValues": {"a.b": {"x y": 5}}, "maxValues": {"a.b": {"x y": 6}}, "nullCount": {"l": 0}}

    def keeps(predicate: Predicate) -> bool:
        return bool(added_files_to_read(predicate, [add(stats)], physical_schema=schema, partition_columns=[])[0])

    field = Column(("a.b", "x y"))
    assert not keeps(Comparison(EQ, field, Literal(7, LONG)))
    assert keeps(Comparison(EQ, field, Literal(6, LONG)))
    assert keeps(IsNull(Column(("a.b",))))
    assert not keeps(IsNull(Column(("l",))))
    assert keeps(Comparison(EQ, Column(("nosuch",)), Literal(1, LONG)))
    assert keeps(Comparison(EQ, Column(("_metadata", "file_path")), Literal("x", TEXT)))


def test_one_odd_string_costs_only_its_own_bounds() -> None:
    odd = [
        bounds("1", "2"),
        bounds(True, False),
        bounds(1.5, 9.5),
        bounds(2**70, 2**71),
        bounds({"x": 1}, [2]),
        '{"numRecords":1',
    ]
    assert kept(compare(EQ, 5, LONG), LONG, *odd, bounds(6, 7)) == [True] * len(odd) + [False]
    deep = "[" * 100_000
    assert kept(compare(EQ, 5, LONG), LONG, deep, bounds(6, 7)) == [True, False]


PARTITIONED = T.StructType(
    [
        T.StructField("c", LONG),
        T.StructField("day", T.DateType()),
        T.StructField("country", TEXT),
        T.StructField("n", T.DecimalType(20, 2)),
        T.StructField("at", T.TimestampType()),
        T.StructField("x", DOUBLE),
    ]
)
PARTITIONS = ["day", "country", "n", "at", "x"]


def fully_matching(predicate: Predicate, *partitions: dict[str, str | None]) -> list[tuple[bool, bool]]:
    """Whether each file is kept, and whether all its rows match for sure."""
    table = table_of_adds([add(partition=values) for values in partitions])
    some = files_to_read(table, predicate, physical_schema=PARTITIONED, partition_columns=PARTITIONS)
    every = files_wholly_true(table, predicate, physical_schema=PARTITIONED, partition_columns=PARTITIONS)
    return list(zip(some.tolist(), every.tolist(), strict=True))


def of(name: str, operator: Operator, value: Any) -> Comparison:
    return Comparison(operator, Column((name,)), Literal(value, PARTITIONED[name].dataType))


def test_partition_values_are_exact() -> None:
    day = of("day", EQ, 19723)
    files: list[dict[str, str | None]] = [
        {"day": "2024-01-01"},
        {"day": "2024-01-02"},
        {"day": None},
        {"day": ""},
        {},
        {"day": "x"},
    ]
    assert fully_matching(day, *files) == [(True, True)] + [(False, False)] * 4 + [(True, False)]
    assert fully_matching(Not(day), *files) == [(False, False), (True, True)] + [(False, False)] * 3 + [(True, False)]
    assert fully_matching(IsNull(Column(("day",))), *files) == [(False, False)] * 2 + [(True, True)] * 3 + [
        (False, False)
    ]
    country = In(Column(("country",)), (Literal("DE", TEXT), Literal(None, TEXT)))
    assert fully_matching(country, {"country": "DE"}, {"country": "FR"}) == [(True, True), (False, False)]
    assert fully_matching(StartsWith(Column(("country",)), "D"), {"country": "DE"}, {"country": "FR"}) == [
        (True, True),
        (False, False),
    ]
    big = decimal.Decimal("123456789012345678.91")
    assert fully_matching(of("n", EQ, big), {"n": str(big)}, {"n": "123456789012345678.92"}) == [
        (True, True),
        (False, False),
    ]
    assert fully_matching(of("x", GT, 5.0), {"x": "NaN"}, {"x": "4"}, {"x": "6"}) == [
        (True, False),
        (False, False),
        (True, True),
    ]


def test_only_partition_values_make_a_file_wholly_true() -> None:
    both = And((of("day", EQ, 19723), of("c", EQ, 5)))
    assert fully_matching(both, {"day": "2024-01-01"}) == [(True, False)]
    assert fully_matching(Or((of("day", EQ, 19723), of("c", EQ, 5))), {"day": "2024-01-01"}) == [(True, True)]
    assert fully_matching(TRUE, {}) == [(True, True)]
    assert fully_matching(Unknown("?"), {}) == [(True, False)]


def test_partition_timestamps_without_a_zone() -> None:
    """They are local times of the writer, whose time zone is not known."""
    noon = 1704067200_000_000 + 12 * 3_600_000_000
    local, utc = {"at": "2024-01-01 12:00:00"}, {"at": "2024-01-01T12:00:00.000000Z"}
    assert fully_matching(of("at", EQ, noon), local, utc) == [(True, False), (True, True)]
    assert fully_matching(of("at", EQ, noon + 3_600_000_000), local, utc) == [(True, False), (False, False)]
    assert fully_matching(of("at", GT, noon + 19 * 3_600_000_000), local, utc) == [(False, False), (False, False)]
    columns = SkippingColumns(
        table_of_adds([add(partition=local)]),
        physical_schema=PARTITIONED,
        partition_columns=PARTITIONS,
        time_zone=UTC,
    )
    assert can_be_true(of("at", NE, noon), columns).tolist() == [False]


def test_two_columns() -> None:
    schema = T.StructType([T.StructField("a", LONG), T.StructField("b", LONG), T.StructField("t", T.IntegerType())])
    stats = {"numRecords": 1, "minValues": {"a": 1, "b": 5, "t": 9}, "maxValues": {"a": 4, "b": 8, "t": 9}}

    def keeps(operator: Operator, left: str, right: str) -> bool:
        predicate = Comparison(operator, Column((left,)), Column((right,)))
        return bool(added_files_to_read(predicate, [add(stats)], physical_schema=schema, partition_columns=[])[0])

    assert [keeps(operator, "a", "b") for operator in (EQ, LT, LE, GT, GE, NE)] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert keeps(GT, "b", "a")
    assert keeps(EQ, "a", "t")


def test_parsed_statistics_say_the_same() -> None:
    """A checkpoint has them as a struct; files of later commits have text alone."""
    schema = T.StructType(
        [T.StructField("c", T.DateType()), T.StructField("d", T.DecimalType(10, 2)), T.StructField("new", LONG)]
    )
    bounds = pa.struct([("c", pa.date32()), ("d", pa.decimal128(10, 2))])
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", pa.struct([("c", pa.int64())])),
        ]
    )
    from_checkpoint = {
        "numRecords": 3,
        "minValues": {"c": 19723, "d": decimal.Decimal("1.10")},
        "maxValues": {"c": 19725, "d": decimal.Decimal("2.20")},
        "nullCount": {"c": 3},
    }
    text = json.dumps(
        {"numRecords": 4, "minValues": {"c": "2024-02-01", "new": 5}, "maxValues": {"c": "2024-02-02", "new": 6}}
    )
    table = table_of_adds([add(), add(text), add()])
    table = table.append_column("stats_parsed", pa.array([from_checkpoint, None, None], kind))
    columns = SkippingColumns(table, physical_schema=schema, partition_columns=[])

    def keeps(name: str, operator: Operator, value: Any) -> list[bool]:
        return can_be_true(
            Comparison(operator, Column((name,)), Literal(value, schema[name].dataType)), columns
        ).tolist()

    assert can_be_true(IsNotNull(Column(("c",))), columns).tolist() == [False, True, True]
    assert keeps("c", LT, 19740) == [False, False, True]
    assert keeps("d", GT, decimal.Decimal("2.50")) == [False, True, True]
    assert keeps("new", EQ, 7) == [True, False, True]
    assert columns.num_records().to_pylist() == [3, 4, None]


def test_rows_that_live() -> None:
    vector = DeletionVectorDescriptor(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=3)
    adds = [add({"numRecords": 10}, deletion_vector=vector), add({"numRecords": 5}), add({"numRecords": 5})]
    table = table_of_adds(adds)
    columns = SkippingColumns(table, physical_schema=T.StructType(), partition_columns=[])
    assert live_row_count(columns) == 17
    assert live_row_count(columns, np.array([True, False, True])) == 12
    assert columns.hidden_rows().tolist() == [3, 0, 0]
    unsaid = SkippingColumns(table_of_adds([*adds, add()]), physical_schema=T.StructType(), partition_columns=[])
    assert live_row_count(unsaid) is None
    assert live_row_count(unsaid, np.array([True, True, True, False])) == 17


def test_no_files() -> None:
    assert kept(compare(EQ, 5, LONG), LONG) == []
    assert fully_matching(And((of("day", EQ, 1), of("c", EQ, 5)))) == []


def test_a_hundred_thousand_files_are_planned_at_once() -> None:
    """Python work per file would take a second and more."""
    stats = [json.dumps(bounds(number * 10, number * 10 + 9)) for number in range(100_000)]
    table = table_of_adds([add()]).take([0] * len(stats)).set_column(4, "stats", pa.array(stats))
    columns = SkippingColumns(table, physical_schema=T.StructType([T.StructField("c", LONG)]), partition_columns=[])

    start = time.perf_counter()
    assert can_be_true(compare(EQ, 500_005, LONG), columns).sum() == 1
    first = time.perf_counter() - start
    start = time.perf_counter()
    assert can_be_true(compare(LT, 100, LONG), columns).sum() == 10
    assert first < 2.0
    assert time.perf_counter() - start < 0.1
