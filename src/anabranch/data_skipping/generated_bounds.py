"""What the partition value of a generated column says of the column that it was computed from.

`day DATE GENERATED ALWAYS AS (CAST(at AS DATE))`: a file whose `day` is 2024-01-31 has no `at` far from that day. So
the partition value is a bound on `at`, and files are left out by it as by any other bound: for every form of condition,
and without another condition being made up. See "Generated Columns" of PROTOCOL.md, by which each value that is
written equals what the expression gives.

It gives that in the time zone of the session that wrote the file, which nobody recorded. So bounds on a TIMESTAMP are
as wide as all time zones together allow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from anabranch.data_skipping.column_bounds import ColumnBounds
from anabranch.predicates.generation_expressions import Derivation, Part, derivation_of
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name, physical_paths
from anabranch.schema.merging import GENERATION_EXPRESSION

_Whole = npt.NDArray[np.int64]
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_DAYS_MAX = 106_000_000
_MICROS_MAX = _DAYS_MAX * _DAY
"""What lies beyond is not known, so that nothing here overflows."""
_ZONE = 18 * _HOUR
"""No time zone is further from UTC."""
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_LENGTHS = {
    "YEAR": 366 * _DAY,
    "QUARTER": 92 * _DAY,
    "MONTH": 31 * _DAY,
    "WEEK": 7 * _DAY,
    "DAY": _DAY,
    "HOUR": _HOUR,
    "MINUTE": _HOUR // 60,
    "SECOND": _HOUR // 3600,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_FIELDS = (Part.YEAR, Part.MONTH, Part.DAY, Part.HOUR)
_FIELD_LIMITS = {Part.MONTH: (1, 12), Part.DAY: (1, 31), Part.HOUR: (0, 23)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPartition:
    """A partition column that was computed from another column; both by their physical names."""

    column: str
    derivation: Derivation


def generated_partitions(
    schema: StructType, partition_columns: Sequence[str], mode: ColumnMappingMode
) -> tuple[GeneratedPartition, ...]:
    """Those whose values say something of their source; `schema` and `partition_columns` have logical names."""
    found = []
    for field in schema.fields:
        text = field.metadata.get(GENERATION_EXPRESSION)
        if field.name not in partition_columns or not isinstance(text, str):
            continue
        derivation = derivation_of(text, field.dataType, schema)
        if derivation is not None:
            physical = physical_paths(schema, mode)[derivation.source]
            derivation = dataclasses.replace(derivation, source=physical)
            found.append(GeneratedPartition(column=physical_name(field, mode), derivation=derivation))
    return tuple(found)


def completed(
    told: ColumnBounds, generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> ColumnBounds:
    """`told`, which statistics say of the source of all `generated`, filled in where they say nothing.

    `values` has the bounds of the partition columns. Statistics come first: they are about the rows of the very file.
    """
    lower, upper, upper_open = _text_bounds(generated, values) or (*_ordered_bounds(generated, values), None)
    present = np.logical_or.reduce([values[each.column].null_free for each in generated])
    opened = told.upper_open
    if upper_open is not None:
        said = pc.is_valid(told.upper)
        opened = pc.if_else(said, False if told.upper_open is None else told.upper_open, upper_open)
    return dataclasses.replace(
        told,
        lower=pc.coalesce(told.lower, pc.cast(lower, told.lower.type)),
        upper=pc.coalesce(told.upper, pc.cast(upper, told.upper.type)),
        upper_open=opened,
        null_free=told.null_free | (present & ~told.all_null),
    )


def _text_bounds(
    generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """Bounds of a text from a copy of it or from its first letters; None where the source is no text."""
    for each in sorted(generated, key=lambda each: each.derivation.part is Part.PREFIX):
        found = values[each.column]
        if pa.types.is_string(found.lower.type) and each.derivation.part in (Part.VALUE, Part.PREFIX):
            begins = each.derivation.part is Part.PREFIX
            return found.lower, found.upper, pc.if_else(pc.is_valid(found.upper), begins, None)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """Where values can lie, ends included, one entry a file: microseconds, or whole numbers as such."""

    low: _Whole
    high: _Whole
    known: npt.NDArray[np.bool_]

    def widened(self, doubt: int) -> _Span:
        return _Span(np.maximum(self.low, _LEAST + doubt) - doubt, self.high + doubt, self.known)


def _ordered_bounds(
    generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> tuple[pa.Array, pa.Array]:
    """Bounds of a number, date or timestamp: the narrowest that the partition values together allow."""
    fields = {each.derivation.part: each for each in generated if each.derivation.part in _FIELDS}
    spans = [_span(each.derivation, values[each.column]) for each in generated if each.derivation.part not in _FIELDS]
    if Part.YEAR in fields:
        numbers = {part: _numbers(values[each.column].lower) for part, each in fields.items()}
        spans.append(_of_fields(numbers).widened(_doubt(fields[Part.YEAR].derivation)))
    count = len(next(iter(values.values())).null_free)
    low, high = np.full(count, _LEAST), np.full(count, _GREATEST)
    for span in spans:
        low = np.maximum(low, np.where(span.known, span.low, _LEAST))
        high = np.minimum(high, np.where(span.known, span.high, _GREATEST))
    unit = _DAY if isinstance(generated[0].derivation.source_type, DateType) else 1
    return pa.array(low // unit, mask=low == _LEAST), pa.array(high // unit, mask=high == _GREATEST)


def _doubt(derivation: Derivation) -> int:
    """How far the wall clock by which the value was told may have been from what the source says."""
    # A DATE that is formatted is the first moment of its day, where clocks skipped that a later one: never an earlier.
    return _ZONE if isinstance(derivation.source_type, TimestampType) else 0


def _span(derivation: Derivation, value: ColumnBounds) -> _Span:
    """What one column alone says."""
    match derivation.part:
        case Part.TEXT:
            return _of_text(derivation, value).widened(_doubt(derivation))
        case Part.MOMENT_BEGIN:
            first, last = _moments(value.lower), _moments(value.upper)
            found = _Span(first.low, last.high + _LENGTHS[derivation.unit], first.known & last.known)
            # Clocks may have been put forth or back since then; a DATE, also by a day, and it has no zone.
            zoned = isinstance(derivation.source_type, TimestampType)
            return found.widened(2 * _ZONE if zoned else 3 * _ZONE)
        case Part.VALUE if isinstance(derivation.source_type, TimestampType | TimestampNTZType):
            first, last = _moments(value.lower), _moments(value.upper)
            # Some writers leave out fractions of the second.
            return _Span(first.low, last.high, first.known & last.known).widened(_LENGTHS["SECOND"])
        case Part.VALUE if not isinstance(derivation.source_type, DateType):
            numbers, known = _numbers(value.lower)
            return _Span(numbers, numbers, known)
        case _:
            return _of_dates(derivation, value).widened(_doubt(derivation))


def _of_dates(derivation: Derivation, value: ColumnBounds) -> _Span:
    days, known = _numbers(value.lower)
    known &= np.abs(days) <= _DAYS_MAX
    days = np.where(known, days, 0)
    after = days + 1
    if derivation.part is Part.DATE_BEGIN:
        months = _MONTHS.get(derivation.unit)
        later = None if months is None else days.astype("datetime64[D]").astype("datetime64[M]") + months
        after = days + 7 if later is None else later.astype("datetime64[D]").astype(np.int64)
    return _Span(days * _DAY, after * _DAY - 1, known)


def _of_fields(numbers: Mapping[Part, tuple[_Whole, npt.NDArray[np.bool_]]]) -> _Span:
    """A year, narrowed to a month, a day and an hour as far as these are told."""
    year, known = numbers[Part.YEAR]
    known = known & (np.abs(year) <= _DAYS_MAX // 366)
    first_month = np.where(known, year - 1970, 0) * 12
    begin, end = _days_of_months(first_month) * _DAY, _days_of_months(first_month + 12) * _DAY
    narrower = known
    for part, length in ((Part.MONTH, None), (Part.DAY, _DAY), (Part.HOUR, _HOUR)):
        number, told = numbers.get(part, (first_month, np.zeros(len(known), dtype=np.bool_)))
        least, most = _FIELD_LIMITS[part]
        narrower = narrower & told & (least <= number) & (number <= most)
        count = np.where(narrower, number - least, 0)
        if length is None:
            begin = np.where(narrower, _days_of_months(first_month + count) * _DAY, begin)
            end = np.where(narrower, _days_of_months(first_month + count + 1) * _DAY, end)
        else:
            begin = begin + count * length
            end = np.where(narrower, begin + length, end)
    return _Span(begin, end - 1, known)


def _days_of_months(months: _Whole) -> _Whole:
    days: _Whole = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _of_text(derivation: Derivation, value: ColumnBounds) -> _Span:
    """The latest moment of which the text can be.

    There is no earliest: a session that formats times in the way of Spark 2 (`spark.sql.legacy.timeParserPolicy`)
    writes years before Christ without a sign.
    """
    encoded = value.lower.dictionary_encode()
    assert derivation.digits is not None
    matches = [derivation.digits.fullmatch(text) for text in encoded.dictionary.to_pylist()]
    indices = pc.fill_null(encoded.indices, len(matches)).to_numpy(zero_copy_only=False)
    numbers = {}
    for part, group in zip(_FIELDS, ("year", "month", "day", "hour"), strict=True):
        if group not in derivation.digits.groupindex:
            break
        found = [-1 if match is None else int(match[group]) for match in matches]
        known = [match is not None for match in matches]
        numbers[part] = np.array([*found, -1], np.int64)[indices], np.array([*known, False])[indices]
    span = _of_fields(numbers)
    return _Span(np.full(len(indices), _LEAST), span.high, span.known)


def _numbers(values: pa.Array) -> tuple[_Whole, npt.NDArray[np.bool_]]:
    """The values, and which of them are known."""
    known = pc.is_valid(values).to_numpy(zero_copy_only=False).copy()
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False), known


def _moments(values: pa.Array) -> _Span:
    moments, known = _numbers(values)
    known &= np.abs(moments) <= _MICROS_MAX
    moments = np.where(known, moments, 0)
    return _Span(moments, moments, known)
