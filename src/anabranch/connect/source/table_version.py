"""The table, and the version of it, that the options of a read or write mean; without Spark."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidOptionError, SessionNotEnabledError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshots import Snapshots
from anabranch.storage.elsewhere import open_reaching
from anabranch.storage.log_store import LogStore

_NOT_HERE = ("readchangefeed", "readchangedata")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of the format, read once."""

    path: str
    version: int | None
    timestamp: str | None
    time_zone: str
    file_system: Mapping[str, str]
    """Settings of the session, and those among the options that have a dot."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, time_zone: str, file_system: Mapping[str, str]) -> TableOptions:
        """Raises `InvalidOptionError`, `SessionNotEnabledError`."""
        given = {key.lower(): value for key, value in options.items()}
        for name in _NOT_HERE:
            if given.get(name, "false").lower() != "false":
                raise SessionNotEnabledError(call="Reading the change feed")
        path = given.get("path")
        if not path:
            raise InvalidOptionError(option="path", value=str(path), problem="it must name the folder of a table")
        version, timestamp = given.get("versionasof"), given.get("timestampasof")
        if version is not None and timestamp is not None:
            raise InvalidOptionError(option="timestampAsOf", value=timestamp, problem="versionAsOf is given as well")
        return cls(
            path=path.rstrip("/") or path,
            version=None if version is None else _version(version),
            timestamp=timestamp,
            time_zone=given.get("timezone", time_zone),
            file_system={**file_system, **{key: value for key, value in options.items() if "." in key}},
        )

    def store(self) -> LogStore:
        return open_reaching(self.path, self.file_system)

    def snapshot(self) -> Snapshot:
        """The version meant, the newest where none is. Raises `TableNotFoundError`, `VersionNotFoundError` …"""
        snapshots = Snapshots(self.store(), SystemClock())
        if self.version is not None:
            return snapshots.at_version(self.version)
        if self.timestamp is not None:
            return snapshots.at_timestamp(
                timestamp_ms(self.timestamp, time_zone=self.time_zone, option="timestampAsOf")
            )
        return snapshots.latest()


def timestamp_ms(text: str, *, time_zone: str, option: str) -> int:
    """Milliseconds since the epoch of a time that is written as ISO 8601 says. Raises `InvalidOptionError`."""
    try:
        parsed = datetime.datetime.fromisoformat(text.strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=ZoneInfo(time_zone))
    except (ValueError, ZoneInfoNotFoundError) as error:
        problem = "write it as 2024-01-31 or 2024-01-31 09:30:00, if need be with a zone such as +01:00"
        raise InvalidOptionError(option=option, value=text, problem=problem) from error
    return int(aware.timestamp() * 1000)


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidOptionError(option="versionAsOf", value=text, problem="it must be a whole number from 0 on")
    return int(text)
