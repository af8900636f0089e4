"""Errors about what a log says: its actions, features, properties, paths and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error


@delta_error("DELTA_MALFORMED_ACTION")
class MalformedActionError(DeltaError):
    """A line of a commit or of a JSON checkpoint is not an action."""

    line_number: int
    """Counted from 1."""
    reason: str
    excerpt: str = ""
    """How the line begins."""

    def explain(self) -> str:
        shown = f" It begins: {self.excerpt}" if self.excerpt else ""
        return (
            f"Line {self.line_number} is not a Delta action: {self.reason}.{shown} "
            "The log is damaged, or a writer did not follow the protocol; restore the file from a backup."
        )


@delta_error("DELTA_UNSUPPORTED_FEATURES", "56038")
class UnsupportedFeatureError(DeltaError):
    """The table needs a table feature or a protocol version that this version of anabranch does not support."""

    table: str
    access: Literal["read", "write"]
    features: tuple[str, ...]
    """Names of the unsupported features; empty where the protocol version is the problem."""
    min_reader_version: int
    min_writer_version: int
    detail: str = ""
    meanings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Explains features that other engines write and anabranch knows by name."""

    def explain(self) -> str:
        what = "reading" if self.access == "read" else "writing"
        versions = f"reader version {self.min_reader_version}, writer version {self.min_writer_version}"
        if not self.features:
            return f"Table {self.table} has {versions}, which does not allow {what} it. {self.detail}".rstrip()
        meanings = {name: f" ({meaning})" for name, meaning in self.meanings.items()}
        names = ", ".join(f"`{name}`{meanings.get(name, '')}" for name in self.features)
        plural = "features" if len(self.features) > 1 else "feature"
        way_out = self.detail or (
            "Upgrade anabranch, or use an engine that supports it; there, ALTER TABLE … DROP FEATURE may remove it."
        )
        return (
            f"Table {self.table} uses the table {plural} {names}, which this release of anabranch does not support for "
            f"{what} ({versions}). {way_out}"
        )


@delta_error("DELTA_INVALID_PROTOCOL_VERSION", "KD004")
class InvalidProtocolError(DeltaAnalysisError, ValueError):
    """The requested protocol versions and table features contradict each other."""

    reason: str

    def explain(self) -> str:
        return self.reason


@delta_error("DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", "42000")
class FeatureByNameOnlyError(InvalidProtocolError):
    """A change needs table features that are added to an existing table only by name, with `delta.feature.<name>`."""


@delta_error("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", "56038")
class UnknownFeatureError(DeltaAnalysisError, ValueError):
    """`delta.feature.<name>` names a table feature that does not exist."""

    name: str
    suggestions: tuple[str, ...] = ()

    def explain(self) -> str:
        return f"There is no table feature `{self.name}`.{_did_you_mean(self.suggestions)}"


@delta_error("DELTA_UNKNOWN_CONFIGURATION", "F0000")
class UnknownPropertyError(DeltaAnalysisError, ValueError):
    """A statement sets a `delta.*` table property that does not exist."""

    name: str
    suggestions: tuple[str, ...] = ()

    def explain(self) -> str:
        return (
            f"There is no table property `{self.name}`.{_did_you_mean(self.suggestions)} "
            "Your own properties need names that do not begin with `delta.`."
        )


@delta_error("DELTA_INVALID_TABLE_PROPERTY", "22023")
class InvalidPropertyError(DeltaAnalysisError, ValueError):
    """A table property has a value that it cannot have."""

    name: str
    value: str | None
    expected: str

    def explain(self) -> str:
        value = "not set" if self.value is None else repr(self.value)
        return f"Table property `{self.name}` must be {self.expected}, but it is {value}."


@delta_error("DELTA_UNSUPPORTED_FEATURE_STATUS", "0AKDE")
class FeatureStatusError(InvalidPropertyError):
    """`delta.feature.<name>` has a value that does not turn on a table feature."""


@delta_error("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", "42939")
class ReadOnlyPropertyError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """A statement sets a table property that only the writers of the table maintain."""

    template = "Table property `{name}` is maintained by the table itself and cannot be set. Leave it out."
    name: str


@delta_error("DELTA_UNSAFE_PATH", "22023")
class UnsafePathError(DeltaError, ValueError):
    """The log names a file outside the folders that the table may use."""

    template = (
        "The log of {table} names the file {path!r}, which is refused: {reason}. Nothing was read or deleted there. If "
        "{table} is a shallow clone whose log you trust, add the folder to the setting "
        "spark.anabranch.allowedPathPrefixes."
    )
    path: str
    table: str
    reason: str


@delta_error("DELTA_INVALID_PARTITION_VALUE", "22018")
class PartitionValueError(DeltaError, ValueError):
    """A partition value does not fit the type of its column."""

    value: str
    data_type: str
    reason: str = ""
    column: str = ""
    table: str = ""
    """The table whose log has the value; empty for a value from elsewhere."""

    def explain(self) -> str:
        where = f" of column `{self.column}`" if self.column else ""
        log = f" in the log of {self.table}" if self.table else ""
        why = f": {self.reason}" if self.reason else ""
        way_out = ""
        if self.table:
            way_out = (
                " The writer of this `add` action did not follow the protocol, and the rows of the file cannot be read "
                "without the value. RESTORE the table to a version before it."
            )
        return f"The partition value {self.value!r}{where}{log} is not a valid {self.data_type}{why}.{way_out}"


@delta_error("DELTA_INVALID_STATISTICS", "22000")
class InvalidStatisticsError(DeltaError, ValueError):
    """The statistics of a file are not what the protocol describes."""

    template = "The statistics of a data file cannot be used: {reason}."
    reason: str


def _did_you_mean(suggestions: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(f'`{name}`' for name in suggestions)}?" if suggestions else ""


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class UnknownTypeError(DeltaAnalysisError):
    """The schema in a table's log has a type that this version of anabranch does not know."""

    table: str
    column: str
    """The column's path; empty for a type without a column, as in the record of a type change."""
    type_name: str

    def explain(self) -> str:
        where = (
            f"Column {self.column} of {self.table} is" if self.column else f"{self.table} has a column that was or is"
        )
        return (
            f"{where} of type {self.type_name!r}, which this version of anabranch does not know. The type is newer, or "
            "the log is wrong: upgrade anabranch, or use an engine that knows the type."
        )


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class IntervalWriteError(DeltaAnalysisError):
    """A statement writes rows to a table with interval columns, which anabranch only reads."""

    template = (
        "{table} has the interval columns {columns}. anabranch reads such tables and does not write to them. Nothing "
        "was committed. Write the rows to another table, with the intervals as numbers: BIGINT seconds, INT months."
    )
    table: str
    columns: tuple[str, ...]
