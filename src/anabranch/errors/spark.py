"""Errors about running on Spark."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class SparkClassMissingError(DeltaError):
    """This release of Spark lacks a class that the native binding is built on."""

    condition: ClassVar[str] = "DELTA_SPARK_CLASS_MISSING"
    sqlstate: ClassVar[str] = "0A000"
    name: str
    places: tuple[str, ...]
    spark_version: str

    def explain(self) -> str:
        return (
            f"Spark {self.spark_version} has no class {' or '.join(self.places)}, which reading and writing through "
            "Spark's own classes needs. Set spark.anabranch.engine to portable, or use a release of PySpark that is "
            "supported (4.0 to 4.3)."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class WrittenFileError(DeltaError):
    """Spark reported a data file that cannot be part of the table. Nothing was committed."""

    condition: ClassVar[str] = "DELTA_WRITTEN_FILE_INVALID"
    sqlstate: ClassVar[str] = "58030"
    table: str
    path: str
    problem: str

    def explain(self) -> str:
        return (
            f"Data file {self.path}, just written for {self.table}, {self.problem}. "
            "Nothing was committed; run it again."
        )
