"""Partition values as text, as Python values and as Arrow columns. Expected values are those of Spark 4.3."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.cli.rows.local_time_zone import PythonTimeZone
from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol import value_text
from anabranch.protocol.data_paths import escape_path_name, parse_partition_path, partition_path, unescape_path_name
from anabranch.protocol.partition_values import parse_column, parse_partition_value, serialize_partition_value
from anabranch.protocol.time_zones import UTC as UTC_ZONE
from anabranch.protocol.time_zones import FixedOffset
from anabranch.protocol.value_text import java_float_text

UTC = datetime.UTC

NEW_YORK = PythonTimeZone(zoneinfo.ZoneInfo("America/New_York"))


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        ("plain", StringType(), "plain"),
        ("ä b=c/d%", StringType(), "ä b=c/d%"),
        ("x", VarcharType(5), "x"),
        ("x   ", CharType(4), "x   "),
        (-128, ByteType(), "-128"),
        (32767, ShortType(), "32767"),
        (-(2**31), IntegerType(), "-2147483648"),
        (2**63 - 1, LongType(), "9223372036854775807"),
        (True, BooleanType(), "true"),
        (False, BooleanType(), "false"),
        (1.0, DoubleType(), "1.0"),
        (1e22, DoubleType(), "1.0E22"),
        (-0.0, DoubleType(), "-0.0"),
        (0.001, DoubleType(), "0.001"),
        (9.99e-4, DoubleType(), "9.99E-4"),
        (9999999.0, DoubleType(), "9999999.0"),
        (1e7, DoubleType(), "1.0E7"),
        (math.inf, DoubleType(), "Infinity"),
        (-math.inf, FloatType(), "-Infinity"),
        (float(np.float32(0.1)), FloatType(), "0.1"),
        (16777216.0, FloatType(), "1.6777216E7"),
        (Decimal("1.50"), DecimalType(10, 2), "1.50"),
        (Decimal(1), DecimalType(20, 10), "1.0000000000"),
        (Decimal("-0.00"), DecimalType(10, 2), "0.00"),
        (Decimal("1E-10"), DecimalType(20, 10), "0.0000000001"),
        (Decimal("9" * 38), DecimalType(38, 0), "9" * 38),
        (datetime.date(1970, 1, 1), DateType(), "1970-01-01"),
        (datetime.date(1, 1, 1), DateType(), "0001-01-01"),
        (np.datetime64("10000-01-01", "D"), DateType(), "+10000-01-01"),
        (np.datetime64(-800000, "D"), DateType(), "-0221-09-04"),
        (np.datetime64(-719529, "D"), DateType(), "-0001-12-31"),
        (datetime.datetime(1970, 1, 1, 0, 0, 0, 123456, UTC), TimestampType(), "1970-01-01T00:00:00.123456Z"),
        (datetime.datetime(2024, 1, 1, tzinfo=UTC), TimestampType(), "2024-01-01T00:00:00.000000Z"),
        (datetime.datetime(2024, 1, 1, 0, 0, 0, 120000), TimestampNTZType(), "2024-01-01 00:00:00.12"),
        (datetime.datetime(2024, 1, 1), TimestampNTZType(), "2024-01-01 00:00:00"),
        (b"\x01\x02\x03", BinaryType(), "\u0001\u0002\u0003"),
        ("ä".encode(), BinaryType(), "ä"),
    ],
)
def test_values_go_out_and_come_back(value: Any, data_type: DataType, text: str) -> None:
    assert serialize_partition_value(value, data_type) == text
    again = parse_partition_value(text, data_type)
    assert again == value
    assert type(again) is type(value)
    column = parse_column(pa.array([text, None, ""]), data_type)
    assert column.null_count == 2


def test_nan_comes_back() -> None:
    assert serialize_partition_value(math.nan, DoubleType()) == "NaN"
    assert math.isnan(parse_partition_value("NaN", FloatType()))
    assert math.copysign(1, parse_partition_value("-0.0", DoubleType())) == -1


@pytest.mark.parametrize(
    "data_type", [StringType(), BinaryType(), LongType(), DateType(), TimestampType(), BooleanType(), NullType()]
)
def test_nothing_and_the_empty_string_are_null(data_type: DataType) -> None:
    assert parse_partition_value(None, data_type) is None
    assert parse_partition_value("", data_type) is None
    assert serialize_partition_value(None, data_type) is None


def test_empty_values_are_written_as_null() -> None:
    assert serialize_partition_value("", StringType()) is None
    assert serialize_partition_value(b"", BinaryType()) is None


def test_another_zone_is_brought_to_utc() -> None:
    east = datetime.timezone(datetime.timedelta(hours=2))
    assert (
        serialize_partition_value(datetime.datetime(2024, 1, 1, 1, tzinfo=east), TimestampType())
        == "2023-12-31T23:00:00.000000Z"
    )


@pytest.mark.parametrize(
    ("text", "utc", "new_york"),
    [
        # Text, then Spark's microseconds under either session time zone.
        ("1970-01-01 00:00:00", 0, 18_000_000_000),
        ("2024-01-01T00:00:00.123456Z", 1_704_067_200_123_456, 1_704_067_200_123_456),
        ("2024-01-01 00:00:00.123456789012", 1_704_067_200_123_456, 1_704_085_200_123_456),
        ("2024-01-01", 1_704_067_200_000_000, 1_704_085_200_000_000),
        ("2024-1-2 3:4:5", 1_704_164_645_000_000, 1_704_182_645_000_000),
        ("2024-01-01 00:00:00+05:30", 1_704_047_400_000_000, 1_704_047_400_000_000),
        ("2024-01-01 00:00:00 -8:00", 1_704_096_000_000_000, 1_704_096_000_000_000),
        ("2024-01-01 00:00:00 UTC+1", 1_704_063_600_000_000, 1_704_063_600_000_000),
        # Skipped by the change to summer time: an hour later; and the hour there twice: the first.
        ("2024-03-10 02:30:00", 1_710_037_800_000_000, 1_710_055_800_000_000),
        ("2024-11-03 01:30:00", 1_730_597_400_000_000, 1_730_611_800_000_000),
        # Before time zones, local mean time.
        ("0001-01-01 00:00:00", -62_135_596_800_000_000, -62_135_579_038_000_000),
        ("+10000-01-01 00:00:00", 253_402_300_800_000_000, 253_402_318_800_000_000),
    ],
)
def test_timestamps_are_read_as_spark_reads_them(text: str, utc: int, new_york: int) -> None:
    assert value_text.parse_micros(text, UTC_ZONE) == utc
    assert value_text.parse_micros(text, NEW_YORK) == new_york
    column = parse_column(pa.array([text, text]), TimestampType(), zone=NEW_YORK)
    assert column.cast(pa.int64()).to_pylist() == [new_york, new_york]


def test_years_beyond_python_come_as_numpy() -> None:
    assert parse_partition_value("+10000-01-01", DateType()) == np.datetime64("10000-01-01")
    assert parse_partition_value("+10000-01-01 00:00:00", TimestampNTZType()) == np.datetime64(
        "10000-01-01T00:00:00", "us"
    )
    assert value_text.parse_days("-5877641-06-23") == -(2**31)
    assert value_text.parse_days("5881580-07-11") == 2**31 - 1


def test_a_timestamp_without_zone_drops_what_zone_there_is() -> None:
    expected = datetime.datetime(2024, 1, 1, 5)
    for text in ("2024-01-01 05:00:00", "2024-01-01T05:00:00Z", "2024-01-01 05:00:00 America/New_York"):
        assert parse_partition_value(text, TimestampNTZType(), zone=FixedOffset(9 * 3_600_000_000)) == expected


@pytest.mark.parametrize(
    ("text", "data_type", "expected"),
    [
        ("TRUE", BooleanType(), True),
        ("y", BooleanType(), True),
        ("0", BooleanType(), False),
        (" no ", BooleanType(), False),
        ("+5", IntegerType(), 5),
        (" 5 ", IntegerType(), 5),
        ("1e3", DoubleType(), 1000.0),
        ("1D ", DoubleType(), 1.0),
        (".5", FloatType(), 0.5),
        ("+Inf", DoubleType(), math.inf),
        ("1.005", DecimalType(10, 2), Decimal("1.01")),
        ("1e2", DecimalType(10, 2), Decimal("100.00")),
        ("  2 ", DecimalType(10, 2), Decimal("2.00")),
        ("2024-01-01 10:00", DateType(), datetime.date(2024, 1, 1)),
        ("2024-1", DateType(), datetime.date(2024, 1, 1)),
    ],
)
def test_what_spark_takes_besides(text: str, data_type: DataType, expected: Any) -> None:
    assert parse_partition_value(text, data_type) == expected
    assert parse_column(pa.array([text]), data_type).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", IntegerType()),
        ("128", ByteType()),
        ("2147483648", IntegerType()),
        ("9" * 5000, LongType()),
        ("5_0", IntegerType()),
        ("\u0663", IntegerType()),
        ("--5", IntegerType()),
        ("1_0", DoubleType()),
        ("one", DoubleType()),
        ("on", BooleanType()),
        ("NaN", DecimalType(10, 2)),
        ("123456789012", DecimalType(10, 2)),
        ("1e999999", DecimalType(10, 2)),
        ("2024-02-30", DateType()),
        ("24-01-01", DateType()),
        ("5881580-07-12", DateType()),
        ("2024-13-01 00:00:00", TimestampType()),
        ("2024-01-01 24:00:00", TimestampType()),
        ("2024-01-01 00:00:00 No/Where", TimestampType()),
        ("2024-01-01 00:00:00 ../../etc/passwd", TimestampType()),
        ("294247-01-10 04:00:55", TimestampType()),
        ("x" * (1 << 21), StringType()),
        ("a", ArrayType(StringType())),
        ("a", StructType([])),
    ],
)
def test_what_does_not_fit_is_refused(text: str, data_type: DataType) -> None:
    with pytest.raises(PartitionValueError) as caught:
        parse_partition_value(text, data_type)
    assert data_type.simpleString() in str(caught.value)
    assert len(str(caught.value)) < 1000
    with pytest.raises(PartitionValueError):
        parse_column(pa.array(["1", text] if text == "128" else [text]), data_type)


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        ("5", IntegerType()),
        (128, ByteType()),
        (5, StringType()),
        (1, BooleanType()),
        (b"\xff", BinaryType()),
        (Decimal("1.005"), DecimalType(10, 2)),
        (Decimal("1e20"), DecimalType(10, 2)),
        (datetime.datetime(2024, 1, 1), TimestampType()),
        (datetime.datetime(2024, 1, 1), DateType()),
        ([1], ArrayType(IntegerType())),
    ],
)
def test_values_that_do_not_fit_are_not_written(value: Any, data_type: DataType) -> None:
    with pytest.raises(PartitionValueError):
        serialize_partition_value(value, data_type)


@given(st.dates())
def test_dates_round_trip(value: datetime.date) -> None:
    assert parse_partition_value(serialize_partition_value(value, DateType()), DateType()) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_all_days_round_trip(days: int) -> None:
    assert value_text.parse_days(value_text.format_days(days)) == days


@given(st.integers(-(2**62), 2**62))
def test_all_microseconds_round_trip(micros: int) -> None:
    assert value_text.parse_micros(value_text.format_utc_micros(micros), FixedOffset(19_800_000_000)) == micros
    assert value_text.parse_local_micros(value_text.format_local_micros(micros)) == micros


@given(st.datetimes(timezones=st.timezones()))
def test_timestamps_round_trip(value: datetime.datetime) -> None:
    try:
        instant = value.astimezone(UTC)
    except OverflowError:
        return
    assert parse_partition_value(serialize_partition_value(value, TimestampType()), TimestampType()) == instant


@given(st.floats())
def test_doubles_round_trip(value: float) -> None:
    again = parse_partition_value(serialize_partition_value(value, DoubleType()), DoubleType())
    assert np.float64(again).tobytes() == np.float64(value).tobytes() or math.isnan(value)


@given(st.floats(width=32))
def test_floats_round_trip_with_the_digits_of_a_float(value: float) -> None:
    text = java_float_text(value, single=True)
    again = parse_partition_value(text, FloatType())
    assert np.float32(again) == np.float32(value) or math.isnan(value)
    assert len(text) <= 15


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**20), max_value=10**20))
def test_decimals_round_trip(value: Decimal) -> None:
    assert parse_partition_value(serialize_partition_value(value, DecimalType(38, 5)), DecimalType(38, 5)) == value


def test_a_column_parses_each_distinct_text_once_and_keeps_its_order() -> None:
    texts = pa.chunked_array([["3", "1", None], ["3", "", "2"]])
    column = parse_column(texts, IntegerType())
    assert column.type == pa.int32()
    assert column.to_pylist() == [3, 1, None, 3, None, 2]
    assert parse_column(texts.combine_chunks().dictionary_encode(), LongType()).to_pylist() == [3, 1, None, 3, None, 2]
    assert parse_column(pa.array([], pa.string()), DateType()).type == pa.date32()
    decimals = parse_column(pa.array(["1.5", "2"]), DecimalType(5, 2))
    assert decimals.type == pa.decimal128(5, 2)
    assert decimals.to_pylist() == [Decimal("1.50"), Decimal("2.00")]
    large = parse_column(pa.array(["x"], pa.large_string()), StringType())
    assert large.to_pylist() == ["x"]


def test_directories_are_escaped_as_spark_escapes_them() -> None:
    """The results of `ExternalCatalogUtils.escapePathName` for all characters below 128."""
    escaped = [code for code in range(1, 300) if escape_path_name(chr(code)) != chr(code)]
    assert escaped == [*range(1, 32), 34, 35, 37, 39, 42, 47, 58, 61, 63, 91, 92, 93, 94, 123, 127]
    assert escape_path_name("a\x01=b\x7f é") == "a%01%3Db%7F é"
    assert [unescape_path_name(text) for text in ("%3d%3D", "%zz", "%", "%4", "a%2", "%+1")] == [
        "==",
        "%zz",
        "%",
        "%4",
        "a%2",
        "%+1",
    ]


def test_a_number_beyond_a_float_is_infinite_without_a_warning() -> None:
    assert parse_partition_value("1e39", FloatType()) == math.inf


def test_partition_directories() -> None:
    values = {"day": "2024-01-01", "a=b": "x/y", "n": None, "e": ""}
    path = partition_path(values)
    null = "__HIVE_DEFAULT_PARTITION__"
    assert path == f"day=2024-01-01/a%3Db=x%2Fy/n={null}/e={null}"
    assert parse_partition_path(f"x/{path}/part-0=1.parquet") == {**values, "e": None}
    assert partition_path({}) == ""
    assert parse_partition_path("part-0.parquet") == {}
    with pytest.raises(PartitionValueError, match="`a`"):
        parse_partition_path("a=1/a=2/f")


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1).filter(lambda v: v != "__HIVE_DEFAULT_PARTITION__")))
def test_partition_directories_round_trip(values: dict[str, str]) -> None:
    if any("\0" in text for pair in values.items() for text in pair):
        return
    assert parse_partition_path(partition_path(values) + "/file") == values


def test_binaries_that_are_no_text_are_refused_as_what_they_are() -> None:
    """Covers bug B113: the message said that the binary is no binary."""
    with pytest.raises(
        PartitionValueError, match=r"X'01FF'.* is not a valid UTF-8 string: the log stores partition values as text"
    ):
        serialize_partition_value(b"\x01\xff", BinaryType())
