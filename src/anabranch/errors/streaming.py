"""Errors of streams that read a table."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error

_FROM_SCRATCH = "give the query a new checkpoint to start from scratch"


@delta_error("DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET", "42613")
class StartGivenTwiceError(DeltaAnalysisError, ValueError):
    """A stream has both a version and a time to start from."""

    template = "The stream has both startingVersion and startingTimestamp. Leave one of them out."


@delta_error("DELTA_REGEX_OPT_SYNTAX_ERROR", "2201B")
class ExcludeRegexError(DeltaAnalysisError, ValueError):
    """`excludeRegex` is not a regular expression."""

    template = "excludeRegex = {pattern!r} is not a regular expression: {problem}."
    pattern: str
    problem: str


@delta_error("DELTA_INVALID_SOURCE_OFFSET_FORMAT")
class StreamOffsetError(DeltaError):
    """The offset of a table in a stream's checkpoint cannot be read."""

    table: str
    offset: str
    problem: str

    def explain(self) -> str:
        return (
            f"The checkpoint has the offset {self.offset} for {self.table}: {self.problem}. Undo changes to the files "
            f"of the checkpoint if there were any; otherwise {_FROM_SCRATCH}."
        )


@delta_error("DELTA_INVALID_SOURCE_VERSION")
class StreamOffsetVersionError(StreamOffsetError):
    """An offset has a `sourceVersion` that does not exist."""


@delta_error("DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION")
class StreamOffsetTooNewError(StreamOffsetError):
    """An offset was written by a newer version of Delta."""


@delta_error("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "55019")
class StreamedTableReplacedError(DeltaError):
    """The table that the stream read was replaced by another one."""

    table: str
    id_read: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The stream read the table with id {self.id_read}; {self.table} now has id {self.id_found}. The table was "
            f"dropped and created again, or the query reads another table than before. Undo that, or {_FROM_SCRATCH}."
        )


@delta_error("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "0A000")
class StreamedRowsChangedError(DeltaUnsupportedOperationError):
    """A commit changed or deleted rows, and no option of the stream says how to read such a commit."""

    table: str
    version: int
    operation: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} ({self.operation}) changed existing rows, and a stream of a table "
            "reads only rows that are added. To skip such commits, set the option skipChangeCommits to true; to read "
            "the changes, set readChangeFeed on a table that records them; to read the rows as they are now, "
            f"{_FROM_SCRATCH}."
        )


@delta_error("DELTA_SOURCE_IGNORE_DELETE", "0A000")
class StreamedRowsDeletedError(DeltaUnsupportedOperationError):
    """A commit only deleted rows, and no option of the stream says to ignore that."""

    template = (
        "Version {version} of {table} deleted rows (for example the file {path}), and a stream of a table reads only "
        "rows that are added. To skip deletions, set the option ignoreDeletes or skipChangeCommits to true."
    )
    table: str
    version: int
    path: str


@delta_error("DELTA_SCHEMA_CHANGED_WITH_VERSION", "KD007")
class StreamedSchemaChangedError(DeltaError):
    """The table's columns are no longer those of the stream."""

    table: str
    version: int
    difference: str
    helps_to_restart: bool
    """Whether the query can continue with the new columns when it is started again."""

    def explain(self) -> str:
        return f"{self._what_happened()} {self._way_out()}"

    def _what_happened(self) -> str:
        return f"Version {self.version} of {self.table} has other columns than the stream: {self.difference}."

    def _way_out(self) -> str:
        if self.helps_to_restart:
            return (
                "Call spark.readStream again and start the query: it continues with the new columns. No row is read "
                "twice, and none is left out."
            )
        return f"Rows written before cannot be read with the new columns: {_FROM_SCRATCH}."


@delta_error("DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS")
class StreamedSchemaChangedAfterStartError(StreamedSchemaChangedError):
    """The same as `StreamedSchemaChangedError`, for a stream with an option that says where to start."""

    def _way_out(self) -> str:
        return (
            f"{super()._way_out()} If the stream is to start after that version, set a startingVersion or "
            f"startingTimestamp that is after version {self.version}."
        )


@delta_error("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG", "42KD4")
class StreamedColumnsRemappedError(DeltaError):
    """A column of the stream was renamed, dropped or replaced."""

    table: str
    version: int
    difference: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} changed columns of the stream: {self.difference}. Call "
            "spark.readStream again and start the query. If it stops here again, it has not read all rows from before "
            f"the change, which have other columns: set schemaTrackingLocation, and {_FROM_SCRATCH}."
        )


@delta_error("DELTA_MISSING_FILES_UNEXPECTED_VERSION", "42K03")
class StreamedLogMissingError(DeltaError):
    """Log clean-up removed commits that the stream has not read."""

    table: str
    version: int
    earliest: int

    def explain(self) -> str:
        return (
            f"The stream needs version {self.version} of {self.table}, and the oldest one left is {self.earliest}: log "
            "clean-up removed the others. To continue without these versions, set the option failOnDataLoss to "
            f"false; to read all rows, {_FROM_SCRATCH}. A longer delta.logRetentionDuration gives streams more time."
        )


@delta_error("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", "42K03")
class StreamedSnapshotGoneError(DeltaError):
    """The version that the stream started with can no longer be rebuilt, and the stream has not read all of it."""

    table: str
    version: int
    cause: str

    def explain(self) -> str:
        return (
            f"The stream was reading version {self.version} of {self.table}, which can no longer be rebuilt: "
            f"{self.cause} Log clean-up removed it too early for the query: {_FROM_SCRATCH}, and consider a longer "
            "delta.logRetentionDuration."
        )


@delta_error("DELTA_STREAMING_TRAILING_COMMIT_MISSING", "42K03")
class StreamedCommitMissingError(DeltaError):
    """A planned batch needs a version that is not in the log."""

    template = (
        "The checkpoint has planned a batch up to version {version} of {table}, and the log ends with version {seen}. "
        "Commits were removed, or storage does not list them yet. Nothing was read. Put the commits back, or start the "
        "query again later."
    )
    table: str
    version: int
    seen: int


@delta_error("DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", "KD007")
class StreamedSchemaStaleError(DeltaError):
    """The table's columns changed after the stream's DataFrame was created."""

    template = (
        "{table} has other columns than when the DataFrame of this stream was created: {difference}. Create it again "
        "with spark.readStream, and start the query again."
    )
    table: str
    difference: str


# Errors of streams that keep a log of their columns (`schemaTrackingLocation`).


_ANOTHER_LOCATION = "give the stream another schemaTrackingLocation, and a new checkpoint with it"


@delta_error("DELTA_STREAMING_METADATA_EVOLUTION", "22000")
class StreamedMetadataEvolvedError(DeltaError):
    """The stream has reached a change of columns, properties or protocol, and has recorded it in its schema log."""

    template = (
        "The stream has read {table} up to version {version}, which changes its metadata: {difference}. The schema log "
        "of the stream has recorded the change. Call spark.readStream again and start the query: it continues with "
        "the new columns."
    )
    table: str
    version: int
    difference: str


@delta_error("DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION", "KD002")
class StreamedChangeNotAllowedError(DeltaError):
    """Columns were renamed, dropped or widened, and no option or setting allows the stream to continue."""

    table: str
    kind: str
    before: int
    version: int
    details: str
    checkpoint_hash: int
    options: tuple[str, ...]
    settings: tuple[str, ...]

    def explain(self) -> str:
        options = " and ".join(f'.option("{name}", "{self.version}")' for name in self.options)
        own = " ".join(f"SET {name}.ckpt_{self.checkpoint_hash} = {self.version};" for name in self.settings)
        every = " ".join(f"SET {name} = always;" for name in self.settings)
        return (
            f"Between versions {self.before} and {self.version} of {self.table} there is a change ({self.kind}) that "
            f"the stream's target may have to follow: {self.details}. Change the target if necessary, then allow the "
            f"stream to continue, by {options}, or by {own} The value always instead of the version allows every such "
            f"change; {every} does so for all streams."
        )


@delta_error("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT", "22000")
class SchemaLocationOutsideCheckpointError(DeltaAnalysisError):
    """The schema log of a stream is outside the stream's checkpoint."""

    template = "schemaTrackingLocation = {location} must be inside the checkpoint of the query, {checkpoint}."
    location: str
    checkpoint: str


@delta_error("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT", "22000")
class SchemaLocationConflictError(DeltaAnalysisError):
    """Two streams have the same schema log."""

    template = (
        "Another stream writes the schema log {location}, which is also the schemaTrackingLocation of this stream of "
        "{table}. Give one of them another schemaTrackingLocation or, where both belong to one query, a "
        "streamingSourceTrackingId."
    )
    table: str
    location: str


@delta_error("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED", "22000")
class SchemaLogUnreadableError(DeltaError):
    """An entry of a schema log cannot be read."""

    location: str
    problem: str

    def explain(self) -> str:
        return f"The schema log of the stream at {self.location} cannot be read: {self.problem}; {_ANOTHER_LOCATION}."


@delta_error("DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID", "22000")
class SchemaLogOfOtherTableError(DeltaAnalysisError):
    """The schema log belongs to a stream of another table."""

    location: str
    id_logged: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The schema log at {self.location} belongs to the table with id {self.id_logged}, and the stream reads "
            f"the one with id {self.id_found}: {_ANOTHER_LOCATION}."
        )


@delta_error("DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA", "22000")
class SchemaLogStartError(DeltaError):
    """No schema reads all of a batch that was planned before the stream had a schema log."""

    template = (
        "The checkpoint has planned a batch of versions {start} to {end} of {table}, between which columns or protocol "
        "changed so that no schema reads all of it. It was planned before the stream had a schema log. Give the query "
        "a new checkpoint to start from scratch."
    )
    table: str
    start: int
    end: int
