"""Why a commit was refused, or what is not known about it, when no other commit is to blame."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class CommitFateUnknownError(DeltaError):
    """The storage would not say whether our commit is in the log. It may land, or have landed, once."""

    condition: ClassVar[str] = "DELTA_COMMIT_FATE_UNKNOWN"
    sqlstate: ClassVar[str] = "40003"
    table: str
    version: int
    """The only version at which the commit can be."""
    txn_id: str
    attempts: int
    cause: str
    """The last thing the storage answered."""

    def explain(self) -> str:
        return (
            f"It is not known whether the commit to {self.table} landed: after {self.attempts} attempts to write "
            f"version {self.version} the storage gave no answer to rely on ({self.cause}). The commit is in the table "
            f"if, and only if, version {self.version} carries the txnId {self.txn_id}; no other version was or will be "
            "tried. Look for it in the table's history before running the operation again."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidCommitError(DeltaError):
    """A commit was about to break the protocol. Nothing was written to the log."""

    condition: ClassVar[str] = "DELTA_INVALID_COMMIT"
    table: str
    version: int
    """The version that was about to be written."""
    violation: str
    """A sentence without its full stop."""

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} was not written, because it would damage the table: "
            f"{self.violation}. This is a mistake of the program that made the commit."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class NumbersExhaustedError(DeltaError):
    """The log holds the highest number that fits, so that a commit can be given none above it."""

    condition: ClassVar[str] = "DELTA_NUMBERS_EXHAUSTED"
    sqlstate: ClassVar[str] = "22003"
    table: str
    version: int
    """The version that was about to be written."""
    numbers: str
    """What is numbered: `row ids`."""
    last: int
    """The highest one in the log."""
    way_out: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} was not written: its {self.numbers} would rise above {2**63 - 1}, "
            f"the highest number there is, since the log is at {self.last} already. No clock or counter comes so far: "
            f"a program wrote that number by mistake. {self.way_out}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class MalformedDomainError(DeltaError):
    """The configuration of a metadata domain is not what it must be for the domain's own feature to go on."""

    condition: ClassVar[str] = "DELTA_MALFORMED_DOMAIN_METADATA"
    table: str
    domain: str
    reason: str

    def explain(self) -> str:
        return (
            f"The metadata domain {self.domain} of {self.table} cannot be understood: {self.reason}. The program that "
            "wrote it broke the protocol. RESTORE the table to a version before that commit."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class AppendOnlyTableError(DeltaAnalysisError):
    """The table takes new rows only. See "Append-only Tables"."""

    condition: ClassVar[str] = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    sqlstate: ClassVar[str] = "42809"
    table: str
    operation: str

    def explain(self) -> str:
        return (
            f"{self.operation} would delete or change rows of {self.table}, which is append-only. To allow it: "
            "ALTER TABLE … SET TBLPROPERTIES ('delta.appendOnly' = 'false')."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class RowIdsNeedStatisticsError(DeltaError):
    """A new file does not say how many rows it has, so its rows cannot be given ids."""

    condition: ClassVar[str] = "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS"
    sqlstate: ClassVar[str] = "22000"
    table: str
    path: str

    def explain(self) -> str:
        return (
            f"Rows of {self.path} cannot be given ids in {self.table}: the table tracks rows, and the file's "
            "statistics hold no `numRecords`. Collect statistics for the file before it is committed."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class LogMovedOnError(DeltaError):
    """The version an operation read, and commits that followed it, left the log while it ran."""

    condition: ClassVar[str] = "DELTA_LOG_CLEANED_UP_DURING_TRANSACTION"
    sqlstate: ClassVar[str] = "2D521"
    table: str
    read_version: int
    earliest: int
    """The oldest version that can still be rebuilt."""

    def explain(self) -> str:
        return (
            f"The operation read version {self.read_version} of {self.table}, and that version is no longer in the "
            f"log, which now begins at version {self.earliest}: it was cleaned up while the operation ran, or the "
            "table was made anew. Whether the commits since then are in conflict can no longer be told, so nothing "
            "was written. Run the operation again; if it takes long, raise delta.logRetentionDuration."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class RowsNotLiveError(DeltaError):
    """A commit would have hidden rows that are not in the table. Nothing was written."""

    condition: ClassVar[str] = "DELTA_ROWS_NOT_LIVE"
    path: str
    position: int
    """The first of them."""

    def explain(self) -> str:
        return (
            f"Row {self.position} of {self.path} was to be deleted, and it is hidden already or beyond the end of the "
            "file. The operation changed nothing. This is a defect in the program that computed the rows; please "
            "report it with the table's last commits."
        )
