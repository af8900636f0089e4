"""Columns whose values the table makes. See "Generated Columns", "Default Columns" and "Identity Columns"."""

from __future__ import annotations

from pyspark.sql.types import LongType, StructField

from anabranch.errors.tables import IdentityStepError, InvalidIdentityColumnError
from anabranch.schema.visibility import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)


def generated_column(field: StructField, expression: str) -> StructField:
    """`field`, computed by a SQL expression over other columns."""
    return StructField(
        field.name, field.dataType, field.nullable, {**field.metadata, GENERATION_EXPRESSION: expression}
    )


def identity_column(field: StructField, *, start: int, step: int, allow_explicit: bool) -> StructField:
    """`field`, numbered by the table. Whether it takes a NULL that somebody writes into it is up to the field.

    Raises `InvalidIdentityColumnError` unless it is a BIGINT, `IdentityStepError`.
    """
    if not isinstance(field.dataType, LongType):
        raise InvalidIdentityColumnError(column=field.name, column_type=field.dataType.simpleString())
    if step == 0:
        raise IdentityStepError(column=field.name)
    identity = {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_ALLOW_EXPLICIT: allow_explicit}
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, **identity})


def default_column(field: StructField, expression: str) -> StructField:
    """`field`, with a value for rows that bring none."""
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, CURRENT_DEFAULT: expression})
