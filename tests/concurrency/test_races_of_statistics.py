"""Rows that statistics seem to rule out: a winner's new file is looked at all the same."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

from anabranch.errors.commits import ConcurrentAppendException
from anabranch.predicates.expressions import EQ, GT, Column, Comparison, Literal, Predicate
from anabranch.protocol.actions import AddFile
from transactions.table_on_memory import Writer, created, features, metadata, rival_of, with_properties

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("at", TimestampType()),
        StructField("x", DoubleType()),
    ]
)
LONG = "a" * 32
NOON_US = 1_704_110_400_000_000
"""2024-01-01 12:00 UTC."""


def file(path: str, *, lower: dict[str, object], upper: dict[str, object]) -> AddFile:
    stats = {"numRecords": 3, "minValues": lower, "maxValues": upper, "nullCount": dict.fromkeys(lower, 0)}
    return AddFile(
        path=path, partition_values={}, size=1, modification_time=0, data_change=True, stats=json.dumps(stats)
    )


def name_is(value: str) -> Predicate:
    return Comparison(EQ, Column(("name",)), Literal(value, StringType()))


def table() -> Writer:
    described = with_properties(metadata(SCHEMA), isolationLevel="Serializable")
    return created(
        file("old", lower={"id": 0}, upper={"id": 9}),
        protocol=features("deletionVectors", "appendOnly", "invariants"),
        described=described,
    )


@pytest.mark.parametrize(
    ("predicate", "lower", "upper", "may_match"),
    [
        (name_is(LONG + "zz"), {"name": LONG}, {"name": LONG + "\U0010ffff"}, True),
        (name_is(LONG + "zz"), {"name": LONG}, {"name": LONG + "\ufffd"}, True),
        (name_is("b"), {"name": LONG}, {"name": LONG + "\ufffd"}, False),
        (
            Comparison(EQ, Column(("at",)), Literal(NOON_US + 123_456, TimestampType())),
            {"at": "2024-01-01T12:00:00.123Z"},
            {"at": "2024-01-01T12:00:00.123Z"},
            True,
        ),
        (
            Comparison(EQ, Column(("at",)), Literal(NOON_US + 125_000, TimestampType())),
            {"at": "2024-01-01T12:00:00.123Z"},
            {"at": "2024-01-01T12:00:00.123Z"},
            False,
        ),
        (Comparison(GT, Column(("x",)), Literal(10.0, DoubleType())), {"x": 0.0}, {"x": 5.0}, True),
        (Comparison(EQ, Column(("x",)), Literal(0.0, DoubleType())), {"x": -1.0}, {"x": -0.0}, True),
    ],
    ids=[
        "text cut short",
        "text cut short, with another filler",
        "text beyond",
        "time cut to milliseconds",
        "time beyond",
        "NaN, which is above all numbers",
        "-0.0, which is 0.0",
    ],
)
def test_what_bounds_rule_out(
    predicate: Predicate, lower: dict[str, object], upper: dict[str, object], may_match: bool
) -> None:
    """Covers races 32 and 35 as far as statistics decide: in doubt the append is one that ours should have read."""
    first = table()
    ours = rival_of(first).begin("DELETE")
    ours.record_scan(predicate)
    first.append(file("new", lower=lower, upper=upper))
    if may_match:
        with pytest.raises(ConcurrentAppendException):
            ours.commit([file("mine", lower={"id": 0}, upper={"id": 0})])
    else:
        ours.commit([file("mine", lower={"id": 0}, upper={"id": 0})])
