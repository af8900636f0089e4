"""What can be wrong with a condition that a user wrote."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError


@dataclasses.dataclass(eq=False, kw_only=True)
class PredicateSyntaxError(DeltaAnalysisError, ValueError):
    """The text is no SQL condition. Also Python's `ValueError`."""

    condition: ClassVar[str] = "PARSE_SYNTAX_ERROR"
    sqlstate: ClassVar[str] = "42601"

    text: str
    line: int
    """From 1."""
    column: int
    """From 1."""
    reason: str

    def explain(self) -> str:
        shown = self.text if len(self.text) <= 500 else self.text[:500] + "…"
        return (
            f"Could not read the condition {shown!r} at line {self.line}, column {self.column}: "
            f"{self.reason.rstrip('.')}. Write it as the WHERE clause of a query."
        )
