"""Errors about the files of a `_delta_log`, about deletion vectors, and about requests for a version."""

from __future__ import annotations

import datetime

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error

# Errors about the files of a `_delta_log`, and about requests for a version.


@delta_error("DELTA_MISSING_DELTA_TABLE", "42P01")
class TableNotFoundError(DeltaAnalysisError):
    """The path has no `_delta_log` with a commit or a checkpoint."""

    template = (
        "`{table}` is not a Delta table: its `_delta_log` directory has no commit. Check the path, or create the table "
        "first."
    )
    table: str


@delta_error("DELTA_LOG_ERROR")
class LogError(DeltaError):
    """The log of the table at the path `table` breaks the protocol or cannot be read."""

    table: str


@delta_error("DELTA_VERSIONS_NOT_CONTIGUOUS", "KD00C")
class LogGapError(LogError):
    """Commits are missing in the middle of the log."""

    version: int
    """The version to be rebuilt."""
    missing_from: int
    """The first missing version."""
    missing_to: int
    """The last missing version."""

    def explain(self) -> str:
        if self.missing_from == self.missing_to:
            gap = f"version {self.missing_from} is"
        else:
            gap = f"versions {self.missing_from} to {self.missing_to} are"
        return (
            f"Version {self.version} of {self.table} cannot be rebuilt: {gap} missing from its log, and no later "
            "checkpoint covers the gap. Put the files back from a backup, or read a version before the gap."
        )


@delta_error("DELTA_TRUNCATED_TRANSACTION_LOG", "42K03")
class TruncatedLogError(LogError):
    """The first commits of the log are missing, and no usable checkpoint replaces them."""

    template = (
        "Version {version} of {table} cannot be rebuilt: its log starts at version {first_commit} and has no complete "
        "checkpoint to start from. Log clean-up removed the earlier commits, or files were deleted by hand. Put the "
        "files back from a backup."
    )
    version: int
    first_commit: int
    """The oldest commit in the log."""


@delta_error("DELTA_VERSION_NOT_FOUND", "22003")
class VersionNotFoundError(DeltaAnalysisError):
    """The requested version was never committed, or can no longer be rebuilt."""

    table: str
    version: int
    earliest: int
    """The oldest version that can still be rebuilt."""
    latest: int

    def explain(self) -> str:
        if 0 <= self.version < self.earliest:
            reason = "no longer exists: the log before the oldest checkpoint was cleaned up"
        else:
            reason = "does not exist"
        return (
            f"Version {self.version} of {self.table} {reason}. Versions {self.earliest} to {self.latest} are available."
        )


@delta_error("DELTA_CANNOT_RESTORE_TABLE_VERSION")
class RestoreVersionNotFoundError(VersionNotFoundError):
    """The version to be restored was never committed, or can no longer be rebuilt."""


@delta_error("DELTA_CORRUPT_COMMIT")
class CorruptCommitError(LogError):
    """A commit file is empty, incomplete, or does not follow the protocol."""

    template = (
        "Commit {version} of {table} cannot be read: {path}: {reason}. It is not skipped, since the table would "
        "silently lose changes. Put the file back from a backup. Older versions that the log still has can be read."
    )
    version: int
    path: str
    """The file's path relative to the table."""
    reason: str


@delta_error("DELTA_CORRUPT_CHECKPOINT")
class CorruptCheckpointError(LogError):
    """A checkpoint cannot be read, and no older one replaces it."""

    template = (
        "The checkpoint of version {version} of {table} cannot be read: {path}: {reason}. Delete it if the commits "
        "before it still exist; otherwise put it back from a backup."
    )
    version: int
    path: str
    """The file's path relative to the table."""
    reason: str


@delta_error("DELTA_STATE_RECOVER_ERROR")
class IncompleteStateError(LogError):
    """Neither the checkpoint nor the commits have a `protocol` action, or a `metaData` action."""

    template = (
        "Version {version} of {table} has no `{missing}` action, so it cannot be read. Its first commit or its "
        "checkpoint is damaged, or files were deleted from `_delta_log` by hand. Put the files back from a backup."
    )
    version: int
    missing: str
    """The name of the missing action: `protocol` or `metaData`."""


@delta_error("DELTA_MISSING_COMMIT_TIMESTAMP", "KD004")
class MissingInCommitTimestampError(LogError):
    """The table has in-commit timestamps, and a commit lacks its timestamp."""

    template = (
        "Commit {version} of {table} has no `inCommitTimestamp`, although the table property "
        "`delta.enableInCommitTimestamps` is on. The writer of that commit broke the protocol."
    )
    version: int


@delta_error("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "42816")
class TimestampEarlierThanFirstCommitError(DeltaAnalysisError):
    """The requested time is before the oldest version that can still be rebuilt."""

    table: str
    timestamp_ms: int
    earliest_version: int
    earliest_timestamp_ms: int

    def explain(self) -> str:
        return (
            f"{_instant(self.timestamp_ms)} is before the earliest version of {self.table} that is available: "
            f"version {self.earliest_version} of {_instant(self.earliest_timestamp_ms)}. Use that time or a later one."
        )


@delta_error("DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", "22003")
class RestoreTimestampEarlierError(TimestampEarlierThanFirstCommitError):
    """The time to be restored is before the oldest version that can still be rebuilt."""


@delta_error("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "42816")
class TimestampAfterLatestCommitError(DeltaAnalysisError):
    """The requested time is after the newest commit, so a later commit could still change the answer."""

    table: str
    timestamp_ms: int
    latest_version: int
    latest_timestamp_ms: int

    def explain(self) -> str:
        return (
            f"{_instant(self.timestamp_ms)} is after the latest version of {self.table}: version "
            f"{self.latest_version} of {_instant(self.latest_timestamp_ms)}. Use that time or an earlier one."
        )


@delta_error("DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", "22003")
class RestoreTimestampAfterLatestError(TimestampAfterLatestCommitError):
    """The time to be restored is after the newest commit."""


def _instant(timestamp_ms: int) -> str:
    """The time in UTC, or the number itself where `datetime` cannot represent it."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return f"{(epoch + datetime.timedelta(milliseconds=timestamp_ms)).isoformat(sep=' ', timespec='milliseconds')}"
    except OverflowError:
        return f"{timestamp_ms} ms since the epoch"


# Errors about deletion vectors. A vector that cannot be read is an error, never "no rows deleted".


@delta_error("DELTA_DELETION_VECTOR_INVALID")
class DeletionVectorError(DeltaError):
    """The deleted rows of a data file are not known, so the file cannot be read."""

    template = (
        "The deletion vector {vector} of {table} cannot be used: {reason}. Reading its data file without it would "
        "bring deleted rows back. Restore the vector's file from a backup, or RESTORE the table to a version before it."
    )

    table: str
    vector: str
    """The vector's unique id, shortened."""
    reason: str
    """The problem, as a clause."""


@delta_error("DELTA_DELETION_VECTOR_DESCRIPTOR_INVALID")
class DeletionVectorDescriptorError(DeletionVectorError):
    """The descriptor in the log does not say where the vector is."""


@delta_error("DELTA_DELETION_VECTOR_MALFORMED")
class DeletionVectorFormatError(DeletionVectorError):
    """The bytes are not a bitmap in the protocol's format."""


@delta_error("DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH")
class DeletionVectorChecksumError(DeletionVectorError):
    """The bytes do not match their checksum."""


@delta_error("DELTA_DELETION_VECTOR_SIZE_MISMATCH")
class DeletionVectorSizeError(DeletionVectorError):
    """The vector has another size than the log says."""


@delta_error("DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH")
class DeletionVectorCardinalityError(DeletionVectorError):
    """The vector marks another number of rows than the log says."""


@delta_error("DELTA_DELETION_VECTOR_INVALID_ROW_INDEX")
class DeletionVectorRowIndexError(DeletionVectorError):
    """The vector marks a row that the data file does not have."""
