"""Suffixes of the path of a table: a version, a time, or folders of partitions."""

from __future__ import annotations

import dataclasses
import re
from datetime import datetime
from urllib.parse import unquote

_VERSION_SUFFIX = re.compile(r"^(.*)@[vV](\d+)$", re.DOTALL)
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_TIMESTAMP_SUFFIX = re.compile(r"^(.*)@(\d{17})$", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravel:
    """The version to read, by number or by time; the newest without either."""

    version: int | None = None
    timestamp: str | datetime | None = None
    """A string is cast as Spark does, in the session's time zone."""

    @property
    def is_newest(self) -> bool:
        return self.version is None and self.timestamp is None


NEWEST = TimeTravel()


def split_time_travel(path: str) -> tuple[str, TimeTravel]:
    """The path or name without `@v3` or `@20240131093000000`, and the version that this suffix names."""
    if match := _VERSION_SUFFIX.match(path):
        return match[1], TimeTravel(version=int(match[2]))
    if match := _TIMESTAMP_SUFFIX.match(path):
        digits = match[2]
        text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
        return match[1], TimeTravel(timestamp=text)
    return path, NEWEST


def split_partitions(path: str) -> tuple[str, dict[str, str | None]]:
    """Split `/t/date=2024-01-01/part=2` into `/t` and the values by column; other paths have no values.

    Names of folders are escaped as Hive does: some characters by `%` and two digits, and NULL by a reserved name.
    """
    values: dict[str, str | None] = {}
    root = path.rstrip("/")
    while "=" in root.rsplit("/", 1)[-1]:
        root, folder = root.rsplit("/", 1)
        column, value = folder.split("=", 1)
        values[unquote(column)] = None if value == _NULL_FOLDER else unquote(value)
    return root, dict(reversed(values.items()))
