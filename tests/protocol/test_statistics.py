"""Statistics of files: their JSON, their bounds, and the columns that have them."""

from __future__ import annotations

import datetime
import json
import math
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
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
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from anabranch.errors.protocol import InvalidPropertyError, InvalidStatisticsError
from anabranch.protocol.actions import AddFile
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.statistics import (
    FileStatistics,
    check_stats_columns,
    has_bounds,
    indexed_columns,
    lower_bound,
    truncate_max,
    upper_bound,
)

UTC = datetime.UTC
TOP = "\U0010ffff"


def test_the_json_is_that_of_the_protocol() -> None:
    statistics = FileStatistics.of_leaves(
        3,
        {
            ("id",): (1, 3, 0),
            ("a", "b", "c"): (Decimal("1.10"), Decimal("12345678901234567890.12"), 1),
            ("name",): ("x", "y", 0),
            ("day",): (datetime.date(2024, 1, 1), datetime.date(2024, 1, 31), 0),
            ("at",): (
                datetime.datetime(2024, 1, 1, 0, 0, 0, 1001, UTC),
                datetime.datetime(2024, 1, 1, 0, 0, 0, 1001, UTC),
                0,
            ),
            ("local",): (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 5000), 0),
            ("raw",): (b"a", b"b", 2),
            ("flag",): (False, True, 0),
            ("list",): (None, None, 1),
            ("empty",): (None, None, 3),
        },
        types={
            ("id",): LongType(),
            ("a", "b", "c"): DecimalType(38, 2),
            ("name",): StringType(),
            ("day",): DateType(),
            ("at",): TimestampType(),
            ("local",): TimestampNTZType(),
            ("raw",): BinaryType(),
            ("flag",): BooleanType(),
            ("list",): ArrayType(LongType()),
            ("empty",): DoubleType(),
        },
    )
    assert statistics.to_json() == (
        '{"numRecords":3,'
        '"minValues":{"id":1,"a":{"b":{"c":1.10}},"name":"x","day":"2024-01-01","at":"2024-01-01T00:00:00.001Z",'
        '"local":"2024-01-01T00:00:00.000"},'
        '"maxValues":{"id":3,"a":{"b":{"c":12345678901234567890.12}},"name":"y","day":"2024-01-31",'
        '"at":"2024-01-01T00:00:00.002Z","local":"2024-01-01T00:00:00.005"},'
        '"nullCount":{"id":0,"a":{"b":{"c":1}},"name":0,"day":0,"at":0,"local":0,"raw":2,"flag":0,"list":1,"empty":3},'
        '"tightBounds":true}'
    )
    again = FileStatistics.from_json(statistics.to_json())
    assert again == statistics
    assert again.to_json() == statistics.to_json()


def test_columns_that_nothing_is_known_of_are_left_out() -> None:
    types: dict[tuple[str, ...], DataType] = {("a",): LongType(), ("b", "c"): LongType()}
    statistics = FileStatistics.of_leaves(5, {("z",): (1, 2, 0)}, types=types, tight_bounds=None)
    assert statistics.to_json() == '{"numRecords":5,"minValues":{},"maxValues":{},"nullCount":{}}'


def test_reading_is_lossless() -> None:
    text = (
        '{"numRecords":1,"minValues":{"d":0.1000000000000000055511151231257827,"n":null},'
        '"maxValues":{"d":1E+3,"f":1e-7},"nullCount":{"n":1},"tightBounds":false,"sizes":{"a":[1,null]}}'
    )
    statistics = FileStatistics.from_json(text)
    assert statistics.min_values == {"d": Decimal("0.1000000000000000055511151231257827")}
    assert statistics.unknown == {"sizes": {"a": [1, None]}}
    again = json.loads(statistics.to_json(), parse_float=Decimal)
    assert again["maxValues"] == {"d": Decimal(1000), "f": Decimal("1e-7")}
    assert again["sizes"] == {"a": [1, None]}
    assert again["tightBounds"] is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"numRecords":-1}',
        '{"numRecords":"5"}',
        '{"numRecords":true}',
        '{"numRecords":1.5}',
        '{"numRecords":9223372036854775808}',
        '{"minValues":[]}',
        '{"nullCount":3}',
        '{"tightBounds":"yes"}',
        '{"minValues":' + '{"a":' * 500 + "1" + "}" * 501,
        '{"minValues":' + "[" * 100_000,
        "\ud800",
    ],
)
def test_what_is_no_statistics_is_refused(text: str) -> None:
    with pytest.raises(InvalidStatisticsError):
        FileStatistics.from_json(text)


def test_numbers_of_records_may_be_missing_or_written_as_decimals() -> None:
    assert FileStatistics.from_json("{}").num_records is None
    assert FileStatistics.from_json('{"numRecords":5.0}').num_records == 5
    assert FileStatistics.from_json("{}").to_json() == '{"minValues":{},"maxValues":{},"nullCount":{}}'


def test_widening_bounds_keeps_what_stays_true() -> None:
    tight = FileStatistics(
        num_records=10, null_count={"all": 8, "none": 0, "some": 3, "s": {"all": 8}}, tight_bounds=True
    )
    wide = tight.with_wide_bounds(hidden_rows=2)
    assert wide.null_count == {"all": 10, "none": 0, "some": 3, "s": {"all": 10}}
    assert wide.tight_bounds is False
    assert wide.with_wide_bounds(hidden_rows=5) == wide
    fresh = FileStatistics(num_records=10, null_count={"all": 10, "some": 8})
    assert fresh.with_wide_bounds().null_count == {"all": 10, "some": 8}


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abc\x7f"),
        ("abc~", 3, "abc\x7f"),
        ("abc\x7f", 3, f"abc{TOP}"),
        ("abcé", 3, f"abc{TOP}"),
        ("abc" + TOP, 3, "abc" + TOP),
        ("abc" + TOP + "d", 3, "abc" + TOP + "\x7f"),
        ("abc" + TOP * 2 + "é", 3, "abc" + TOP * 3),
        (TOP * 6, 3, TOP * 6),
        (TOP * 7, 3, None),
        (TOP * 6 + "a", 3, TOP * 6 + "\x7f"),
        ("\U0001f600" * 4, 3, "\U0001f600" * 3 + TOP),
        ("a", 0, None),
        ("", 0, ""),
        ("a\ud800", 5, None),
    ],
)
def test_truncated_maximum(text: str, length: int, expected: str | None) -> None:
    assert truncate_max(text, length) == expected


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(["\x7f", "~", TOP, "\U0010fffe", "é"]))


@given(st.lists(TEXT, min_size=1), st.integers(0, 5))
def test_bounds_of_strings_hold_in_utf8(values: list[str], length: int) -> None:
    encoded = sorted(value.encode() for value in values)
    low = lower_bound(encoded[0].decode(), StringType(), prefix_length=length)
    high = upper_bound(encoded[-1].decode(), StringType(), prefix_length=length)
    assert low.encode() <= encoded[0]
    assert len(low) <= length
    if high is not None:
        assert high.encode() >= encoded[-1]
        assert len(high) <= max(2 * length + 1, length)


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_000_000))
def test_bounds_of_timestamps_hold_for_every_reader(micros: int) -> None:
    """Whether a reader takes the maximum at its word or adds a millisecond, as Delta does."""
    for kind in (TimestampType(), TimestampNTZType()):
        low = np.datetime64(lower_bound(micros, kind, prefix_length=32).rstrip("Z"), "us").astype(np.int64)
        high = np.datetime64(upper_bound(micros, kind, prefix_length=32).rstrip("Z"), "us").astype(np.int64)
        assert low <= micros <= high
        assert high - low <= 1000


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (math.nan, DoubleType()),
        (math.inf, DoubleType()),
        (-math.inf, FloatType()),
        (np.datetime64("10000-01-01"), DateType()),
        (np.datetime64("0000-12-31"), DateType()),
        (np.datetime64("10000-01-01T00:00:00", "us"), TimestampNTZType()),
        (2**63 - 1, TimestampType()),
    ],
)
def test_values_that_readers_may_not_understand_give_no_bound(value: Any, data_type: DataType) -> None:
    assert lower_bound(value, data_type, prefix_length=32) is None
    assert upper_bound(value, data_type, prefix_length=32) is None


def test_the_last_moment_of_9999_has_no_upper_bound() -> None:
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert lower_bound(last, TimestampNTZType(), prefix_length=32) == "9999-12-31T23:59:59.999"
    assert upper_bound(last, TimestampNTZType(), prefix_length=32) is None


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bounds_of_floats_read_back_as_the_same_float(value: float) -> None:
    bound = upper_bound(value, FloatType(), prefix_length=32)
    assert np.float32(json.loads(json.dumps(bound))) == np.float32(value)
    assert upper_bound(np.float32(0.1), FloatType(), prefix_length=32) == 0.1


@given(st.decimals(allow_nan=False, allow_infinity=False, places=18))
def test_decimals_are_numbers_without_loss(value: Decimal) -> None:
    statistics = FileStatistics.of_leaves(1, {("d",): (value, value, 0)}, types={("d",): DecimalType(38, 18)})
    document = json.loads(statistics.to_json(), parse_float=Decimal, parse_int=Decimal)
    assert document["minValues"]["d"] == value
    assert FileStatistics.from_json(statistics.to_json()).max_values["d"] == value


def test_which_types_have_bounds() -> None:
    ordered = [ByteType(), IntegerType(), FloatType(), DecimalType(5, 2), DateType(), TimestampType(), StringType()]
    assert all(has_bounds(kind) for kind in ordered)
    others = [BooleanType(), BinaryType(), VariantType(), ArrayType(LongType()), MapType(LongType(), LongType())]
    assert not any(has_bounds(kind) for kind in others)
    assert not has_bounds(StringType("UNICODE_CI"))


def field(name: str, data_type: DataType, physical: str | None = None) -> StructField:
    metadata = {} if physical is None else {"delta.columnMapping.physicalName": physical}
    return StructField(name, data_type, metadata=metadata)


INNER = StructType([field("x", LongType(), "col-x"), field("y.z", StructType([field("q", DateType())]))])
SCHEMA = StructType(
    [
        field("p", StringType()),
        field("A", LongType(), "col-a"),
        field(
            "s",
            StructType([field("x", LongType(), "col-x"), field("y.z", StructType([field("q", DateType())]))]),
            "col-s",
        ),
        field("l", ArrayType(LongType())),
        field("e", StructType([])),
        field("b", BinaryType()),
    ]
)


def columns(**configuration: str) -> list[tuple[str, ...]]:
    properties = TableProperties({f"delta.{name.replace('__', '.')}": value for name, value in configuration.items()})
    return list(indexed_columns(SCHEMA, properties, partition_columns=["P"]))


def test_first_leaves_are_indexed_in_the_order_of_the_schema() -> None:
    everything: list[tuple[str, ...]] = [("A",), ("s", "x"), ("s", "y.z", "q"), ("l",), ("b",)]
    assert columns() == everything
    assert columns(dataSkippingNumIndexedCols="-1") == everything
    assert columns(dataSkippingNumIndexedCols="2") == everything[:2]
    assert columns(dataSkippingNumIndexedCols="0") == []
    wide = StructType([field(f"c{n}", LongType()) for n in range(40)])
    assert len(indexed_columns(wide, TableProperties({}))) == 32


def test_named_columns_go_before_the_count() -> None:
    assert columns(dataSkippingStatsColumns="a", dataSkippingNumIndexedCols="0") == [("A",)]
    assert columns(dataSkippingStatsColumns="S") == [("s", "x"), ("s", "y.z", "q")]
    assert columns(dataSkippingStatsColumns="s.`y.z`.q, b") == [("s", "y.z", "q"), ("b",)]
    assert columns(dataSkippingStatsColumns="s.`y.z`") == [("s", "y.z", "q")]
    assert columns(dataSkippingStatsColumns="p,gone") == []
    assert columns(dataSkippingStatsColumns="") == []


def test_physical_names_are_used_where_columns_are_mapped() -> None:
    assert columns(columnMapping__mode="name")[:3] == [("col-a",), ("col-s", "col-x"), ("col-s", "y.z", "q")]
    assert columns(columnMapping__mode="id", dataSkippingStatsColumns="a") == [("col-a",)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("gone", "no gone"), ("a.b", "no a.b"), ("P", "partition"), ("a, A", "twice"), ("l", "order"), ("b", "order")],
)
def test_senseless_names_are_refused(text: str, reason: str) -> None:
    properties = TableProperties({"delta.dataSkippingStatsColumns": text})
    with pytest.raises(InvalidPropertyError, match=reason):
        check_stats_columns(SCHEMA, properties, partition_columns=["p"])


def test_sensible_names_pass() -> None:
    for text in ("a", "S.X, s.`Y.z`.q", "s", "e"):
        check_stats_columns(SCHEMA, TableProperties({"delta.dataSkippingStatsColumns": text}), partition_columns=["p"])
    check_stats_columns(SCHEMA, TableProperties({}))


def test_statistics_of_other_engines_are_understood(corpus: Path) -> None:
    """Every `add.stats` in the corpus parses, and what we write of it means the same."""
    seen = 0
    with tarfile.open(corpus / "golden.tar.gz") as tar:
        for member in tar:
            if not member.name.endswith(".json") or "/_delta_log/" not in member.name or not member.isfile():
                continue
            content = tar.extractfile(member)
            assert content is not None
            for action in parse_actions(content.read()):
                if isinstance(action, AddFile) and action.stats:
                    statistics = FileStatistics.from_json(action.stats)
                    again = FileStatistics.from_json(statistics.to_json())
                    assert again == statistics
                    assert statistics.num_records is not None
                    seen += 1
    assert seen > 100


def test_deep_schemas_do_not_exhaust_the_stack() -> None:
    path = tuple(f"f{n}" for n in range(150))
    statistics = FileStatistics.of_leaves(1, {path: (1, 1, 0)}, types={path: LongType()})
    assert FileStatistics.from_json(statistics.to_json()) == statistics
    assert sys.getrecursionlimit() >= 1000
