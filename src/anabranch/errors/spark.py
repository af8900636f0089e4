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


@dataclasses.dataclass(eq=False, kw_only=True)
class ExtensionClashError(DeltaError):
    """The driver's JVM has other classes under the names of those that anabranch puts there."""

    condition: ClassVar[str] = "ANABRANCH_EXTENSION_CLASH"
    sqlstate: ClassVar[str] = "55000"
    name: str
    location: str

    def explain(self) -> str:
        return (
            f"The driver's JVM has a class {self.name} that is not of this version of anabranch. It comes from "
            f"{self.location}. Either another version was enabled in this JVM before: then start Python, and with it "
            "the JVM, anew. Or a jar of the session has a package of that name: then start without it."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ExtensionNotLoadedError(DeltaError):
    """anabranch's Java classes cannot be put into the driver's JVM. Nothing was enabled."""

    condition: ClassVar[str] = "ANABRANCH_EXTENSION_NOT_LOADED"
    sqlstate: ClassVar[str] = "0A000"
    spark_version: str
    problem: str

    def explain(self) -> str:
        return (
            f"anabranch's Java classes cannot be put into the driver of this Spark {self.spark_version}: "
            f"{self.problem}. Use a release of PySpark that is supported (4.0 to 4.3), as it is published, or set "
            "spark.anabranch.engine to portable, which does without them."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DeltaJarPresentError(DeltaError):
    """The session was started with the delta-spark jar, which answers for Delta tables itself."""

    condition: ClassVar[str] = "ANABRANCH_DELTA_JAR_PRESENT"
    sqlstate: ClassVar[str] = "55000"
    location: str

    def explain(self) -> str:
        return (
            f"This session has the delta-spark jar ({self.location}), and only one of the two can answer for Delta "
            "tables. To use anabranch, start without it: remove io.delta:delta-spark from spark.jars.packages (or the "
            "jar from spark.jars), io.delta.sql.DeltaSparkSessionExtension from spark.sql.extensions, and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog. `anabranch run` leaves "
            "them out for you. To use the jar, leave anabranch.enable out."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class SessionCatalogTakenError(DeltaError):
    """Another library stands in the place of the session's catalog."""

    condition: ClassVar[str] = "ANABRANCH_SESSION_CATALOG_TAKEN"
    sqlstate: ClassVar[str] = "55000"
    catalog: str

    def explain(self) -> str:
        return (
            f"spark.sql.catalog.spark_catalog is {self.catalog}, and a session has one such catalog. Start without "
            "that setting: the other library's tables can have a catalog of another name, as in "
            f"spark.sql.catalog.other={self.catalog}. Or set spark.anabranch.engine to portable, which needs none."
        )
