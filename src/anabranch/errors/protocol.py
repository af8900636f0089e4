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
    """The table needs a feature that anabranch lacks, or a protocol version that it does not know."""

    table: str
    access: Literal["read", "write"]
    features: tuple[str, ...]
    """Names of the features that are missing; empty where a version number is at fault."""
    min_reader_version: int
    min_writer_version: int
    detail: str = ""
    meanings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What a feature is, of those of other engines that anabranch knows by name."""

    def explain(self) -> str:
        what = "reading" if self.access == "read" else "writing"
        versions = f"reader version {self.min_reader_version}, writer version {self.min_writer_version}"
        if not self.features:
            return f"Table {self.table} has {versions}, which does not allow {what} it. {self.detail}".rstrip()
        told = {name: f" ({meaning})" for name, meaning in self.meanings.items()}
        names = ", ".join(f"`{name}`{told.get(name, '')}" for name in self.features)
        plural = "features" if len(self.features) > 1 else "feature"
        remedy = (
            ""
            if self.detail
            else ("Upgrade anabranch, or use an engine that knows it; ALTER TABLE … DROP FEATURE there may remove it.")
        )
        return f"Table {self.table} uses the table {plural} {names}, not supported for {what} ({versions}). " + (
            self.detail or remedy
        )


@delta_error("DELTA_INVALID_PROTOCOL_VERSION", "KD004")
class InvalidProtocolError(DeltaAnalysisError, ValueError):
    """The protocol versions or features asked for do not go together."""

    reason: str

    def explain(self) -> str:
        return self.reason


@delta_error("DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", "42000")
class FeatureByNameOnlyError(InvalidProtocolError):
    """A change needs table features that join an existing table only when they are asked for by name."""


@delta_error("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", "56038")
class UnknownFeatureError(DeltaAnalysisError, ValueError):
    """`delta.feature.<name>` names no table feature."""

    name: str
    suggestions: tuple[str, ...] = ()

    def explain(self) -> str:
        return f"There is no table feature `{self.name}`.{_did_you_mean(self.suggestions)}"


@delta_error("DELTA_UNKNOWN_CONFIGURATION", "F0000")
class UnknownPropertyError(DeltaAnalysisError, ValueError):
    """A `delta.*` property that nothing would honour."""

    name: str
    suggestions: tuple[str, ...] = ()

    def explain(self) -> str:
        return (
            f"There is no table property `{self.name}`.{_did_you_mean(self.suggestions)} "
            "Properties of your own need a name that does not begin with `delta.`."
        )


@delta_error("DELTA_INVALID_TABLE_PROPERTY", "22023")
class InvalidPropertyError(DeltaAnalysisError, ValueError):
    """A table property has a value it cannot have."""

    name: str
    value: str | None
    expected: str

    def explain(self) -> str:
        found = "not set" if self.value is None else repr(self.value)
        return f"Table property `{self.name}` must be {self.expected}, but it is {found}."


@delta_error("DELTA_UNSUPPORTED_FEATURE_STATUS", "0AKDE")
class FeatureStatusError(InvalidPropertyError):
    """A property asks for a table feature in words that mean nothing."""


@delta_error("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", "42939")
class ReadOnlyPropertyError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """A table property that only the writer itself may set."""

    template = "Table property `{name}` is kept by the table itself and cannot be set."
    name: str


@delta_error("DELTA_UNSAFE_PATH", "22023")
class UnsafePathError(DeltaError, ValueError):
    """A path in the log would lead outside of what this table may name."""

    template = (
        "The log of {table} names the file {path!r}, which is refused: {reason}. Nothing was read or deleted there. If "
        "it is a shallow clone whose log you trust, add the folder to the setting spark.anabranch.allowedPathPrefixes."
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
    """Of a table whose log has the value."""

    def explain(self) -> str:
        where = f" of column `{self.column}`" if self.column else ""
        log = f" in the log of {self.table}" if self.table else ""
        why = f": {self.reason}" if self.reason else ""
        remedy = ""
        if self.table:
            remedy = (
                " The `add` action that holds it was written wrongly, and without it the rows of its file cannot be "
                "read. RESTORE the table to a version before it."
            )
        return f"The partition value {self.value!r}{where}{log} is no {self.data_type}{why}.{remedy}"


@delta_error("DELTA_INVALID_STATISTICS", "22000")
class InvalidStatisticsError(DeltaError, ValueError):
    """The statistics of a file are not what the protocol describes."""

    template = "The statistics of a data file cannot be used: {reason}."
    reason: str


def _did_you_mean(suggestions: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(f'`{name}`' for name in suggestions)}?" if suggestions else ""


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class UnknownTypeError(DeltaAnalysisError):
    """The schema in a table's log has a type that this anabranch does not know."""

    table: str
    column: str
    """Its path; empty where a type stands by itself, as in the record of a type change."""
    type_name: str

    def explain(self) -> str:
        where = (
            f"Column {self.column} of {self.table} is" if self.column else f"{self.table} has a column that was or is"
        )
        return (
            f"{where} of type {self.type_name!r}, which this anabranch does not know. It is newer, or was written "
            "wrongly: upgrade anabranch, or use an engine that knows the type."
        )


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class IntervalWriteError(DeltaAnalysisError):
    """Rows were to be written into a table with columns of intervals, which are read only."""

    template = (
        "{table} has columns of intervals, {columns}. anabranch reads such a table, and writes no rows of it. Nothing "
        "was committed. Keep new rows in another table, with the intervals as numbers: BIGINT seconds, INT months."
    )
    table: str
    columns: tuple[str, ...]
