"""What the portable binding to Spark cannot do, or finds wrong in data files."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class DataTypeNotPortableError(DeltaAnalysisError):
    """A column has a type that data files of a table cannot have."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_DATA_TYPES"
    sqlstate: ClassVar[str] = "0AKDC"

    data_type: str

    def explain(self) -> str:
        return f"A Delta table cannot hold values of type {self.data_type}. Cast the column to another type."


@dataclasses.dataclass(eq=False, kw_only=True)
class DataFileMismatchError(DeltaError):
    """A data file does not hold what the table's schema says."""

    condition: ClassVar[str] = "ANABRANCH_DATA_FILE_MISMATCH"

    table: str
    path: str
    column: str
    expected: str
    problem: str

    def explain(self) -> str:
        return (
            f"The data file {self.path} of {self.table} does not have column {self.column} as {self.expected}: "
            f"{self.problem}. It was written by something that did not follow the table's schema, or is damaged."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DataFileUnknownToSparkError(DeltaError):
    """Spark listed other files than the ones it was asked to read."""

    condition: ClassVar[str] = "ANABRANCH_DATA_FILE_UNKNOWN_TO_SPARK"

    table: str
    path: str

    def explain(self) -> str:
        return (
            f"Spark was asked to read {self.path} of {self.table} and does not list it among its files. "
            "The file may have been removed by VACUUM or by hand; read the table again, or restore the file."
        )
