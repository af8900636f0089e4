"""Columns whose values the table computes: generated, default and identity columns, and the ids of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.maintenance import RowTrackingColumnsError
from anabranch.errors.schema import MalformedSchemaError
from anabranch.errors.tables import IdentityStepError, InvalidIdentityColumnError
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import active
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import PHYSICAL_NAME

# The metadata of such columns. See "Generated Columns", "Default Columns" and "Identity Columns".


GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"


def generated_column(field: StructField, expression: str) -> StructField:
    """`field`, computed by a SQL expression over other columns."""
    return StructField(
        field.name, field.dataType, field.nullable, {**field.metadata, GENERATION_EXPRESSION: expression}
    )


def identity_column(field: StructField, *, start: int, step: int, allow_explicit: bool) -> StructField:
    """`field`, numbered by the table. Its nullability decides whether NULL may be written into it.

    Raises `InvalidIdentityColumnError` unless it is a BIGINT, and `IdentityStepError` for a step of 0.
    """
    if not isinstance(field.dataType, LongType):
        raise InvalidIdentityColumnError(column=field.name, column_type=field.dataType.simpleString())
    if step == 0:
        raise IdentityStepError(column=field.name)
    identity = {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_ALLOW_EXPLICIT: allow_explicit}
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, **identity})


def default_column(field: StructField, expression: str) -> StructField:
    """`field`, with a value for rows that are written without one."""
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, CURRENT_DEFAULT: expression})


# Columns that the table numbers. Implements "Identity Columns" of PROTOCOL.md.


LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityNumbering:
    """How the values of one column are generated: `start`, `start + step`, …"""

    start: int
    step: int
    allow_explicit: bool
    high_water_mark: int | None
    """The last generated value, in the direction of `step`; None before the first."""

    @property
    def next_value(self) -> int:
        """The first unused value. It may lie beyond a BIGINT."""
        if self.high_water_mark is None or self._is_before_start(self.high_water_mark):
            return self.start
        return self.aligned(self.high_water_mark) + self.step

    def aligned(self, value: int) -> int:
        """`value`, or the first one after it that the column itself could generate."""
        return self.start - (self.start - value) // self.step * self.step

    def mark_after(self, candidate: int) -> int | None:
        """The high-water mark once `candidate` is a value of the column. It never goes back, nor before the start."""
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


def identity_of(field: StructField, table: str = "the table") -> IdentityNumbering | None:
    """How `field` is numbered; None for other columns. Raises MalformedSchemaError."""
    metadata: Mapping[str, Any] = field.metadata
    if not {IDENTITY_START, IDENTITY_STEP, IDENTITY_ALLOW_EXPLICIT} & metadata.keys():
        return None
    start, step = metadata.get(IDENTITY_START), metadata.get(IDENTITY_STEP)
    mark, explicit = metadata.get(IDENTITY_HIGH_WATER_MARK), metadata.get(IDENTITY_ALLOW_EXPLICIT)
    if not _is_long(start) or not _is_long(step) or not step or not (mark is None or _is_long(mark)):
        reason = "its start, step and high-water mark are not numbers that an identity column can have"
        raise MalformedSchemaError(table=table, field=field.name, reason=reason)
    if not isinstance(explicit, bool):
        reason = f"it is an identity column, and {IDENTITY_ALLOW_EXPLICIT} is neither true nor false"
        raise MalformedSchemaError(table=table, field=field.name, reason=reason)
    return IdentityNumbering(start=int(start or 0), step=int(step), allow_explicit=explicit, high_water_mark=mark)


def identity_columns(schema: StructType, table: str = "the table") -> dict[str, IdentityNumbering]:
    """The numbered columns of a table, by name."""
    identities = {field.name: identity_of(field, table) for field in schema.fields}
    return {name: identity for name, identity in identities.items() if identity is not None}


def with_high_water_mark(schema: StructType, marks: Mapping[str, int | None]) -> StructType:
    """`schema` with new high-water marks for the columns in `marks`; None keeps the old one."""
    fields = []
    for field in schema.fields:
        mark = marks.get(field.name)
        metadata = field.metadata if mark is None else {**field.metadata, IDENTITY_HIGH_WATER_MARK: mark}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def _is_long(value: Any) -> bool:
    return type(value) is int and LONG_MIN <= value <= LONG_MAX


# The columns in which data files keep ids and commit versions of rows that moved. See "Row Tracking".


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowTrackingColumns:
    """The names of these columns. The table's schema and statistics do not have them, and users do not see them."""

    row_id: str
    commit_version: str

    @property
    def fields(self) -> tuple[StructField, StructField]:
        """The columns, to be read and written with the table's. Files without them have NULL there."""
        return _field(self.row_id), _field(self.commit_version)

    def added_to(self, schema: StructType) -> StructType:
        """`schema` with these columns at its end."""
        return StructType([*schema.fields, *self.fields])


def row_tracking_columns(
    protocol: Protocol, properties: TableProperties, schema: StructType, *, table: str
) -> RowTrackingColumns | None:
    """The columns of a table whose rows keep their ids; None for any other. Raises `RowTrackingColumnsError`."""
    if not active(protocol, "rowTracking", properties=properties, schema=schema):
        return None
    row_id, version = properties.materialized_row_id_column, properties.materialized_row_commit_version_column
    if row_id is None or version is None:
        raise RowTrackingColumnsError(table=table)
    return RowTrackingColumns(row_id=row_id, commit_version=version)


def _field(name: str) -> StructField:
    return StructField(name, LongType(), True, {PHYSICAL_NAME: name})
