"""The options of a stream that reads a table, parsed and checked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from anabranch.booleans import flag_of
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.streaming import ExcludeRegexError, StartGivenTwiceError
from anabranch.spark.session.session_settings import check_names

FILES_MAX_DEFAULT = 1000
"""The most files of a batch without another limit."""
LATEST = "latest"
_SIZE = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS = {"": 0, "b": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4, "p": 5, "pb": 5}
_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
_ENDS = ("endingVersion", "endingTimestamp")
ALWAYS = "always"
ALLOW_RENAME = "allowSourceColumnRename"
ALLOW_DROP = "allowSourceColumnDrop"
ALLOW_TYPE_CHANGE = "allowSourceColumnTypeChange"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where a stream starts, how much it takes at once, and what it does about rows that were changed."""

    starting_version: int | None = None
    """The first version whose commit is read. Without it, the stream starts with all rows of the table."""
    starts_latest: bool = False
    """Whether only commits made after the start of the stream are read."""
    starting_timestamp: str | None = None
    """A text that Spark casts to a timestamp."""
    files_max: int | None = FILES_MAX_DEFAULT
    bytes_max: int | None = None
    """A soft limit: the file that exceeds it is still in the batch."""
    ignore_deletes: bool = False
    ignore_changes: bool = False
    """Whether rewritten files are read again, with their unchanged rows."""
    skip_change_commits: bool = False
    exclude: re.Pattern[str] | None = None
    """Paths that are not read."""
    fail_on_data_loss: bool = True
    read_change_feed: bool = False
    event_time_order: bool = False
    schema_location: str | None = None
    """The folder of the stream's schema log; None for a stream without one."""
    tracking_id: str | None = None
    """Distinguishes streams of one query that read the same table."""
    allow_rename: str | None = None
    """The change after which a stream with a schema log may continue: a version, or `always`."""
    allow_drop: str | None = None
    allow_type_change: str | None = None

    @property
    def has_start(self) -> bool:
        """Whether the options say where to start."""
        return self.starting_version is not None or self.starts_latest or self.starting_timestamp is not None

    @property
    def allows_changes(self) -> bool:
        return self.ignore_changes or self.skip_change_commits

    @property
    def allows_deletes(self) -> bool:
        return self.allows_changes or self.ignore_deletes

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options of a `DataStreamReader`.

        Raises `InvalidOptionError`, `StartGivenTwiceError`, `ExcludeRegexError`.
        """
        check_names(options)
        lowered = {key.lower(): value for key, value in options.items()}
        _refuse(lowered)
        version, timestamp = lowered.get("startingversion"), lowered.get("startingtimestamp")
        if version is not None and timestamp is not None:
            raise StartGivenTwiceError
        files, size = lowered.get("maxfilespertrigger"), lowered.get("maxbytespertrigger")
        bytes_max = None if size is None else _size("maxBytesPerTrigger", size)
        files_max = FILES_MAX_DEFAULT if bytes_max is None else None
        starts_latest = version is not None and version.strip().lower() == LATEST
        return cls(
            starting_version=None if version is None or starts_latest else _version(version),
            starts_latest=starts_latest,
            starting_timestamp=timestamp,
            files_max=files_max if files is None else _count("maxFilesPerTrigger", files),
            bytes_max=bytes_max,
            ignore_deletes=flag_of(lowered, "ignoreDeletes"),
            # `ignoreFileDeletion` is what `ignoreChanges` was called before.
            ignore_changes=flag_of(lowered, "ignoreChanges") or flag_of(lowered, "ignoreFileDeletion"),
            skip_change_commits=flag_of(lowered, "skipChangeCommits"),
            exclude=_pattern(lowered.get("excluderegex")),
            fail_on_data_loss=flag_of(lowered, "failOnDataLoss", default=True),
            read_change_feed=flag_of(lowered, "readChangeFeed") or flag_of(lowered, "readChangeData"),
            event_time_order=flag_of(lowered, "withEventTimeOrder"),
            **_tracking(lowered),
        )


def _refuse(options: Mapping[str, str]) -> None:
    for name in _TIME_TRAVEL:
        if name.lower() in options:
            problem = "a stream follows its table; to choose where it starts, set startingVersion or startingTimestamp"
            raise InvalidOptionError(option=name, value=options[name.lower()], problem=problem)
    for name in _ENDS:
        if name.lower() in options:
            problem = "a stream has no end; to read the rows that exist and stop, use trigger(availableNow=True)"
            raise InvalidOptionError(option=name, value=options[name.lower()], problem=problem)


def _tracking(options: Mapping[str, str]) -> dict[str, str | None]:
    """The options of the schema log."""
    location = options.get("schematrackinglocation", options.get("schemalocation"))
    if location is not None and not flag_of(options, "failOnDataLoss", default=True):
        problem = "a stream with a schema log cannot leave out commits, which may have changed the columns"
        raise InvalidOptionError(option="failOnDataLoss", value="false", problem=problem)
    allowed = {
        field: _allowed(name, options.get(name.lower()))
        for field, name in (
            ("allow_rename", ALLOW_RENAME),
            ("allow_drop", ALLOW_DROP),
            ("allow_type_change", ALLOW_TYPE_CHANGE),
        )
    }
    return {"schema_location": location, "tracking_id": options.get("streamingsourcetrackingid"), **allowed}


def _allowed(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    version = text.strip().lower()
    if version != ALWAYS and not version.isdecimal():
        raise InvalidOptionError(option=name, value=text, problem=f"it must be a version of the table, or {ALWAYS}")
    return version


def _version(text: str) -> int:
    number = text.strip()
    if not number.isdecimal() or len(number) > 18:
        problem = f"it must be a version, 0 or more, or {LATEST}"
        raise InvalidOptionError(option="startingVersion", value=text, problem=problem)
    return int(number)


def _count(name: str, text: str) -> int:
    number = text.strip()
    if not number.isdecimal() or int(number) == 0:
        raise InvalidOptionError(option=name, value=text, problem="it must be a whole number, 1 or more")
    return int(number)


def _size(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) == 0:
        raise InvalidOptionError(option=name, value=text, problem="it must be a size such as 10g, 512m or 1000 (bytes)")
    return int(match[1]) * int(1024**unit)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ExcludeRegexError(pattern=text, problem=str(error)) from None
