"""Errors about options and arguments, and about what is not supported."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.errors import IllegalArgumentException

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidOptionError(DeltaAnalysisError, ValueError):
    """An option of a read or a write has a value that means nothing."""

    condition: ClassVar[str] = "DELTA_ILLEGAL_OPTION"
    sqlstate: ClassVar[str] = "42616"
    option: str
    value: str
    problem: str

    def explain(self) -> str:
        return f"Option {self.option} = {self.value!r}: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class TimeTravelTwiceError(InvalidOptionError):
    """A read asks for a version in two ways."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class IdempotentWriteOptionsError(InvalidOptionError, IllegalArgumentException):
    """The options that make a write idempotent do not go together, or mean nothing."""

    condition: ClassVar[str] = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"
    sqlstate: ClassVar[str] = "42616"


@dataclasses.dataclass(eq=False, kw_only=True)
class ReplaceWhereDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite says in two ways which rows go: by a condition, and by the partitions of the new ones."""

    condition: ClassVar[str] = "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class OverwriteSchemaDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite of some partitions would replace the schema of all."""

    condition: ClassVar[str] = "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedOperationError(DeltaError):
    """Something Delta offers and this version of anabranch does not. Nothing was done."""

    condition: ClassVar[str] = "DELTA_OPERATION_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0A000"
    operation: str
    instead: str = ""

    def explain(self) -> str:
        instead = f" {self.instead}" if self.instead else ""
        return f"{self.operation} is not supported by this version of anabranch.{instead}"


@dataclasses.dataclass(eq=False, kw_only=True)
class SessionNotEnabledError(DeltaError):
    """A call needs a session that `anabranch.enable` was called on."""

    condition: ClassVar[str] = "DELTA_CONFIGURE_SPARK_SESSION"
    sqlstate: ClassVar[str] = "56038"
    call: str

    def explain(self) -> str:
        return f"{self.call} needs a session that knows Delta. Call anabranch.enable(spark) once, first."


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidArgumentError(DeltaAnalysisError, ValueError):
    """An argument of a call has a value that means nothing."""

    condition: ClassVar[str] = "DELTA_INVALID_ARGUMENT"
    sqlstate: ClassVar[str] = "22023"
    argument: str
    value: str
    problem: str

    def explain(self) -> str:
        return f"{self.argument} = {self.value!r}: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class AssignmentError(DeltaAnalysisError, ValueError):
    """UPDATE or MERGE sets something that cannot be set."""

    condition: ClassVar[str] = "DELTA_INVALID_ASSIGNMENT"
    sqlstate: ClassVar[str] = "42703"
    table: str
    column: str
    """As it was written."""
    problem: str

    def explain(self) -> str:
        return f"{self.column} of {self.table} cannot be set: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class UnchangeableTargetError(DeltaAnalysisError, ValueError):
    """DELETE, UPDATE or MERGE names something that is not a table, and cannot stand for one. Nothing was done."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_SOURCE"
    sqlstate: ClassVar[str] = "0AKDD"
    statement: str
    problem: str

    def explain(self) -> str:
        return (
            f"{self.statement} changes rows of a Delta table; what it names cannot stand for one: {self.problem}. "
            "Name the table itself, or a temporary view of rows and columns of one table."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class PartialTargetError(UnchangeableTargetError):
    """DELETE, UPDATE or MERGE names a view of a table that shows less than the statement needs. Nothing was done."""

    condition: ClassVar[str] = "DELTA_UNEXPECTED_PARTIAL_SCAN"
    sqlstate: ClassVar[str] = "KD00A"


@dataclasses.dataclass(eq=False, kw_only=True)
class HistoricalTargetError(UnchangeableTargetError):
    """DELETE, UPDATE or MERGE names an old version of a table. Nothing was done."""

    condition: ClassVar[str] = "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"
    sqlstate: ClassVar[str] = "KD002"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConflictingAssignmentsError(AssignmentError):
    """UPDATE or MERGE sets a column twice, or a struct and a field of it."""

    condition: ClassVar[str] = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate: ClassVar[str] = "42701"


@dataclasses.dataclass(eq=False, kw_only=True)
class DuplicateInsertColumnsError(AssignmentError):
    """The INSERT of a MERGE names a column twice."""

    condition: ClassVar[str] = "DELTA_DUPLICATE_COLUMNS_ON_INSERT"
    sqlstate: ClassVar[str] = "42701"
