"""Errors about options and arguments, and about what is not supported."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

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
