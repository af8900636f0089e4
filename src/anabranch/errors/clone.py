"""Errors about CLONE."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class DeepCloneError(DeltaError):
    """A clone that copies its source's files, which open Delta has not."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_DEEP_CLONE"
    sqlstate: ClassVar[str] = "0A000"
    target: str

    def explain(self) -> str:
        return (
            f"{self.target} cannot be made by a deep clone: only SHALLOW CLONE (isShallow=True) is there. To have the "
            "files copied, use CREATE TABLE … AS SELECT, or clone shallow and run OPTIMIZE, which writes new files."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class CloneSourceError(DeltaAnalysisError):
    """What was to be cloned is no table whose files a Delta log can name."""

    condition: ClassVar[str] = "DELTA_CLONE_UNSUPPORTED_SOURCE"
    sqlstate: ClassVar[str] = "0AKDC"
    source: str
    found: str

    def explain(self) -> str:
        return f"{self.source} cannot be cloned: {self.found}. Clone a Delta table, or use CREATE TABLE … AS SELECT."


@dataclasses.dataclass(eq=False, kw_only=True)
class CloneTargetError(DeltaAnalysisError, ValueError):
    """The place for the clone is none."""

    condition: ClassVar[str] = "DELTA_INVALID_CLONE_TARGET"
    sqlstate: ClassVar[str] = "22KD1"
    target: str
    problem: str

    def explain(self) -> str:
        return f"{self.target} cannot become the clone: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class CloneArgumentError(DeltaAnalysisError, ValueError):
    """An argument of `DeltaTable.clone` has another type than it must have."""

    condition: ClassVar[str] = "DELTA_INVALID_ARGUMENT"
    sqlstate: ClassVar[str] = "22023"
    argument: str
    expected: str
    found: str

    def explain(self) -> str:
        return f"{self.argument} needs to be {self.expected} but got '{self.found}'."


@dataclasses.dataclass(eq=False, kw_only=True)
class CloneOntoItselfError(DeltaAnalysisError):
    """A table was to become a clone of itself."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE"
    sqlstate: ClassVar[str] = "0AKDC"
    table: str

    def explain(self) -> str:
        return (
            f"{self.table} cannot become a clone of itself. To go back to an older version of it, use "
            f"RESTORE TABLE {self.table} TO VERSION AS OF …."
        )
