"""Errors about SQL text."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.errors import ParseException

from anabranch.errors.base import DeltaAnalysisError


@dataclasses.dataclass(eq=False, kw_only=True)
class SqlSyntaxError(DeltaAnalysisError, ParseException, ValueError):
    """A statement on a Delta table that cannot be read. Also Spark's `ParseException`."""

    condition: ClassVar[str] = "PARSE_SYNTAX_ERROR"
    sqlstate: ClassVar[str] = "42601"
    statement: str
    """What kind of statement it is, as far as that could be told."""
    line: int
    """Counted from 1, as the column is."""
    column: int
    expected: str
    found: str

    def explain(self) -> str:
        return (
            f"The statement {self.statement} cannot be read from line {self.line}, column {self.column} on: expected "
            f"is {self.expected}, there is {self.found}. Names that are keywords or hold other than letters, digits "
            "and _ go in backticks."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnboundParameterError(DeltaAnalysisError, ValueError):
    """A statement has a parameter that no value was given for."""

    condition: ClassVar[str] = "UNBOUND_SQL_PARAMETER"
    sqlstate: ClassVar[str] = "42P02"
    parameter: str

    def explain(self) -> str:
        return (
            f"The statement has the parameter {self.parameter}, and no value was given for it. Pass named parameters "
            "as a dictionary and those written ? as a list: spark.sql(text, args=…)."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedParameterError(DeltaAnalysisError, ValueError):
    """A parameter has a value that cannot stand in a condition or an assignment."""

    condition: ClassVar[str] = "UNSUPPORTED_SQL_PARAMETER"
    sqlstate: ClassVar[str] = "0A000"
    parameter: str
    value_type: str

    def explain(self) -> str:
        return (
            f"The parameter {self.parameter} is a value of type {self.value_type}, which has no SQL literal. Write the "
            "value into the statement, or use a query over a DataFrame."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidColumnListError(DeltaAnalysisError, ValueError):
    """The columns that an INSERT names do not go together with its rows."""

    condition: ClassVar[str] = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    sqlstate: ClassVar[str] = "42802"
    table: str
    columns: tuple[str, ...]
    """That the rows are for."""
    found: int
    """How many columns the rows have."""

    def explain(self) -> str:
        return (
            f"Each row for {self.table} needs {len(self.columns)} columns ({', '.join(self.columns)}), and the query "
            f"gives {self.found}. Name the columns that the query gives: INSERT INTO table (a, b) …"
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class RecursiveViewError(DeltaAnalysisError, ValueError):
    """The query of a view reads the view itself."""

    condition: ClassVar[str] = "RECURSIVE_VIEW"
    sqlstate: ClassVar[str] = "42K0H"
    view: str

    def explain(self) -> str:
        return (
            f"The query of the view {self.view} reads that view itself, maybe through others. Give the new view "
            "another name."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class NotCachedError(DeltaAnalysisError, ValueError):
    """A table is to leave the cache that is not there."""

    condition: ClassVar[str] = "UNCACHE_NOT_CACHED"
    sqlstate: ClassVar[str] = "42P01"
    table: str

    def explain(self) -> str:
        return f"{self.table} is not cached in this session by CACHE TABLE. Write UNCACHE TABLE IF EXISTS."
