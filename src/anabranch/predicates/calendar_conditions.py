"""Conditions on the day or year of a column, as ranges of the column itself."""

from __future__ import annotations

import datetime

from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType

from anabranch.predicates.expressions import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Column,
    Comparison,
    Literal,
    Operator,
    Or,
    Predicate,
)
from anabranch.predicates.literal_casts import MICROS_PER_DAY, utc_micros
from anabranch.protocol.time_zones import TimeZone

_EPOCH = datetime.date(1970, 1, 1)


def year_condition(
    column: Column, data_type: DataType, operator: Operator, year: int, *, zone: TimeZone | None
) -> Predicate | None:
    """`year(column) <operator> year` as a range of the column; None where it is not one."""
    if not datetime.MINYEAR <= year < datetime.MAXYEAR:
        return None
    first, after = (datetime.date(start, 1, 1) - _EPOCH for start in (year, year + 1))
    return _between(column, data_type, operator, first.days, after.days, zone)


def day_condition(
    column: Column, data_type: DataType, operator: Operator, day: int, *, zone: TimeZone | None
) -> Predicate | None:
    """`CAST(column AS DATE) <operator> day` as a range of the column; None where it is not one.

    `day` is counted from 1970-01-01.
    """
    return _between(column, data_type, operator, day, day + 1, zone)


def _between(
    column: Column, data_type: DataType, operator: Operator, first_day: int, day_after: int, zone: TimeZone | None
) -> Predicate | None:
    first, after = (_start_of(day, data_type, zone) for day in (first_day, day_after))
    if first is None or after is None:
        return None
    from_first, before_first = Comparison(GE, column, first), Comparison(LT, column, first)
    from_after, before_after = Comparison(GE, column, after), Comparison(LT, column, after)
    return {
        EQ: And((from_first, before_after)),
        NE: Or((before_first, from_after)),
        LT: before_first,
        LE: before_after,
        GT: from_after,
        GE: from_first,
    }.get(operator)


def _start_of(day: int, data_type: DataType, zone: TimeZone | None) -> Literal | None:
    """The least value of the column's type that is on that day or later."""
    if isinstance(data_type, DateType):
        return Literal(day, data_type)
    if isinstance(data_type, TimestampNTZType):
        return Literal(day * MICROS_PER_DAY, data_type)
    if isinstance(data_type, TimestampType):
        # Where clocks change at midnight, days may overlap; such conditions are left to Spark.
        start = utc_micros(day * MICROS_PER_DAY, zone)
        return None if start is None else Literal(start, data_type)
    return None
