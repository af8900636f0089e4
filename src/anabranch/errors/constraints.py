"""Errors about rows that a table does not take. The write stopped; the table is as it was."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class NotNullViolationError(DeltaError):
    """A row has a NULL where the column allows none."""

    condition: ClassVar[str] = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate: ClassVar[str] = "23502"
    table: str
    column: str

    def explain(self) -> str:
        return (
            f"Column {self.column} of {self.table} is NOT NULL, and a row to be written has NULL there. Nothing was "
            "written. Fill or filter such rows, or drop NOT NULL from the column."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class LengthLimitError(DeltaError):
    """A text is longer than the column's `char(n)` or `varchar(n)`."""

    condition: ClassVar[str] = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    sqlstate: ClassVar[str] = "22001"
    table: str
    column: str
    declared: str
    value: str

    def explain(self) -> str:
        return (
            f"Column {self.column} of {self.table} is {self.declared}, and a row to be written has "
            f"{self.value!r}. Nothing was written. Shorten the value, or widen the column."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class CastOverflowError(DeltaError):
    """A value does not fit the type of the table's column."""

    condition: ClassVar[str] = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
    sqlstate: ClassVar[str] = "22003"
    table: str
    column: str
    column_type: str
    value: str

    def explain(self) -> str:
        return (
            f"Column {self.column} of {self.table} is {self.column_type}, and a row to be written has {self.value}, "
            "which does not fit. Nothing was written. Cast or filter such rows, or widen the column."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ReplaceWhereMismatchError(DeltaError):
    """A row to be written lies outside of what `replaceWhere` replaces."""

    condition: ClassVar[str] = "DELTA_REPLACE_WHERE_MISMATCH"
    sqlstate: ClassVar[str] = "44000"
    table: str
    predicate: str
    row: str

    def explain(self) -> str:
        return (
            f"A row to be written to {self.table} does not satisfy replaceWhere ({self.predicate}): {self.row}. "
            "Nothing was written. Filter the rows, widen the predicate, or set "
            "spark.databricks.delta.replaceWhere.constraintCheck.enabled to false."
        )
