"""Bounds of a column from the partition values of a column that is generated from it.

`day DATE GENERATED ALWAYS AS (CAST(at AS DATE))`: a file whose `day` is 2024-01-31 has no `at` far from that day. So
the partition value bounds `at`, and files are skipped by it as by any other bound: for every form of condition, and
without deriving another condition. See "Generated Columns" of PROTOCOL.md, by which each written value equals the
result of the expression.

That result depends on the time zone of the session that wrote the file, which the log does not record. So bounds on a
TIMESTAMP are as wide as all time zones together require.
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
from anabranch.schema.computed_columns import GENERATION_EXPRESSION

_Whole = npt.NDArray[np.int64]
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_DAYS_MAX = 106_000_000
_MICROS_MAX = _DAYS_MAX * _DAY
"""Values beyond these limits give no bounds, so that no computation here overflows."""
_ZONE = 18 * _HOUR
"""The largest offset of a time zone from UTC."""
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
    """The partition columns whose values bound their source; `schema` and `partition_columns` have logical names."""
    generated = []
    for field in schema.fields:
        text = field.metadata.get(GENERATION_EXPRESSION)
        if field.name not in partition_columns or not isinstance(text, str):
            continue
        derivation = derivation_of(text, field.dataType, schema)
        if derivation is not None:
            physical = physical_paths(schema, mode)[derivation.source]
            derivation = dataclasses.replace(derivation, source=physical)
            generated.append(GeneratedPartition(column=physical_name(field, mode), derivation=derivation))
    return tuple(generated)


def with_partition_bounds(
    measured: ColumnBounds, generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> ColumnBounds:
    """The bounds `measured` from statistics; where they lack one, that of columns generated from the same column.

    `values` has the bounds of the partition columns. Statistics take precedence, as they are about the file's own rows.
    """
    lower, upper, upper_open = _text_bounds(generated, values) or (*_ordered_bounds(generated, values), None)
    present = np.logical_or.reduce([values[partition.column].null_free for partition in generated])
    opened = measured.upper_open
    if upper_open is not None:
        has_upper = pc.is_valid(measured.upper)
        opened = pc.if_else(has_upper, False if measured.upper_open is None else measured.upper_open, upper_open)
    return dataclasses.replace(
        measured,
        lower=pc.coalesce(measured.lower, pc.cast(lower, measured.lower.type)),
        upper=pc.coalesce(measured.upper, pc.cast(upper, measured.upper.type)),
        upper_open=opened,
        null_free=measured.null_free | (present & ~measured.all_null),
    )


def _text_bounds(
    generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """Bounds of a text from a copy of it or from its first characters; None where the source is no text."""
    for partition in sorted(generated, key=lambda partition: partition.derivation.part is Part.PREFIX):
        value, part = values[partition.column], partition.derivation.part
        if pa.types.is_string(value.lower.type) and part in (Part.VALUE, Part.PREFIX):
            return value.lower, value.upper, pc.if_else(pc.is_valid(value.upper), part is Part.PREFIX, None)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """A range of values for each file, ends included: microseconds, or whole numbers as such."""

    low: _Whole
    high: _Whole
    valid: npt.NDArray[np.bool_]
    """False for files of which the range is unknown."""

    def widened(self, margin: int) -> _Span:
        return _Span(np.maximum(self.low, _LEAST + margin) - margin, self.high + margin, self.valid)


def _ordered_bounds(
    generated: Sequence[GeneratedPartition], values: Mapping[str, ColumnBounds]
) -> tuple[pa.Array, pa.Array]:
    """Bounds of a number, date or timestamp: the narrowest that the partition values together allow."""
    fields = {partition.derivation.part: partition for partition in generated if partition.derivation.part in _FIELDS}
    others = [partition for partition in generated if partition.derivation.part not in _FIELDS]
    spans = [_span(partition.derivation, values[partition.column]) for partition in others]
    if Part.YEAR in fields:
        numbers = {part: _numbers(values[partition.column].lower) for part, partition in fields.items()}
        spans.append(_of_fields(numbers).widened(_zone_margin(fields[Part.YEAR].derivation)))
    count = len(next(iter(values.values())).null_free)
    low, high = np.full(count, _LEAST), np.full(count, _GREATEST)
    for span in spans:
        low = np.maximum(low, np.where(span.valid, span.low, _LEAST))
        high = np.minimum(high, np.where(span.valid, span.high, _GREATEST))
    unit = _DAY if isinstance(generated[0].derivation.source_type, DateType) else 1
    return pa.array(low // unit, mask=low == _LEAST), pa.array(high // unit, mask=high == _GREATEST)


def _zone_margin(derivation: Derivation) -> int:
    """The largest difference between the wall clock of the session that computed the value and UTC."""
    # Formatting a DATE takes the first moment of its day, or a later one where clocks skipped that: never an earlier.
    return _ZONE if isinstance(derivation.source_type, TimestampType) else 0


def _span(derivation: Derivation, value: ColumnBounds) -> _Span:
    """The range of the source that one partition column allows."""
    match derivation.part:
        case Part.TEXT:
            return _of_text(derivation, value).widened(_zone_margin(derivation))
        case Part.MOMENT_BEGIN:
            first, last = _moments(value.lower), _moments(value.upper)
            span = _Span(first.low, last.high + _LENGTHS[derivation.unit], first.valid & last.valid)
            # Clocks may have changed within the unit; a DATE, which has no zone, may also be off by a day.
            zoned = isinstance(derivation.source_type, TimestampType)
            return span.widened(2 * _ZONE if zoned else 3 * _ZONE)
        case Part.VALUE if isinstance(derivation.source_type, TimestampType | TimestampNTZType):
            first, last = _moments(value.lower), _moments(value.upper)
            # Some writers leave out fractions of the second.
            return _Span(first.low, last.high, first.valid & last.valid).widened(_LENGTHS["SECOND"])
        case Part.VALUE if not isinstance(derivation.source_type, DateType):
            numbers, valid = _numbers(value.lower)
            return _Span(numbers, numbers, valid)
        case _:
            return _of_dates(derivation, value).widened(_zone_margin(derivation))


def _of_dates(derivation: Derivation, value: ColumnBounds) -> _Span:
    days, valid = _numbers(value.lower)
    valid &= np.abs(days) <= _DAYS_MAX
    days = np.where(valid, days, 0)
    after = days + 1
    if derivation.part is Part.DATE_BEGIN:
        months = _MONTHS.get(derivation.unit)
        later = None if months is None else days.astype("datetime64[D]").astype("datetime64[M]") + months
        after = days + 7 if later is None else later.astype("datetime64[D]").astype(np.int64)
    return _Span(days * _DAY, after * _DAY - 1, valid)


def _of_fields(numbers: Mapping[Part, tuple[_Whole, npt.NDArray[np.bool_]]]) -> _Span:
    """The range of a year, narrowed to a month, a day and an hour where there are columns for these."""
    year, valid = numbers[Part.YEAR]
    valid = valid & (np.abs(year) <= _DAYS_MAX // 366)
    first_month = np.where(valid, year - 1970, 0) * 12
    begin, end = _days_of_months(first_month) * _DAY, _days_of_months(first_month + 12) * _DAY
    narrower = valid
    for part, length in ((Part.MONTH, None), (Part.DAY, _DAY), (Part.HOUR, _HOUR)):
        number, number_valid = numbers.get(part, (first_month, np.zeros(len(valid), dtype=np.bool_)))
        least, most = _FIELD_LIMITS[part]
        narrower = narrower & number_valid & (least <= number) & (number <= most)
        count = np.where(narrower, number - least, 0)
        if length is None:
            begin = np.where(narrower, _days_of_months(first_month + count) * _DAY, begin)
            end = np.where(narrower, _days_of_months(first_month + count + 1) * _DAY, end)
        else:
            begin = begin + count * length
            end = np.where(narrower, begin + length, end)
    return _Span(begin, end - 1, valid)


def _days_of_months(months: _Whole) -> _Whole:
    days: _Whole = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _of_text(derivation: Derivation, value: ColumnBounds) -> _Span:
    """The range up to the last moment that is formatted as the text.

    It has no lower end: a session that formats times as Spark 2 did (`spark.sql.legacy.timeParserPolicy`) writes
    years before Christ without a sign.
    """
    encoded = value.lower.dictionary_encode()
    assert derivation.digits is not None
    matches = [derivation.digits.fullmatch(text) for text in encoded.dictionary.to_pylist()]
    indices = pc.fill_null(encoded.indices, len(matches)).to_numpy(zero_copy_only=False)
    numbers = {}
    for part, group in zip(_FIELDS, ("year", "month", "day", "hour"), strict=True):
        if group not in derivation.digits.groupindex:
            break
        fields = [-1 if match is None else int(match[group]) for match in matches]
        valid = [match is not None for match in matches]
        numbers[part] = np.array([*fields, -1], np.int64)[indices], np.array([*valid, False])[indices]
    span = _of_fields(numbers)
    return _Span(np.full(len(indices), _LEAST), span.high, span.valid)


def _numbers(values: pa.Array) -> tuple[_Whole, npt.NDArray[np.bool_]]:
    """The values, and which of them are not null."""
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False).copy()
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False), valid


def _moments(values: pa.Array) -> _Span:
    moments, valid = _numbers(values)
    valid &= np.abs(moments) <= _MICROS_MAX
    moments = np.where(valid, moments, 0)
    return _Span(moments, moments, valid)
