"""Errors of streams that read a table."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error

_FROM_SCRATCH = "give the query a new checkpoint to start from scratch"


@delta_error("DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET", "42613")
class StartGivenTwiceError(DeltaAnalysisError, ValueError):
    """A stream was given both a version and a time to start from."""

    template = "Both startingVersion and startingTimestamp are given. Leave one of them out."


@delta_error("DELTA_REGEX_OPT_SYNTAX_ERROR", "2201B")
class ExcludeRegexError(DeltaAnalysisError, ValueError):
    """`excludeRegex` is no regular expression."""

    template = "excludeRegex = {pattern!r} is no regular expression: {problem}."
    pattern: str
    problem: str


@delta_error("DELTA_INVALID_SOURCE_OFFSET_FORMAT")
class StreamOffsetError(DeltaError):
    """A checkpoint holds a position in a table that cannot be read."""

    table: str
    offset: str
    problem: str

    def explain(self) -> str:
        return (
            f"The checkpoint holds {self.offset} as its position in {self.table}: {self.problem}. If no file of the "
            f"checkpoint was changed by hand, {_FROM_SCRATCH}."
        )


@delta_error("DELTA_INVALID_SOURCE_VERSION")
class StreamOffsetVersionError(StreamOffsetError):
    """A position has a `sourceVersion` that never was."""


@delta_error("DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION")
class StreamOffsetTooNewError(StreamOffsetError):
    """A position was written by a later version of Delta."""


@delta_error("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "55019")
class StreamedTableReplacedError(DeltaError):
    """Another table is in the place of the one that the stream read."""

    table: str
    id_read: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The stream read the table with id {self.id_read}; the one in {self.table} now has id {self.id_found}. It "
            f"was dropped and created again, or the query was pointed to another table. Undo that, or {_FROM_SCRATCH}."
        )


@delta_error("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "0A000")
class StreamedRowsChangedError(DeltaUnsupportedOperationError):
    """A commit changed or deleted rows, and no option of the stream says what to do about that."""

    table: str
    version: int
    operation: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} ({self.operation}) changed rows that were there before, and a "
            "stream of a table is of rows that are added. To pass over such commits, set the option "
            "skipChangeCommits to true; to read what changed, set readChangeFeed on a table that records it; to "
            "have the rows as they are "
            f"now, {_FROM_SCRATCH}."
        )


@delta_error("DELTA_SOURCE_IGNORE_DELETE", "0A000")
class StreamedRowsDeletedError(DeltaUnsupportedOperationError):
    """A commit deleted rows and added none, and no option of the stream says to ignore that."""

    template = (
        "Version {version} of {table} deleted rows (for example the file {path}), and a stream of a table is of rows "
        "that are added. To pass over deletions, set the option ignoreDeletes or skipChangeCommits to true."
    )
    table: str
    version: int
    path: str


@delta_error("DELTA_SCHEMA_CHANGED_WITH_VERSION", "KD007")
class StreamedSchemaChangedError(DeltaError):
    """The table has other columns than the stream."""

    table: str
    version: int
    difference: str
    helps_to_restart: bool
    """Whether a query that is started again reads on with the columns as they are then."""

    def explain(self) -> str:
        return f"{self._what_happened()} {self._way_out()}"

    def _what_happened(self) -> str:
        return f"Version {self.version} of {self.table} has other columns than the stream: {self.difference}."

    def _way_out(self) -> str:
        if self.helps_to_restart:
            return (
                "Start the query again, from spark.readStream on: it then reads on with the columns that the table has "
                "now. Nothing is read twice and nothing is left out."
            )
        return f"Rows written before cannot be read with the columns as they are now: {_FROM_SCRATCH}."


@delta_error("DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS")
class StreamedSchemaChangedAfterStartError(StreamedSchemaChangedError):
    """As `StreamedSchemaChangedError`, of a stream with an option that says where to start."""

    def _way_out(self) -> str:
        return (
            f"{super()._way_out()} Should that version be one that the stream starts behind, give a startingVersion or "
            f"startingTimestamp that lies after version {self.version}."
        )


@delta_error("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG", "42KD4")
class StreamedColumnsRemappedError(DeltaError):
    """A column was renamed, dropped, or became another."""

    table: str
    version: int
    difference: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} changed columns of the stream: {self.difference}. Start the query "
            "again, from spark.readStream on. Should it stop here again, there are rows from before that change that "
            f"it has not read, and that have other columns: set schemaTrackingLocation, and {_FROM_SCRATCH}."
        )


@delta_error("DELTA_MISSING_FILES_UNEXPECTED_VERSION", "42K03")
class StreamedLogMissingError(DeltaError):
    """Commits that the stream has not read yet are gone."""

    table: str
    version: int
    earliest: int

    def explain(self) -> str:
        return (
            f"The stream needs version {self.version} of {self.table}, and the oldest one left is {self.earliest}: log "
            "clean-up came first. To read on and leave the versions between out, set the option failOnDataLoss to "
            f"false; to have all rows, {_FROM_SCRATCH}. A longer delta.logRetentionDuration gives streams more time."
        )


@delta_error("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE", "42K03")
class StreamedSnapshotGoneError(DeltaError):
    """The version with which the stream began cannot be rebuilt any more, and was not read to its end."""

    table: str
    version: int
    cause: str

    def explain(self) -> str:
        return (
            f"The stream was reading version {self.version} of {self.table}, which cannot be rebuilt any more: "
            f"{self.cause} The query lags behind log clean-up: {_FROM_SCRATCH}, and consider a longer "
            "delta.logRetentionDuration."
        )


@delta_error("DELTA_STREAMING_TRAILING_COMMIT_MISSING", "42K03")
class StreamedCommitMissingError(DeltaError):
    """A batch that was planned reaches to a version that is not there."""

    template = (
        "The checkpoint has planned a batch up to version {version} of {table}, and the log ends with version {seen}. "
        "Commits were taken away, or storage does not show them yet. Nothing was read."
    )
    table: str
    version: int
    seen: int


@delta_error("DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", "KD007")
class StreamedSchemaStaleError(DeltaError):
    """The table has other columns than when the stream's DataFrame was made."""

    template = (
        "{table} has other columns than when this stream was made of it: {difference}. Make it anew with "
        "spark.readStream and start the query again."
    )
    table: str
    difference: str


# Errors of streams that keep a log of their columns (`schemaTrackingLocation`).


_ANOTHER_LOCATION = "give the stream another schemaTrackingLocation, and a new checkpoint with it"


@delta_error("DELTA_STREAMING_METADATA_EVOLUTION", "22000")
class StreamedMetadataEvolvedError(DeltaError):
    """The stream has come to a change of columns, properties or protocol, and has noted it."""

    template = (
        "The stream has read {table} up to version {version}, which describes the table anew: {difference}. That is "
        "noted in its schema log. Start the query again, from spark.readStream on, to read on with the columns as they "
        "are from then on."
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
            f"the stream's target may have to follow: {self.details}. Change the target if need be, and then let the "
            f"stream go on: by {options}, or by {own} In place of the version, always lets it go on at every such "
            f"change; {every} does so for all streams."
        )


@delta_error("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT", "22000")
class SchemaLocationOutsideCheckpointError(DeltaAnalysisError):
    """A schema log would outlive the checkpoint to which it belongs."""

    template = "schemaTrackingLocation = {location} must lie in the checkpoint of the query, {checkpoint}."
    location: str
    checkpoint: str


@delta_error("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT", "22000")
class SchemaLocationConflictError(DeltaAnalysisError):
    """Two streams keep one schema log."""

    template = (
        "Another stream writes the schema log {location}, too, which this stream of {table} was told. Give one of them "
        "another schemaTrackingLocation or, where both are of one query, a streamingSourceTrackingId."
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
    """A schema log was kept by a stream of another table."""

    location: str
    id_logged: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The schema log at {self.location} is of the table with id {self.id_logged}, and the stream reads the one "
            f"with id {self.id_found}: {_ANOTHER_LOCATION}."
        )


@delta_error("DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA", "22000")
class SchemaLogStartError(DeltaError):
    """A batch that was planned before there was a schema log has no one set of columns."""

    template = (
        "The checkpoint has planned a batch of versions {start} to {end} of {table}, between which columns or protocol "
        "changed so that no schema reads all of it. It was planned before the stream had a schema log; give the query "
        "a new checkpoint to start from scratch."
    )
    table: str
    start: int
    end: int
