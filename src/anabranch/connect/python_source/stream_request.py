"""What the source of a stream is told: by the reader's options, and by the session that made the stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from anabranch.clock import SystemClock
from anabranch.connect.python_source.source_reader import timestamp_ms
from anabranch.errors.arguments import InvalidOptionError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.external_files import open_reaching
from anabranch.storage.log_store import LogStore
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import StreamSource

# Options that the source is given beside those of its user, who has none of such names.
LABEL = "__anabranch_table"
"""What messages call the table."""
STARTING_MS = "__anabranch_starting_ms"
"""`startingTimestamp` as Spark casts it, in milliseconds since the epoch."""
OUT_OF_RANGE = "__anabranch_out_of_range"
"""Whether a start behind the newest commit waits for what comes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamTold:
    """A stream, without a session."""

    path: str
    label: str
    options: SourceOptions
    starting_ms: int | None
    allows_out_of_range: bool
    time_zone: str
    file_system: Mapping[str, str]

    @classmethod
    def parse(cls, options: Mapping[str, str], *, time_zone: str, file_system: Mapping[str, str]) -> StreamTold:
        """Raises what `SourceOptions.parse` does."""
        given = {key.lower(): value for key, value in options.items()}
        path = given.get("path")
        if not path:
            raise InvalidOptionError(option="path", value=str(path), problem="it must name the folder of a table")
        path = path.rstrip("/") or path
        label = given.get(LABEL.lower(), f"delta.`{path}`")
        zone = given.get("timezone", time_zone)
        parsed = SourceOptions.parse(given)
        starting_ms = given.get(STARTING_MS.lower())
        if starting_ms is None and parsed.starting_timestamp is not None:
            starting_ms = str(timestamp_ms(parsed.starting_timestamp, time_zone=zone, option="startingTimestamp"))
        return cls(
            path=path,
            label=label,
            options=parsed,
            starting_ms=None if starting_ms is None else int(starting_ms),
            allows_out_of_range=given.get(OUT_OF_RANGE.lower()) == "true",
            time_zone=zone,
            file_system={**file_system, **{key: value for key, value in options.items() if "." in key}},
        )

    def store(self) -> LogStore:
        return open_reaching(self.path, self.file_system)

    def open(self, store: LogStore) -> tuple[Snapshot, StreamSource]:
        """The newest version, and the source of a run that begins now. Raises `TableNotFoundError` …"""
        snapshots = SnapshotCache(store, SystemClock())
        snapshot = snapshots.latest()
        starting_ms = self.starting_ms
        source = StreamSource(
            snapshots,
            table=self.label,
            snapshot=snapshot,
            options=self.options,
            to_milliseconds=lambda text: int(text) if starting_ms is None else starting_ms,
            allows_out_of_range=self.allows_out_of_range,
        )
        return snapshot, source
