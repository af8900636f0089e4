"""Errors about commits: their contents, an unknown outcome, and conflicts with commits that landed first."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from anabranch.display_tables import frames_of_user, html_facts, html_paragraph, html_table, text_table
from anabranch.errors.base import (
    FOR_DISPLAY,
    DeltaAnalysisError,
    DeltaError,
    DeltaUnsupportedOperationError,
    delta_error,
    without_signatures,
)
from anabranch.text_format import plain

# Errors about commits without a conflict.


@delta_error("DELTA_COMMIT_FATE_UNKNOWN", "40003")
class CommitFateUnknownError(DeltaError):
    """The storage did not say whether our commit is in the log. It is there once or never, and may still get there."""

    template = (
        "It is not known whether the commit to {table} was written: after {attempts} attempts to write version "
        "{version} the storage gave no reliable answer ({cause}). The commit is in the table if, and only if, version "
        "{version} has the txnId {txn_id}; no other version was or will be tried. Look for it in the table's history "
        "before running the operation again."
    )
    table: str
    version: int
    """The only version at which the commit can be."""
    txn_id: str
    attempts: int
    cause: str
    """The last answer of the storage."""


@delta_error("DELTA_INVALID_COMMIT")
class InvalidCommitError(DeltaError):
    """A commit would have broken the protocol. Nothing was written to the log."""

    template = (
        "Version {version} of {table} was not written, because it would damage the table: {violation}. This is a "
        "defect of the program that made the commit; please report it."
    )
    table: str
    version: int
    """The version that was to be written."""
    violation: str
    """A sentence without its full stop."""


@delta_error("DELTA_NUMBERS_EXHAUSTED", "22003")
class NumbersExhaustedError(DeltaError):
    """The log holds the largest number of its kind, so a commit cannot get a larger one."""

    table: str
    version: int
    """The version that was to be written."""
    numbers: str
    """The kind of number: `row ids`."""
    last: int
    """The largest number in the log."""
    way_out: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} was not written: its {self.numbers} would exceed {2**63 - 1}, the "
            f"largest possible number, since the log already has {self.last}. No clock or counter gets so far: a "
            f"program wrote that number by mistake. {self.way_out}."
        )


@delta_error("DELTA_MALFORMED_DOMAIN_METADATA")
class MalformedDomainError(DeltaError):
    """The configuration of a metadata domain cannot be parsed, so its feature cannot be used."""

    template = (
        "The metadata domain {domain} of {table} cannot be parsed: {reason}. The program that wrote it broke the "
        "protocol. RESTORE the table to a version before that commit."
    )
    table: str
    domain: str
    reason: str


@delta_error("DELTA_CANNOT_MODIFY_APPEND_ONLY", "42809")
class AppendOnlyTableError(DeltaAnalysisError, DeltaUnsupportedOperationError):
    """The table accepts only new rows. See "Append-only Tables"."""

    template = (
        "{operation} would delete or change rows of {table}, which is append-only. To allow it: ALTER TABLE … SET "
        "TBLPROPERTIES ('delta.appendOnly' = 'false')."
    )
    table: str
    operation: str


@delta_error("DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS", "22000")
class RowIdsNeedStatisticsError(DeltaError):
    """A new file has no row count, so its rows cannot get row ids."""

    template = (
        "Rows of {path} cannot get row ids in {table}: the table tracks rows, and the file's statistics have no "
        "`numRecords`. Collect statistics for the file before it is committed."
    )
    table: str
    path: str


@delta_error("DELTA_LOG_CLEANED_UP_DURING_TRANSACTION", "2D521")
class LogMovedOnError(DeltaError):
    """Log clean-up removed the version that an operation read, and later commits, while the operation ran."""

    template = (
        "The operation read version {read_version} of {table}, which is no longer in the log: the log now starts with "
        "version {earliest}. It was cleaned up while the operation ran, or the table was created again. Conflicts with "
        "the commits since then can no longer be checked, so nothing was written. Run the operation again; if it takes "
        "long, raise delta.logRetentionDuration."
    )
    table: str
    read_version: int
    earliest: int
    """The oldest version that can still be rebuilt."""


@delta_error("DELTA_TRANSACTION_STATE", "25000")
class TransactionStateError(DeltaUnsupportedOperationError):
    """A transaction begins while the session has one, or is to end, and there is none."""

    template = "{operation} is not possible: {problem}."
    operation: str
    problem: str


@delta_error("DELTA_STATEMENT_IN_TRANSACTION", "25001")
class StatementInTransactionError(DeltaUnsupportedOperationError):
    """A statement that cannot be part of a transaction of several statements. The transaction stays as it was."""

    template = (
        "{operation} of {table} cannot be part of a transaction: {problem}. Nothing was changed, and the transaction "
        "is as it was: run the statement before it or after its end, or end it with COMMIT or ROLLBACK first."
    )
    table: str
    operation: str
    problem: str


@delta_error("DELTA_ROWS_NOT_LIVE")
class RowsNotLiveError(DeltaError):
    """A commit would have deleted rows that are not in the table. Nothing was written."""

    template = (
        "Row {position} of {path} cannot be deleted: it is already deleted, or beyond the end of the file. The "
        "operation changed nothing. This is a defect in the program that computed the rows; please report it with the "
        "table's last commits."
    )
    path: str
    position: int
    """The first such row."""


# Conflicts with a commit that landed first, under Delta's names, with the facts that a person or a retry needs.


class ConflictReason(enum.StrEnum):
    """Why two commits conflict, for programs to act on."""

    ROW_LEVEL_CHANGES = "ROW_LEVEL_CHANGES"
    """The winner changed rows that ours changes, or whose values ours depends on."""
    WHOLE_TABLE_READ = "WHOLE_TABLE_READ"
    """Ours read the whole table, or by a condition that cannot be evaluated for single rows."""
    REORDER_CYCLE = "REORDER_CYCLE"
    """Ours could only come before an append that another winner has already read."""
    FILES_VACUUMED = "FILES_VACUUMED"
    """The winner is a VACUUM that deleted files which ours adds, or may be about to delete them."""
    ALLOTTED_TIME_EXCEEDED = "ALLOTTED_TIME_EXCEEDED"
    """Checking for a conflict would have taken longer than allowed."""
    WITH_PARTITION_HINT = "WITH_PARTITION_HINT"
    """The conflict is in one partition, which `where` names."""
    WITHOUT_HINT = "WITHOUT_HINT"
    """The conflict is in a file of a table without partitions."""
    UNMAPPED_REWRITE = "UNMAPPED_REWRITE"
    """The winner moved rows to other files and did not record where."""
    SCHEMA_OR_PARTITIONING = "SCHEMA_OR_PARTITIONING"
    """The winner changed columns or partitioning."""
    TABLE_PROPERTIES = "TABLE_PROPERTIES"
    """The winner changed a table property that matters to ours."""
    BOTH_CHANGE_METADATA = "BOTH_CHANGE_METADATA"
    """Both change columns, partitioning, properties or the description."""
    TABLE_REPLACED = "TABLE_REPLACED"
    """The table was replaced by another one, or dropped."""
    IDENTITY_COLUMNS = "IDENTITY_COLUMNS"
    """Both have generated the same values of an identity column."""
    METADATA_DOMAIN = "METADATA_DOMAIN"
    """Both change one metadata domain, such as the clustering columns."""
    APPLICATION_ID = "APPLICATION_ID"
    """Both record progress of the same application."""
    ALREADY_WRITTEN = "ALREADY_WRITTEN"
    """The winner is the same write of the application, or a later one, so there is nothing left to write."""
    TABLE_CREATED = "TABLE_CREATED"
    """Another writer created the table while ours was creating it."""
    FEATURES_ADDED = "FEATURES_ADDED"
    """The winner added a table feature that matters to ours."""
    FEATURES_DROPPED = "FEATURES_DROPPED"
    """The winner dropped a table feature."""
    UNSUPPORTED_PROTOCOL = "UNSUPPORTED_PROTOCOL"
    """The winner gave the table a protocol that this version of anabranch does not support."""
    BOTH_CHANGE_PROTOCOL = "BOTH_CHANGE_PROTOCOL"
    """Both change the protocol."""
    RULED_OUT = "RULED_OUT"
    """The winner added something whose absence ours had checked, such as a use of a table feature."""
    TOO_MANY_WINNERS = "TOO_MANY_WINNERS"
    """No conflict was found, but others landed first at every attempt."""


RowValues = tuple[tuple[str, str], ...]
"""A row for messages: names of columns, with the values as text."""


def text_of_row(row: RowValues) -> str:
    """The row in words, as `id = 5, name = x`."""
    return ", ".join(f"{name} = {value}" for name, value in row)


@delta_error("DELTA_CONCURRENT_MODIFICATION", "2D521")
class DeltaConcurrentModificationException(DeltaError):
    """Another commit landed after the version that ours read, and ours does not fit behind it.

    Nothing of ours is in the table. Files that were written for it are left to VACUUM.
    """

    happened: ClassVar[str] = "changed the table"
    """What the winner did, as the rest of a sentence about it."""

    table: str
    version: int | None
    """The version that landed first; None where no single one did."""
    operation: str
    """The winner's operation, as its commit records it; otherwise `another writer`."""
    read_version: int
    """The version that ours read; -1 for a table that did not exist."""
    reason: ConflictReason
    where: str | None = None
    """The partition, file, column or property of the conflict."""
    example_keys: tuple[str, ...] = ()
    """A few of the rows in conflict: by their values, as `id = 5, name = 'x'`, or by file and position."""
    example_rows: tuple[RowValues, ...] = dataclasses.field(default=(), metadata=FOR_DISPLAY)
    """The same rows by column, all with the same columns; empty where their values are not known."""
    advice: str = "Run the operation again on the new version."

    def explain(self) -> str:
        where = f": {self.where}" if self.where else ""
        rows = f" For example {'; '.join(self.example_keys)}." if self.example_keys else ""
        return (
            f"In {self.table}, {self._winner()} landed first and {self._happened()}{where}.{rows} "
            f"This operation, which {self._began()}, changed nothing. {self.advice} Reason: {self.reason}."
        )

    def _winner(self) -> str:
        return self.operation if self.version is None else f"{self.operation} (version {self.version})"

    def _happened(self) -> str:
        return self.happened

    def _repr_html_(self) -> str:
        """The conflict in a notebook: the winner, the rows, and what the user can do."""
        title = f"{type(self).__name__}: {self._winner()} landed first and {self._happened()}."
        rows = html_table(*self._rows_shown()) if self.example_keys else ""
        return without_signatures(
            f"{html_paragraph(title, strong=True)}{html_facts(self._facts_shown())}{rows}{html_paragraph(self.advice)}"
        )

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython prints for the error that a cell has raised."""
        rows = ["", "Rows in conflict:", *text_table(*self._rows_shown())] if self.example_keys else []
        lines = [
            *frames_of_user(self.__traceback__),
            plain(f"{type(self).__name__}: {self._winner()} landed first and {self._happened()}."),
            "",
            *(f"{name + ':':<15} {plain(value)}" for name, value in self._facts_shown()),
            *rows,
            "",
            f"What to do: {plain(self.advice)}",
            *map(plain, getattr(self, "__notes__", ())),
        ]
        return [without_signatures(line) for line in lines]

    def _facts_shown(self) -> list[tuple[str, str]]:
        facts = [("Table", self.table), ("Winner", self._winner()), ("Where", self.where or "")]
        facts += [("This operation", f"{self._began()}, and changed nothing")]
        facts += [("Reason", f"{self.reason} ({self.condition}, SQLSTATE {self.sqlstate})")]
        return [(name, value) for name, value in facts if value]

    def _rows_shown(self) -> tuple[list[str], list[list[str]]]:
        """The columns and values of the example rows; one column of texts where their values are not known."""
        if not self.example_rows:
            return ["row"], [[row] for row in self.example_keys]
        return [name for name, _ in self.example_rows[0]], [[value for _, value in row] for row in self.example_rows]

    def _began(self) -> str:
        return "began before the table existed" if self.read_version < 0 else f"read version {self.read_version}"


@delta_error("DELTA_CONCURRENT_WRITE")
class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Other commits landed first at every attempt, though none of them was in conflict."""

    happened = "took the version that this operation tried to write"


@delta_error("DELTA_CONCURRENT_APPEND")
class ConcurrentAppendException(DeltaConcurrentModificationException):
    """A commit that landed first added rows that this operation should have read."""

    happened = "added rows that this operation should have read"


@delta_error("DELTA_CONCURRENT_DELETE_READ")
class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """A commit that landed first deleted or changed rows, or files, that this operation read."""

    happened = "deleted or rewrote what this operation read"

    def _happened(self) -> str:
        if self.reason is ConflictReason.FILES_VACUUMED:
            return "deleted, or may be about to delete, a file that this operation has written or restores"
        return self.happened


@delta_error("DELTA_CONCURRENT_DELETE_DELETE")
class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """A commit that landed first deleted or changed the rows, or files, that this operation changes."""

    happened = "deleted or rewrote what this operation deletes or rewrites"


@delta_error("DELTA_METADATA_CHANGED")
class MetadataChangedException(DeltaConcurrentModificationException):
    """A commit that landed first changed schema, properties or partitioning."""

    happened = "changed the table's metadata"

    def _happened(self) -> str:
        if self.reason is ConflictReason.IDENTITY_COLUMNS:
            return "generated values of the same identity column"
        return self.happened


@delta_error("DELTA_CONCURRENT_TRANSACTION")
class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """A commit that landed first records progress of the same application id."""

    happened = "recorded progress of the same application id"


@delta_error("DELTA_PROTOCOL_CHANGED")
class ProtocolChangedException(DeltaConcurrentModificationException):
    """A commit that landed first changed the protocol, or created the table that we were creating."""

    happened = "changed the table's protocol"

    def explain(self) -> str:
        if self.reason is not ConflictReason.TABLE_CREATED:
            return DeltaConcurrentModificationException.explain(self)
        return (
            f"The table {self.table} was created meanwhile: {self.operation} landed version {self.version} first. "
            f"This operation changed nothing. {self.advice} Reason: {self.reason}."
        )
