"""The root of every error anabranch raises."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException


@dataclasses.dataclass(eq=False, kw_only=True)
class DeltaError(PySparkException):
    """Something about a Delta table went wrong.

    A subclass is a dataclass: its fields are the facts, and `template` is the message, with names of facts in braces. A
    subclass whose sentences depend on the facts overrides `explain` instead. It is a `PySparkException`, so code that
    catches Spark's errors catches ours, and `getCondition`, `getSqlState` and `getMessageParameters` answer as they do
    for Spark's own.
    """

    condition: ClassVar[str] = "DELTA_ERROR"
    """Machine-readable name; Delta's own error class where Delta has one."""
    sqlstate: ClassVar[str] = "XXKDS"
    template: ClassVar[str]
    """A fact of several texts stands in the message with commas between them."""

    def __post_init__(self) -> None:
        Exception.__init__(self)
        self._contexts: list[Any] = []
        self._errorClass = self.condition
        self._message = self.explain()
        self._messageParameters = {name: str(value) for name, value in self.facts().items()}

    def explain(self) -> str:
        """What happened, to which table and version, and what the reader can do."""
        facts = self.facts().items()
        shown = {name: ", ".join(fact) if isinstance(fact, tuple) else fact for name, fact in facts}
        return self.template.format_map(shown)

    def facts(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def getSqlState(self) -> str:
        return self.sqlstate

    def getBreakingChangeInfo(self) -> None:
        return None

    def __str__(self) -> str:
        return f"[{self.condition}] {self.explain()}"

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts().items())
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.facts()))


@dataclasses.dataclass(eq=False, kw_only=True)
class DeltaAnalysisError(DeltaError, AnalysisException):
    """The request does not fit the table. Also Spark's `AnalysisException`, as with Delta."""

    condition: ClassVar[str] = "DELTA_ANALYSIS_ERROR"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeltaUnsupportedOperationError(DeltaError, UnsupportedOperationException):
    """The table does not allow the operation. Also Spark's `UnsupportedOperationException`, as with Delta."""


def _rebuild(error: type[DeltaError], facts: dict[str, Any]) -> DeltaError:
    return error(**facts)
