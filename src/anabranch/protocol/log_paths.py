"""Names of the files in `_delta_log`. See "Delta Log Entries", "Checkpoint Naming Scheme", "Log Compaction Files"."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from typing import Literal

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = f"{LOG_DIRECTORY}/_sidecars"
CHANGE_DATA_DIRECTORY = "_change_data"
LAST_CHECKPOINT_NAME = "_last_checkpoint"
LAST_CHECKPOINT_PATH = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT_NAME}"

VERSION_MAX = 2**63 - 1
"""Versions are Java longs; twenty digits could hold more."""


class LogFileKind(enum.Enum):
    """The kinds of files in the log, which their names show."""

    COMMIT = "commit"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    V2_CHECKPOINT = "UUID-named checkpoint"
    CHECKSUM = "checksum"
    COMPACTED = "compacted"

    @property
    def is_checkpoint(self) -> bool:
        return self in CHECKPOINT_KINDS


CHECKPOINT_KINDS = frozenset(
    {LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.V2_CHECKPOINT}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogPath:
    """The parts of the name of a log file. Fields that its kind does not have are None."""

    kind: LogFileKind
    version: int
    """The number the name begins with; of a compaction, the first version it covers."""
    end_version: int | None = None
    """The last version that a compaction covers."""
    part: int | None = None
    """The part of a multi-part checkpoint, counted from 1."""
    parts: int | None = None
    unique_id: str | None = None
    """The UUID in the name of a V2 checkpoint, as written there."""
    format: Literal["json", "parquet"] | None = None
    """The format of a V2 checkpoint."""

    @property
    def name(self) -> str:
        """The file name, without its directory."""
        return self.path.removeprefix(f"{LOG_DIRECTORY}/")

    @property
    def path(self) -> str:
        """The path relative to the table's root."""
        match self:
            case LogPath(kind=LogFileKind.COMPACTED, end_version=int(end)):
                return compacted_path(self.version, end)
            case LogPath(kind=LogFileKind.MULTI_PART_CHECKPOINT, part=int(part), parts=int(parts)):
                return multi_part_checkpoint_path(self.version, part, parts)
            case LogPath(kind=LogFileKind.V2_CHECKPOINT, unique_id=str(unique_id), format=str(format_)):
                return v2_checkpoint_path(self.version, unique_id, format_)
            case LogPath(kind=LogFileKind.CLASSIC_CHECKPOINT):
                return checkpoint_path(self.version)
            case LogPath(kind=LogFileKind.CHECKSUM):
                return checksum_path(self.version)
            case _:
                return commit_path(self.version)


def version_prefix(version: int) -> str:
    """The prefix of every name of this version; it sorts before all of them."""
    return f"{version:020d}"


def commit_path(version: int) -> str:
    """The path of a commit. See "Delta Log Entries"."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def checksum_path(version: int) -> str:
    """The path of a checksum. See "Version Checksum File"."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def compacted_path(first: int, last: int) -> str:
    """The path of a compaction of the commits `first` to `last`. See "Log Compaction Files"."""
    return f"{LOG_DIRECTORY}/{first:020d}.{last:020d}.compacted.json"


def checkpoint_path(version: int) -> str:
    """The path of a classic checkpoint."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def multi_part_checkpoint_path(version: int, part: int, parts: int) -> str:
    """The path of one part of a checkpoint; `part` counts from 1."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2_checkpoint_path(version: int, unique_id: str, format: str = "parquet") -> str:  # noqa: A002
    """The path of a V2 checkpoint, as `json` or `parquet`. See "UUID-named checkpoint"."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{unique_id}.{format}"


def sidecar_path(name: str) -> str:
    """The path of a sidecar. See "Sidecar Files"."""
    return f"{SIDECAR_DIRECTORY}/{name}"


NAMES_KEPT = 4096
"""Names whose parts are kept: writers that wait for one another list the same files several times for each commit."""
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    r"(?P<version>[0-9]{20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<classic>checkpoint\.parquet)"
    r"|checkpoint\.(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet"
    rf"|checkpoint\.(?P<uuid>{_UUID})\.(?P<format>json|parquet)"
    r"|(?P<end>[0-9]{20})\.compacted\.json"
    r")"
)


@functools.lru_cache(NAMES_KEPT)
def parse_log_path(name: str) -> LogPath | None:
    """The parts of the name of a file directly in `_delta_log`; None for anything else, such as a temporary file.

    `name` may include the directory. Numbers must be padded as the protocol says, so that no two names
    mean the same version.
    """
    match = _NAME.fullmatch(name.removeprefix(f"{LOG_DIRECTORY}/"))
    if match is None or (version := int(match["version"])) > VERSION_MAX:
        return None
    if match["commit"]:
        return LogPath(kind=LogFileKind.COMMIT, version=version)
    if match["checksum"]:
        return LogPath(kind=LogFileKind.CHECKSUM, version=version)
    if match["classic"]:
        return LogPath(kind=LogFileKind.CLASSIC_CHECKPOINT, version=version)
    if match["end"]:
        return _compacted(version, int(match["end"]))
    if match["part"]:
        return _multi_part(version, int(match["part"]), int(match["parts"]))
    format_: Literal["json", "parquet"] = "json" if match["format"] == "json" else "parquet"
    return LogPath(kind=LogFileKind.V2_CHECKPOINT, version=version, unique_id=match["uuid"], format=format_)


def _compacted(first: int, last: int) -> LogPath | None:
    if not first < last <= VERSION_MAX:
        return None
    return LogPath(kind=LogFileKind.COMPACTED, version=first, end_version=last)


def _multi_part(version: int, part: int, parts: int) -> LogPath | None:
    if not 1 <= part <= parts:
        return None
    return LogPath(kind=LogFileKind.MULTI_PART_CHECKPOINT, version=version, part=part, parts=parts)
