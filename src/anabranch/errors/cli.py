"""What can go wrong on the command line beyond the errors of tables."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class ConditionNeedsSparkError(DeltaAnalysisError):
    """A condition has parts that only Spark can evaluate row by row."""

    condition: ClassVar[str] = "ANABRANCH_CONDITION_NEEDS_SPARK"
    sqlstate: ClassVar[str] = "0A000"
    condition_text: str
    parts: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"The condition {self.condition_text!r} needs Spark: {', '.join(self.parts)} cannot be evaluated without "
            "it. Here, comparisons of columns with constants or columns, IN, BETWEEN, IS NULL and LIKE 'prefix%' work, "
            'joined by AND, OR and NOT. For more, use spark.read.format("delta").load(…).where(…).'
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoFolderInUseError(DeltaError):
    """The folder for the demo holds something else."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_FOLDER_IN_USE"
    sqlstate: ClassVar[str] = "42710"
    folder: str
    found: str

    def explain(self) -> str:
        return (
            f"{self.folder} is not an earlier demo table ({self.found}), so the demo leaves it alone. "
            "Give the path of a folder that does not exist yet."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoDataMissingError(DeltaError):
    """The data set of the demo is not installed."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_DATA_MISSING"
    sqlstate: ClassVar[str] = "42704"

    def explain(self) -> str:
        return 'The flights of the demo are not installed. Run: pip install "anabranch[demo]"'


@dataclasses.dataclass(eq=False, kw_only=True)
class JavaMissingError(DeltaError):
    """Spark needs a Java that is not there."""

    condition: ClassVar[str] = "ANABRANCH_JAVA_MISSING"
    sqlstate: ClassVar[str] = "58000"
    found: str
    """What there is instead, as a clause."""

    def explain(self) -> str:
        return (
            f"Spark needs Java 17 or newer, and {self.found}.\n"
            "Install one of these, then run the command again:\n"
            "  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless\n"
            "  Fedora, RHEL     sudo dnf install java-17-openjdk-headless\n"
            "  macOS            brew install openjdk@17\n"
            "  conda            conda install -c conda-forge openjdk=17\n"
            "If Java is installed elsewhere, set JAVA_HOME to its folder."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoFailedError(DeltaError):
    """A part of the demo did not come out as it must."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_FAILED"
    part: str
    problem: str

    def explain(self) -> str:
        return f"The demo stopped at {self.part}: {self.problem}"
