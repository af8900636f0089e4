"""Errors of streams that read a table."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError

_FROM_SCRATCH = "give the query a new checkpoint to start from scratch"


@dataclasses.dataclass(eq=False, kw_only=True)
class StartGivenTwiceError(DeltaAnalysisError, ValueError):
    """A stream was given both a version and a time to start from."""

    condition: ClassVar[str] = "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"
    sqlstate: ClassVar[str] = "42613"
    template: ClassVar[str] = "Both startingVersion and startingTimestamp are given. Leave one of them out."


@dataclasses.dataclass(eq=False, kw_only=True)
class ExcludeRegexError(DeltaAnalysisError, ValueError):
    """`excludeRegex` is no regular expression."""

    condition: ClassVar[str] = "DELTA_REGEX_OPT_SYNTAX_ERROR"
    sqlstate: ClassVar[str] = "2201B"
    template: ClassVar[str] = "excludeRegex = {pattern!r} is no regular expression: {problem}."
    pattern: str
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamOffsetError(DeltaError):
    """A checkpoint holds a position in a table that cannot be read."""

    condition: ClassVar[str] = "DELTA_INVALID_SOURCE_OFFSET_FORMAT"
    table: str
    offset: str
    problem: str

    def explain(self) -> str:
        return (
            f"The checkpoint holds {self.offset} as its position in {self.table}: {self.problem}. If no file of the "
            f"checkpoint was changed by hand, {_FROM_SCRATCH}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamOffsetVersionError(StreamOffsetError):
    """A position has a `sourceVersion` that never was."""

    condition: ClassVar[str] = "DELTA_INVALID_SOURCE_VERSION"


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamOffsetTooNewError(StreamOffsetError):
    """A position was written by a later version of Delta."""

    condition: ClassVar[str] = "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION"


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedTableReplacedError(DeltaError):
    """Another table is in the place of the one that the stream read."""

    condition: ClassVar[str] = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    sqlstate: ClassVar[str] = "55019"
    table: str
    id_read: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The stream read the table with id {self.id_read}; the one in {self.table} now has id {self.id_found}. It "
            f"was dropped and created again, or the query was pointed to another table. Undo that, or {_FROM_SCRATCH}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedRowsChangedError(DeltaUnsupportedOperationError):
    """A commit changed or deleted rows, and no option of the stream says what to do about that."""

    condition: ClassVar[str] = "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
    sqlstate: ClassVar[str] = "0A000"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedRowsDeletedError(DeltaUnsupportedOperationError):
    """A commit deleted rows and added none, and no option of the stream says to ignore that."""

    condition: ClassVar[str] = "DELTA_SOURCE_IGNORE_DELETE"
    sqlstate: ClassVar[str] = "0A000"
    template: ClassVar[str] = (
        "Version {version} of {table} deleted rows (for example the file {path}), and a stream of a table is of rows "
        "that are added. To pass over deletions, set the option ignoreDeletes or skipChangeCommits to true."
    )
    table: str
    version: int
    path: str


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedSchemaChangedError(DeltaError):
    """The table has other columns than the stream."""

    condition: ClassVar[str] = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    sqlstate: ClassVar[str] = "KD007"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedSchemaChangedAfterStartError(StreamedSchemaChangedError):
    """As `StreamedSchemaChangedError`, of a stream with an option that says where to start."""

    condition: ClassVar[str] = "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"

    def _way_out(self) -> str:
        return (
            f"{super()._way_out()} Should that version be one that the stream starts behind, give a startingVersion or "
            f"startingTimestamp that lies after version {self.version}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedColumnsRemappedError(DeltaError):
    """A column was renamed, dropped, or became another."""

    condition: ClassVar[str] = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"
    sqlstate: ClassVar[str] = "42KD4"
    table: str
    version: int
    difference: str

    def explain(self) -> str:
        return (
            f"Version {self.version} of {self.table} changed columns of the stream: {self.difference}. Start the query "
            "again, from spark.readStream on. Should it stop here again, there are rows from before that change that "
            f"it has not read, and that have other columns: set schemaTrackingLocation, and {_FROM_SCRATCH}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedLogMissingError(DeltaError):
    """Commits that the stream has not read yet are gone."""

    condition: ClassVar[str] = "DELTA_MISSING_FILES_UNEXPECTED_VERSION"
    sqlstate: ClassVar[str] = "42K03"
    table: str
    version: int
    earliest: int

    def explain(self) -> str:
        return (
            f"The stream needs version {self.version} of {self.table}, and the oldest one left is {self.earliest}: log "
            "clean-up came first. To read on and leave the versions between out, set the option failOnDataLoss to "
            f"false; to have all rows, {_FROM_SCRATCH}. A longer delta.logRetentionDuration gives streams more time."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedSnapshotGoneError(DeltaError):
    """The version with which the stream began cannot be rebuilt any more, and was not read to its end."""

    condition: ClassVar[str] = "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"
    sqlstate: ClassVar[str] = "42K03"
    table: str
    version: int
    cause: str

    def explain(self) -> str:
        return (
            f"The stream was reading version {self.version} of {self.table}, which cannot be rebuilt any more: "
            f"{self.cause} The query lags behind log clean-up: {_FROM_SCRATCH}, and consider a longer "
            "delta.logRetentionDuration."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedCommitMissingError(DeltaError):
    """A batch that was planned reaches to a version that is not there."""

    condition: ClassVar[str] = "DELTA_STREAMING_TRAILING_COMMIT_MISSING"
    sqlstate: ClassVar[str] = "42K03"
    template: ClassVar[str] = (
        "The checkpoint has planned a batch up to version {version} of {table}, and the log ends with version {seen}. "
        "Commits were taken away, or storage does not show them yet. Nothing was read."
    )
    table: str
    version: int
    seen: int


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedSchemaStaleError(DeltaError):
    """The table has other columns than when the stream's DataFrame was made."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"
    sqlstate: ClassVar[str] = "KD007"
    template: ClassVar[str] = (
        "{table} has other columns than when this stream was made of it: {difference}. Make it anew with "
        "spark.readStream and start the query again."
    )
    table: str
    difference: str


# Errors of streams that keep a log of their columns (`schemaTrackingLocation`).


_ANOTHER_LOCATION = "give the stream another schemaTrackingLocation, and a new checkpoint with it"


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedMetadataEvolvedError(DeltaError):
    """The stream has come to a change of columns, properties or protocol, and has noted it."""

    condition: ClassVar[str] = "DELTA_STREAMING_METADATA_EVOLUTION"
    sqlstate: ClassVar[str] = "22000"
    template: ClassVar[str] = (
        "The stream has read {table} up to version {version}, which describes the table anew: {difference}. That is "
        "noted in its schema log. Start the query again, from spark.readStream on, to read on with the columns as they "
        "are from then on."
    )
    table: str
    version: int
    difference: str


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedChangeNotAllowedError(DeltaError):
    """Columns were renamed, dropped or widened, and no option or setting allows the stream to continue."""

    condition: ClassVar[str] = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
    sqlstate: ClassVar[str] = "KD002"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLocationOutsideCheckpointError(DeltaAnalysisError):
    """A schema log would outlive the checkpoint to which it belongs."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"
    sqlstate: ClassVar[str] = "22000"
    template: ClassVar[str] = (
        "schemaTrackingLocation = {location} must lie in the checkpoint of the query, {checkpoint}."
    )
    location: str
    checkpoint: str


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLocationConflictError(DeltaAnalysisError):
    """Two streams keep one schema log."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT"
    sqlstate: ClassVar[str] = "22000"
    template: ClassVar[str] = (
        "Another stream writes the schema log {location}, too, which this stream of {table} was told. Give one of them "
        "another schemaTrackingLocation or, where both are of one query, a streamingSourceTrackingId."
    )
    table: str
    location: str


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLogUnreadableError(DeltaError):
    """An entry of a schema log cannot be read."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED"
    sqlstate: ClassVar[str] = "22000"
    location: str
    problem: str

    def explain(self) -> str:
        return f"The schema log of the stream at {self.location} cannot be read: {self.problem}; {_ANOTHER_LOCATION}."


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLogOfOtherTableError(DeltaAnalysisError):
    """A schema log was kept by a stream of another table."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID"
    sqlstate: ClassVar[str] = "22000"
    location: str
    id_logged: str
    id_found: str

    def explain(self) -> str:
        return (
            f"The schema log at {self.location} is of the table with id {self.id_logged}, and the stream reads the one "
            f"with id {self.id_found}: {_ANOTHER_LOCATION}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLogStartError(DeltaError):
    """A batch that was planned before there was a schema log has no one set of columns."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA"
    sqlstate: ClassVar[str] = "22000"
    template: ClassVar[str] = (
        "The checkpoint has planned a batch of versions {start} to {end} of {table}, between which columns or protocol "
        "changed so that no schema reads all of it. It was planned before the stream had a schema log; give the query "
        "a new checkpoint to start from scratch."
    )
    table: str
    start: int
    end: int
