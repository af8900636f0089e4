"""Errors about reading and writing a table's change data feed."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesStartMissingError(DeltaAnalysisError, ValueError):
    """Changes were asked for without a word of where they begin."""

    condition: ClassVar[str] = "DELTA_NO_START_FOR_CDC_READ"
    sqlstate: ClassVar[str] = "42601"
    table: str

    def explain(self) -> str:
        return (
            f"Changes of {self.table} were asked for, and not since when. Give startingVersion or startingTimestamp; "
            "that version is the first whose changes are read."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesBoundTwiceError(DeltaAnalysisError, ValueError):
    """One end of the range is given both as a version and as a time."""

    condition: ClassVar[str] = "DELTA_MULTIPLE_CDC_BOUNDARY"
    sqlstate: ClassVar[str] = "42614"
    bound: str
    """`starting` or `ending`."""

    def explain(self) -> str:
        return f"Both {self.bound}Version and {self.bound}Timestamp are given. Leave one of them out."


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesBoundNullError(DeltaAnalysisError, ValueError):
    """One end of the range is NULL."""

    condition: ClassVar[str] = "DELTA_CDC_READ_NULL_RANGE_BOUNDARY"
    sqlstate: ClassVar[str] = "22004"
    function: str

    def explain(self) -> str:
        return f"A version or time given to {self.function} is NULL. Give a version, a timestamp or the text of one."


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesRangeError(DeltaAnalysisError, ValueError):
    """The range ends before it begins."""

    condition: ClassVar[str] = "DELTA_INVALID_CDC_RANGE"
    sqlstate: ClassVar[str] = "22003"
    table: str
    start: int
    end: int

    def explain(self) -> str:
        return f"Changes of {self.table} were asked for from version {self.start} to {self.end}, which lies before it."


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesStartAfterLatestError(DeltaAnalysisError, ValueError):
    """The range begins with a version that is not there yet."""

    condition: ClassVar[str] = "DELTA_CDC_START_VERSION_AFTER_LATEST"
    sqlstate: ClassVar[str] = "22003"
    table: str
    start: int
    latest: int

    def explain(self) -> str:
        return (
            f"Changes of {self.table} were asked for from version {self.start}, and its newest version is "
            f"{self.latest}. Set spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled to true to get no "
            "rows instead of this error."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesNotRecordedError(DeltaAnalysisError):
    """A version of the range was written while the feed was off."""

    condition: ClassVar[str] = "DELTA_MISSING_CHANGE_DATA"
    sqlstate: ClassVar[str] = "KD002"
    table: str
    version: int
    start: int
    end: int

    def explain(self) -> str:
        return (
            f"Changes of {self.table} from version {self.start} to {self.end} cannot be read: its change data feed was "
            f"off in version {self.version}. DESCRIBE HISTORY shows when 'delta.enableChangeDataFeed' was set; changes "
            "are recorded from there on."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesSchemaError(DeltaAnalysisError):
    """Rows of the range were written under columns that cannot be read as those of the result."""

    condition: ClassVar[str] = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    sqlstate: ClassVar[str] = "0AKDC"
    table: str
    start: int
    end: int
    read_version: int
    """Whose columns the result would have."""
    version: int
    """Whose columns do not fit."""
    difference: str

    def explain(self) -> str:
        apart = (
            f"Read the changes up to version {self.version - 1} and those from version {self.version} on apart."
            if self.start < self.version
            else f"Changes that end before the columns changed can be read: give an end before version {self.end}."
        )
        return (
            f"Changes of {self.table} from version {self.start} to {self.end} cannot be read as one table: their "
            f"columns are those of version {self.read_version}, and in version {self.version} {self.difference}. "
            f"{apart}"
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ChangesIncompleteError(DeltaError):
    """A commit does not say enough of a file that it removed to read the rows that went with it."""

    condition: ClassVar[str] = "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA"
    sqlstate: ClassVar[str] = "KD00E"
    table: str
    version: int
    path: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} removed {self.path} without saying how large it was and in which "
            "partition it lay, so that the rows that went with it cannot be read. Begin with a later version."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class TableFunctionArgumentsError(DeltaAnalysisError, ValueError):
    """`table_changes` or `table_changes_by_path` was called with arguments that it does not have."""

    condition: ClassVar[str] = "INCORRECT_NUMBER_OF_ARGUMENTS"
    sqlstate: ClassVar[str] = "42605"
    function: str
    problem: str

    def explain(self) -> str:
        what = "'/path/of/table'" if self.function.endswith("by_path") else "'table'"
        return f"{self.function}({what}, start[, end]): {self.problem}."
