"""Columns that the table numbers. Implements "Identity Columns" of PROTOCOL.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructField, StructType

from anabranch.errors.schema import MalformedSchemaError
from anabranch.schema.visibility import (
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How the values of one column are made: `start`, `start + step`, …"""

    start: int
    step: int
    allow_explicit: bool
    high_water_mark: int | None
    """The value that was made last, in the direction of `step`; None before the first."""

    @property
    def next_value(self) -> int:
        """The first value that is free. It may lie beyond a BIGINT."""
        if self.high_water_mark is None or self._is_before_start(self.high_water_mark):
            return self.start
        return self.aligned(self.high_water_mark) + self.step

    def aligned(self, value: int) -> int:
        """`value`, or the first one behind it that the column could have made itself."""
        return self.start - (self.start - value) // self.step * self.step

    def moved(self, candidate: int) -> int | None:
        """The mark after `candidate` became a value of the column. It never goes back, nor before the start."""
        if self._is_before_start(candidate):
            return self.high_water_mark
        mark = self.aligned(candidate)
        if not LONG_MIN <= mark <= LONG_MAX:
            # The last value that a BIGINT holds; there is no next one.
            mark -= self.step
        if self.high_water_mark is None or self._is_before_start(self.high_water_mark):
            return mark
        before = self.aligned(self.high_water_mark)
        return max(mark, before) if self.step > 0 else min(mark, before)

    def _is_before_start(self, value: int) -> bool:
        return value < self.start if self.step > 0 else value > self.start


def identity_of(field: StructField, table: str = "the table") -> Identity | None:
    """How `field` is numbered; None for other columns. Raises MalformedSchemaError."""
    metadata: Mapping[str, Any] = field.metadata
    if not {IDENTITY_START, IDENTITY_STEP, IDENTITY_ALLOW_EXPLICIT} & metadata.keys():
        return None
    start, step = metadata.get(IDENTITY_START), metadata.get(IDENTITY_STEP)
    mark, explicit = metadata.get(IDENTITY_HIGH_WATER_MARK), metadata.get(IDENTITY_ALLOW_EXPLICIT)
    if not _is_long(start) or not _is_long(step) or not step or not (mark is None or _is_long(mark)):
        reason = "its start, step and high-water mark are not numbers that identity columns have"
        raise MalformedSchemaError(table=table, field=field.name, reason=reason)
    if not isinstance(explicit, bool):
        reason = f"it is an identity column, and {IDENTITY_ALLOW_EXPLICIT} is neither true nor false"
        raise MalformedSchemaError(table=table, field=field.name, reason=reason)
    return Identity(start=int(start or 0), step=int(step), allow_explicit=explicit, high_water_mark=mark)


def identity_columns(schema: StructType, table: str = "the table") -> dict[str, Identity]:
    """The numbered columns of a table, by name."""
    found = {field.name: identity_of(field, table) for field in schema.fields}
    return {name: identity for name, identity in found.items() if identity is not None}


def with_high_water_mark(schema: StructType, marks: Mapping[str, int | None]) -> StructType:
    """`schema` with these marks for these columns."""
    fields = []
    for field in schema.fields:
        mark = marks.get(field.name)
        metadata = field.metadata if mark is None else {**field.metadata, IDENTITY_HIGH_WATER_MARK: mark}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def _is_long(value: Any) -> bool:
    return type(value) is int and LONG_MIN <= value <= LONG_MAX
