"""Errors about MERGE. Nothing was committed."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class MergeWithoutClauseError(DeltaAnalysisError, ValueError):
    """A MERGE says nothing of what to do."""

    condition: ClassVar[str] = "DELTA_MERGE_MISSING_WHEN"
    sqlstate: ClassVar[str] = "42601"
    table: str

    def explain(self) -> str:
        return f"The MERGE into {self.table} has no WHEN clause, so there is nothing to do. Add at least one."


@dataclasses.dataclass(eq=False, kw_only=True)
class UnreachableMergeClauseError(DeltaAnalysisError, ValueError):
    """A clause without a condition stands before others of its kind, which no row can reach. See the subclasses."""

    kind: ClassVar[str]
    table: str

    def explain(self) -> str:
        return (
            f"A {self.kind} clause of the MERGE into {self.table} has no condition and is not the last of its kind, so "
            "those behind it can never apply. Give it a condition, or put it last."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnreachableMatchedClauseError(UnreachableMergeClauseError):
    """Of WHEN MATCHED clauses."""

    condition: ClassVar[str] = "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"
    sqlstate: ClassVar[str] = "42601"
    kind: ClassVar[str] = "WHEN MATCHED"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnreachableNotMatchedClauseError(UnreachableMergeClauseError):
    """Of WHEN NOT MATCHED clauses."""

    condition: ClassVar[str] = "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION"
    sqlstate: ClassVar[str] = "42601"
    kind: ClassVar[str] = "WHEN NOT MATCHED"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnreachableNotMatchedBySourceClauseError(UnreachableMergeClauseError):
    """Of WHEN NOT MATCHED BY SOURCE clauses."""

    condition: ClassVar[str] = "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"
    sqlstate: ClassVar[str] = "42601"
    kind: ClassVar[str] = "WHEN NOT MATCHED BY SOURCE"


@dataclasses.dataclass(eq=False, kw_only=True)
class AmbiguousMergeError(DeltaError):
    """Several rows of the source would change one row of the table."""

    condition: ClassVar[str] = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sqlstate: ClassVar[str] = "21506"
    table: str
    row: str
    """One such row of the table."""

    def explain(self) -> str:
        return (
            f"Several rows of the source match one row of {self.table} and would change it: {self.row}. Which of them "
            "should win is not defined. Nothing was changed. Leave one source row for each key, or let the "
            "conditions of the clauses choose one."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class MergeColumnNotFoundError(DeltaAnalysisError, ValueError):
    """`UPDATE SET *` or `INSERT *` needs a column that the source lacks."""

    condition: ClassVar[str] = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    sqlstate: ClassVar[str] = "42601"
    table: str
    column: str
    clause: str
    available: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"The {self.clause} clause of the MERGE into {self.table} takes every column from the source, which has "
            f"no {self.column} (it has: {', '.join(self.available)}). Name the columns to set, add {self.column} to "
            "the source, or allow the schema to evolve, so that columns the source lacks are left out."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class NonDeterministicConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE may answer otherwise when it is asked again."""

    condition: ClassVar[str] = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0AKDC"
    table: str
    clause: str
    expression: str

    def explain(self) -> str:
        return (
            f"The {self.clause} condition of the MERGE into {self.table} is not deterministic: {self.expression}. "
            "Compute such a value as a column of the source first."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class SubqueryInConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE holds a subquery."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_SUBQUERY"
    sqlstate: ClassVar[str] = "0AKDC"
    table: str
    clause: str
    expression: str

    def explain(self) -> str:
        return (
            f"The {self.clause} condition of the MERGE into {self.table} holds a subquery: {self.expression}. "
            "Join what it asks for to the source first."
        )
