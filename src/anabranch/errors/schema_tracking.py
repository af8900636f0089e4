"""Errors of streams that keep a log of their columns (`schemaTrackingLocation`)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError

_ANOTHER_LOCATION = "give the stream another schemaTrackingLocation, and a new checkpoint with it"


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedMetadataEvolvedError(DeltaError):
    """The stream has come to a change of columns, properties or protocol, and has noted it."""

    condition: ClassVar[str] = "DELTA_STREAMING_METADATA_EVOLUTION"
    sqlstate: ClassVar[str] = "22000"
    table: str
    version: int
    difference: str

    def explain(self) -> str:
        return (
            f"The stream has read {self.table} up to version {self.version}, which describes the table anew: "
            f"{self.difference}. That is noted in its schema log. Start the query again, from spark.readStream on, to "
            "read on with the columns as they are from then on."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class StreamedChangeNotAllowedError(DeltaError):
    """Columns were renamed, dropped or widened, and nobody has said that the stream may go on."""

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
    location: str
    checkpoint: str

    def explain(self) -> str:
        return f"schemaTrackingLocation = {self.location} must lie in the checkpoint of the query, {self.checkpoint}."


@dataclasses.dataclass(eq=False, kw_only=True)
class SchemaLocationConflictError(DeltaAnalysisError):
    """Two streams keep one schema log."""

    condition: ClassVar[str] = "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT"
    sqlstate: ClassVar[str] = "22000"
    table: str
    location: str

    def explain(self) -> str:
        return (
            f"Another stream writes the schema log {self.location}, too, which this stream of {self.table} was told. "
            "Give one of them another schemaTrackingLocation or, where both are of one query, a "
            "streamingSourceTrackingId."
        )


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
    table: str
    start: int
    end: int

    def explain(self) -> str:
        return (
            f"The checkpoint has planned a batch of versions {self.start} to {self.end} of {self.table}, between which "
            "columns or protocol changed so that no schema reads all of it. It was planned before the stream had a "
            "schema log; give the query a new checkpoint to start from scratch."
        )
