"""The partition value of a generated column leaves out files by conditions on its source, and never one too many."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from anabranch.data_skipping.file_skipping import SkippingColumns, can_be_true
from anabranch.data_skipping.generated_bounds import generated_partitions
from anabranch.log.file_columns import table_of_adds
from anabranch.predicates.expressions import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Operator,
    StartsWith,
)
from anabranch.predicates.generation_expressions import Part, derivation_of
from anabranch.protocol import value_text
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.computed_columns import GENERATION_EXPRESSION
from snapshot.generated_partitions import COLUMNS, DATE, INT, MOMENT, TEXT, WALL, keeps, schema_of

HOUR = 3_600_000_000
DAY = 24 * HOUR

_UNITS = {"first_of_year": "Y", "first_of_month": "M", "monday": "W", "at_hour": "h", "at_month": "M"}
offsets = st.integers(-18 * 3600, 18 * 3600).map(lambda seconds: seconds * 1_000_000)
"""Every distance from UTC that a zone may have, so all that clocks ever did is among them."""


def computed(name: str, local: int, offset_begin: int, text_offset: int | None) -> str:
    """What a writer makes of a moment that its clock shows as `local`, as a partition value."""
    wall = np.datetime64(local, "us")
    if name in ("as_date", "to_date"):
        return value_text.format_days(local // DAY)
    if name.startswith("text_"):
        year, rest = _year_and_rest(value_text.format_days(local // DAY))
        hour = f"{local % DAY // HOUR:02}"
        return {
            "text_year": year,
            "text_month": f"{year}-{rest[:2]}",
            "text_day": f"{year}{rest[:2]}{rest[3:]}",
            "text_hour": f"{year}-{rest}-{hour}",
        }[name]
    if name == "first_of_quarter":
        month = int(wall.astype("datetime64[M]").astype(np.int64))
        begin = np.datetime64(month - month % 3, "M")
        return value_text.format_days(int(begin.astype("datetime64[D]").astype(np.int64)))
    if name == "monday":
        return value_text.format_days((local // DAY + 3) // 7 * 7 - 3)
    if name in ("first_of_year", "first_of_month"):
        begin = wall.astype(f"datetime64[{_UNITS[name]}]").astype("datetime64[D]")
        return value_text.format_days(int(begin.astype(np.int64)))
    if name in ("at_hour", "at_month"):
        begin = int(wall.astype(f"datetime64[{_UNITS[name]}]").astype("datetime64[us]").astype(np.int64))
        if text_offset is None:
            return value_text.format_utc_micros(begin - offset_begin)
        return value_text.format_local_micros(begin - offset_begin + text_offset)
    year, rest = _year_and_rest(value_text.format_days(local // DAY))
    return {
        "year": str(int(year)),
        "month": str(int(rest[:2])),
        "day": str(int(rest[3:])),
        "hour": str(local % DAY // HOUR),
    }[name]


def _year_and_rest(day: str) -> tuple[str, str]:
    """`2024` and `01-31`; the year with its sign, as far as it has one."""
    return day[:-6], day[-5:]


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    schema: T.StructType
    at: int
    partition: dict[str, str | None]


@st.composite
def written(draw: st.DrawFn) -> Written:
    """A moment and what a writer somewhere made of it."""
    source = draw(st.sampled_from([MOMENT, WALL, DATE]))
    names = [name for name in COLUMNS if source is not DATE or name != "hour"]
    columns = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
    near_now = st.integers(-60 * 366 * DAY, 100 * 366 * DAY)
    at = draw(st.one_of(near_now, st.integers(-5_000 * 366 * DAY, 9_000 * 366 * DAY), st.integers(-4 * DAY, 4 * DAY)))
    if source is DATE:
        at = at // DAY * DAY
    then, begin = (draw(offsets) for _ in range(2)) if source is MOMENT else (0, draw(offsets))
    text_offset = draw(st.one_of(st.none(), offsets))
    # A date or a time on the wall becomes a moment first, a later one where clocks skipped it.
    skipped = 0 if source is MOMENT else draw(st.integers(0, DAY))
    partition: dict[str, str | None] = {}
    for name in columns:
        local = at + then + (skipped if name.startswith(("text_", "at_")) else 0)
        partition[name] = computed(name, local, begin, text_offset)
    for name in columns:
        if draw(st.integers(0, 9)) == 0:
            partition[name] = None
    return Written(schema_of(source, columns), at // DAY if source is DATE else at, partition)


@settings(max_examples=400, deadline=None)
@given(written(), st.integers(-40, 40), st.integers(-2, 2), st.sampled_from([EQ, LT, LE, GT, GE]))
def test_no_file_is_left_out_whose_row_matches(row: Written, steps: int, more: int, operator: Operator) -> None:
    """Holds in any time zone of the writer, on days from before Christ to beyond the year 9999."""
    source = row.schema["at"].dataType
    step = 1 if source is DATE else HOUR
    literal = Literal(row.at + (0 if operator is EQ else steps * step + more), source)
    true = {EQ: True, LT: row.at < literal.value, LE: row.at <= literal.value}
    true |= {GT: row.at > literal.value, GE: row.at >= literal.value}
    column = Column(("at",))
    if true[operator]:
        assert keeps(row.schema, row.partition, Comparison(operator, column, literal))
    assert keeps(row.schema, row.partition, In(column, (Literal(row.at, source), literal)))
    assert keeps(row.schema, row.partition, IsNotNull(column))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=6), st.integers(0, 4), st.text(max_size=6), st.booleans())
def test_first_letters(text: str, length: int, other: str, whole: bool) -> None:
    sql = "s" if whole else f"substring(s, {length % 2}, {length})"
    schema = T.StructType([T.StructField("s", TEXT), T.StructField("p", TEXT, metadata={GENERATION_EXPRESSION: sql})])
    text = text.encode("utf-8", "ignore").decode()
    other = other.encode("utf-8", "ignore").decode()
    partition: dict[str, str | None] = {"p": (text if whole else text[:length]) or None}
    column = Column(("s",))
    assert keeps(schema, partition, Comparison(EQ, column, Literal(text, TEXT)))
    assert keeps(schema, partition, StartsWith(column, text[:2]))
    beyond = Comparison(GT if text.encode() > other.encode() else LE, column, Literal(other, TEXT))
    assert keeps(schema, partition, beyond)


def _day(text: str) -> int:
    return value_text.parse_days(text)


def _at(text: str) -> int:
    return value_text.parse_local_micros(text)


@pytest.mark.parametrize(
    ("source", "partition", "reaches", "stays"),
    [
        (DATE, {"as_date": "2024-01-31"}, ("2024-01-31", "2024-01-31"), ("2024-01-30", "2024-02-01")),
        (WALL, {"as_date": "2024-01-31"}, ("2024-01-31", "2024-01-31 23:59:59"), ("2024-01-30 23:59", "2024-02-01")),
        (
            MOMENT,
            {"as_date": "2024-01-31"},
            ("2024-01-30 06:00", "2024-02-01 17:59"),
            ("2024-01-30 05", "2024-02-01 18"),
        ),
        (WALL, {"year": "2024"}, ("2024-01-01", "2024-12-31"), ("2023-12-31", "2025-01-01")),
        (WALL, {"year": "-1"}, ("-0001-01-01", "-0001-12-31"), ("-0002-12-31", "0000-01-01")),
        (WALL, {"year": "2024", "month": "2"}, ("2024-02-01", "2024-02-29"), ("2024-01-31", "2024-03-01")),
        (
            WALL,
            {"hour": "7", "day": "29", "year": "2024", "month": "2"},
            ("2024-02-29 07:00", "2024-02-29 07:59"),
            ("2024-02-29 06:59", "2024-02-29 08:00"),
        ),
        (WALL, {"year": "2024", "day": "29"}, ("2024-01-01", "2024-12-31"), ("2023-12-31", "2025-01-01")),
        (WALL, {"year": "2024", "month": "77"}, ("2024-01-01", "2024-12-31"), ("2023-12-31", "2025-01-01")),
        (DATE, {"first_of_month": "2024-02-01"}, ("2024-02-01", "2024-02-29"), ("2024-01-31", "2024-03-01")),
        (DATE, {"first_of_quarter": "2024-04-01"}, ("2024-04-01", "2024-06-30"), ("2024-03-31", "2024-07-01")),
        (DATE, {"monday": "2024-01-01"}, ("2024-01-01", "2024-01-07"), ("2023-12-31", "2024-01-08")),
        (MOMENT, {"text_day": "20240131"}, ("0001-01-01", "2024-02-01 17:59"), (None, "2024-02-01 18:00")),
        (MOMENT, {"text_month": "2024-01"}, ("0001-01-01", "2024-02-01 17:59"), (None, "2024-02-01 18:00")),
        (
            MOMENT,
            {"at_hour": "2024-01-31T10:00:00Z"},
            ("2024-01-30 00:00", "2024-02-01 10:00"),
            ("2024-01-29 21:00", "2024-02-02 00:00"),
        ),
    ],
    ids=str,
)
def test_files_are_left_out(
    source: T.DataType,
    partition: dict[str, str | None],
    reaches: tuple[str, str],
    stays: tuple[str | None, str],
) -> None:
    """Exactly for dates and times on the wall; for moments as exactly as all time zones together allow."""
    schema = schema_of(source, list(partition))
    value = _day if source is DATE else _at
    column = Column(("at",))
    assert keeps(schema, partition, Comparison(LE, column, Literal(value(reaches[0]), source)))
    assert keeps(schema, partition, Comparison(GE, column, Literal(value(reaches[1]), source)))
    assert not keeps(schema, partition, Comparison(GE, column, Literal(value(stays[1]), source)))
    if stays[0] is not None:
        assert not keeps(schema, partition, Comparison(LE, column, Literal(value(stays[0]), source)))
        outside = In(column, (Literal(value(stays[0]), source), Literal(value(stays[1]), source)))
        assert not keeps(schema, partition, outside)
    assert not keeps(schema, partition, IsNull(column))


def test_statistics_come_first() -> None:
    """They are about the rows of the file; the partition value fills in where they say nothing."""
    schema = schema_of(DATE, ["as_date"])
    add = AddFile(
        path="f",
        partition_values={"as_date": "2024-01-31"},
        size=1,
        modification_time=0,
        data_change=True,
        stats='{"numRecords": 2, "minValues": {"at": "2020-01-01"}}',
    )
    columns = SkippingColumns(
        table_of_adds([add]),
        physical_schema=schema,
        partition_columns=["as_date"],
        generated=generated_partitions(schema, ["as_date"], ColumnMappingMode.NONE),
    )
    column = Column(("at",))
    assert can_be_true(Comparison(LE, column, Literal(_day("2020-01-01"), DATE)), columns)[0]
    assert not can_be_true(Comparison(LT, column, Literal(_day("2020-01-01"), DATE)), columns)[0]
    assert not can_be_true(Comparison(GT, column, Literal(_day("2024-01-31"), DATE)), columns)[0]


def test_a_field_of_a_struct_by_physical_names() -> None:
    inner = T.StructType([T.StructField("At", WALL, metadata={"delta.columnMapping.physicalName": "c2"})])
    schema = T.StructType(
        [
            T.StructField("e", inner, metadata={"delta.columnMapping.physicalName": "c1"}),
            T.StructField(
                "day",
                DATE,
                metadata={
                    "delta.columnMapping.physicalName": "c3",
                    GENERATION_EXPRESSION: "CAST(E.at AS DATE)",
                },
            ),
        ]
    )
    (partition,) = generated_partitions(schema, ["day"], ColumnMappingMode.NAME)
    assert (partition.column, partition.derivation.source, partition.derivation.part) == ("c3", ("c1", "c2"), Part.DATE)


@pytest.mark.parametrize(
    ("sql", "data_type"),
    [
        ("CAST(s AS DATE)", DATE),
        ("CAST(at AS STRING)", TEXT),
        ("CAST(at AS DATE) + 1", DATE),
        ("date_add(at, 1)", DATE),
        ("to_date(at, 'yyyy')", DATE),
        ("YEAR(at)", T.ByteType()),
        ("YEAR(s)", INT),
        ("YEAR(at) + MONTH(at)", INT),
        ("HOUR(d)", INT),
        ("DATE_FORMAT(at, 'MM-yyyy')", TEXT),
        ("DATE_FORMAT(at, 'yyyy-DD')", TEXT),
        ("DATE_FORMAT(at, 'YYYY-MM')", TEXT),
        ("DATE_FORMAT(at, 'yyyy-MM-dd-hh')", TEXT),
        ("DATE_FORMAT(at, s)", TEXT),
        ("substring(s, 2, 3)", TEXT),
        ("substring(s, -1, 3)", TEXT),
        ("upper(s)", TEXT),
        ("s", T.StringType("UTF8_LCASE")),
        ("f", T.DoubleType()),
        ("missing", DATE),
        ("date_trunc(s, at)", MOMENT),
        ("trunc(at, 'DAY')", DATE),
        ("", DATE),
        ("(", DATE),
        ("CAST", DATE),
        ("CAST()", DATE),
        ("(at) (at)", DATE),
        ("'", TEXT),
    ],
)
def test_of_other_expressions_nothing_follows(sql: str, data_type: T.DataType) -> None:
    schema = T.StructType(
        [
            T.StructField("at", MOMENT),
            T.StructField("d", DATE),
            T.StructField("s", TEXT),
            T.StructField("f", T.DoubleType()),
        ]
    )
    assert derivation_of(sql, data_type, schema) is None


def test_partition_values_that_no_such_column_has() -> None:
    """Text that no writer makes bounds nothing."""
    for name, value in [
        ("text_month", "2024-13"),
        ("text_month", "+10000-01"),
        ("text_month", "1500-01"),
        ("as_date", "5881580-07-11"),
        ("as_date", "someday"),
        ("year", "2147483647"),
        ("at_hour", "294247-01-10 04:00:54.775807"),
    ]:
        schema = schema_of(MOMENT, [name])
        far = Comparison(GE, Column(("at",)), Literal(_at("2024-12-01") if "13" in value else 2**62, MOMENT))
        assert keeps(schema, {name: value}, far), (name, value)
