"""What can be wrong with the files of a `_delta_log`, with deletion vectors, and with a request for a version."""

from __future__ import annotations

import datetime

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error

# What can be wrong with the files of a `_delta_log`, and with a request for a version of it.


@delta_error("DELTA_MISSING_DELTA_TABLE", "42P01")
class TableNotFoundError(DeltaAnalysisError):
    """There is no `_delta_log` with a commit or a checkpoint under the path."""

    template = (
        "`{table}` is not a Delta table: no commit was found in its `_delta_log` directory. Check the path, or create "
        "the table first."
    )
    table: str


@delta_error("DELTA_LOG_ERROR")
class LogError(DeltaError):
    """The log of a table breaks the protocol or cannot be read. `table` is its root."""

    table: str


@delta_error("DELTA_VERSIONS_NOT_CONTIGUOUS", "KD00C")
class LogGapError(LogError):
    """Commits are missing between two that are there."""

    version: int
    """The version that was to be rebuilt."""
    missing_from: int
    missing_to: int
    """Both ends are missing."""

    def explain(self) -> str:
        if self.missing_from == self.missing_to:
            gap = f"version {self.missing_from} is"
        else:
            gap = f"versions {self.missing_from} to {self.missing_to} are"
        return (
            f"Version {self.version} of {self.table} cannot be rebuilt: {gap} missing from its log, and no later "
            "checkpoint covers the gap. Put the files back from a backup, or ask for a version before the gap."
        )


@delta_error("DELTA_TRUNCATED_TRANSACTION_LOG", "42K03")
class TruncatedLogError(LogError):
    """The commits at the start of the log are gone and no usable checkpoint replaces them."""

    template = (
        "Version {version} of {table} cannot be rebuilt: its log starts at version {first_commit} and has no complete "
        "checkpoint to start from. The log was cleaned up by its retention period, or files were deleted by hand. Put "
        "the files back from a backup."
    )
    version: int
    first_commit: int
    """The oldest commit that is there."""


@delta_error("DELTA_VERSION_NOT_FOUND", "22003")
class VersionNotFoundError(DeltaAnalysisError):
    """The version asked for was never committed, or can no longer be rebuilt."""

    table: str
    version: int
    earliest: int
    """The oldest version that can still be rebuilt."""
    latest: int

    def explain(self) -> str:
        if 0 <= self.version < self.earliest:
            reason = "is no longer there: the log before the oldest checkpoint was cleaned up"
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
    """A commit file is empty, torn or not what the protocol says."""

    template = (
        "Commit {version} of {table} cannot be read: {path}: {reason}. It is not skipped, since the table would "
        "silently lose changes. Put the file back from a backup. Older versions, if the log has any, can still be read."
    )
    version: int
    path: str
    """Relative to the table."""
    reason: str


@delta_error("DELTA_CORRUPT_CHECKPOINT")
class CorruptCheckpointError(LogError):
    """A checkpoint cannot be read, and nothing older can replace it."""

    template = (
        "The checkpoint of version {version} of {table} cannot be read: {path}: {reason}. Delete it if the commits "
        "before it are still there; otherwise put it back from a backup."
    )
    version: int
    path: str
    """Relative to the table."""
    reason: str


@delta_error("DELTA_STATE_RECOVER_ERROR")
class IncompleteStateError(LogError):
    """Commits and checkpoint together hold no `protocol`, or no `metaData`."""

    template = (
        "Version {version} of {table} holds no `{missing}` action, so it cannot be interpreted. Its first commit or "
        "its checkpoint is damaged, or files were deleted from `_delta_log` by hand."
    )
    version: int
    missing: str
    """The name of the action: `protocol` or `metaData`."""


@delta_error("DELTA_MISSING_COMMIT_TIMESTAMP", "KD004")
class MissingInCommitTimestampError(LogError):
    """The table has in-commit timestamps, and a commit has none."""

    template = (
        "Commit {version} of {table} has no `inCommitTimestamp`, although the table property "
        "`delta.enableInCommitTimestamps` is on. The writer of that commit broke the protocol."
    )
    version: int


@delta_error("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "42816")
class TimestampEarlierThanFirstCommitError(DeltaAnalysisError):
    """No version that can still be rebuilt is as old as the time asked for."""

    table: str
    timestamp_ms: int
    earliest_version: int
    earliest_timestamp_ms: int

    def explain(self) -> str:
        return (
            f"{_instant(self.timestamp_ms)} is before the earliest version of {self.table} that is available: "
            f"version {self.earliest_version} of {_instant(self.earliest_timestamp_ms)}. Ask for that time or later."
        )


@delta_error("DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", "22003")
class RestoreTimestampEarlierError(TimestampEarlierThanFirstCommitError):
    """No version that can still be rebuilt is as old as the time to be restored."""


@delta_error("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "42816")
class TimestampAfterLatestCommitError(DeltaAnalysisError):
    """The time asked for lies after the newest commit, so the answer could still change."""

    table: str
    timestamp_ms: int
    latest_version: int
    latest_timestamp_ms: int

    def explain(self) -> str:
        return (
            f"{_instant(self.timestamp_ms)} is after the latest version of {self.table}: version "
            f"{self.latest_version} of {_instant(self.latest_timestamp_ms)}. Ask for that time or earlier."
        )


@delta_error("DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", "22003")
class RestoreTimestampAfterLatestError(TimestampAfterLatestCommitError):
    """The time to be restored lies after the newest commit."""


def _instant(timestamp_ms: int) -> str:
    """The time in UTC, or the bare number where no calendar holds it."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return f"{(epoch + datetime.timedelta(milliseconds=timestamp_ms)).isoformat(sep=' ', timespec='milliseconds')}"
    except OverflowError:
        return f"{timestamp_ms} ms since the epoch"


# What can be wrong with a deletion vector. A vector in doubt is an error, never "no rows hidden".


@delta_error("DELTA_DELETION_VECTOR_INVALID")
class DeletionVectorError(DeltaError):
    """The hidden rows of a file are not known, so the file cannot be read."""

    template = (
        "The deletion vector {vector} of {table} cannot be used: {reason}. Reading its data file without it would "
        "bring deleted rows back. Restore the vector from a backup, or the table to a version before it."
    )

    table: str
    vector: str
    """The vector's unique id, shortened."""
    reason: str
    """What is wrong, as a clause."""


@delta_error("DELTA_DELETION_VECTOR_DESCRIPTOR_INVALID")
class DeletionVectorDescriptorError(DeletionVectorError):
    """The log does not say properly where the vector is."""


@delta_error("DELTA_DELETION_VECTOR_MALFORMED")
class DeletionVectorFormatError(DeletionVectorError):
    """The bytes are not a bitmap in the format of the protocol."""


@delta_error("DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH")
class DeletionVectorChecksumError(DeletionVectorError):
    """The bytes are not those that were written."""


@delta_error("DELTA_DELETION_VECTOR_SIZE_MISMATCH")
class DeletionVectorSizeError(DeletionVectorError):
    """Log and vector differ about its size."""


@delta_error("DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH")
class DeletionVectorCardinalityError(DeletionVectorError):
    """Log and vector differ about how many rows it hides."""


@delta_error("DELTA_DELETION_VECTOR_INVALID_ROW_INDEX")
class DeletionVectorRowIndexError(DeletionVectorError):
    """The vector hides a row that the file does not have."""
