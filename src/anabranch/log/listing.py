"""Listings of `_delta_log`, sorted by the kinds of files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from anabranch.protocol.log_paths import (
    CHECKPOINT_KINDS,
    LOG_DIRECTORY,
    LogFileKind,
    LogPath,
    parse_log_path,
    version_prefix,
)
from anabranch.storage.log_store import LogStore, StoredFile

CHECKPOINT_PARTS_MAX = 10_000
"""A checkpoint that claims more parts is ignored as incomplete."""

LogFile = tuple[LogPath, StoredFile]
"""A file of the log, with the parts of its name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitFile:
    """The file of a commit, `N.json`."""

    version: int
    file: StoredFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """A compaction `x.y.compacted.json` of the versions `first` to `last`, both included."""

    first: int
    last: int
    file: StoredFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """The files of a complete checkpoint: all its parts, in order, without sidecars, to which these refer."""

    version: int
    kind: LogFileKind
    files: tuple[StoredFile, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The files of a listing: commits by version, complete checkpoints, the preferred one last, compactions by name."""

    commits: tuple[CommitFile, ...]
    checkpoints: tuple[CheckpointFiles, ...]
    compactions: tuple[CompactedFile, ...]

    @property
    def latest_version(self) -> int | None:
        """The newest version that has a commit or a checkpoint."""
        versions = [self.commits[-1].version] if self.commits else []
        if self.checkpoints:
            versions.append(self.checkpoints[-1].version)
        return max(versions, default=None)

    def newest_checkpoint(self, unusable: frozenset[str] = frozenset()) -> CheckpointFiles | None:
        """The newest complete checkpoint none of whose files is `unusable`."""
        for checkpoint in reversed(self.checkpoints):
            if not any(file.path in unusable for file in checkpoint.files):
                return checkpoint
        return None

    def earliest_recreatable_version(self) -> int:
        """The oldest version that can be rebuilt, if this is a listing of the whole log."""
        if self.commits and self.commits[0].version == 0:
            return 0
        if self.checkpoints:
            return self.checkpoints[0].version
        return self.commits[0].version if self.commits else 0


def list_log(store: LogStore, *, first: int, upto: int | None) -> LogListing:
    """The log files of versions `first` to `upto`, with the compactions that only cover these versions."""
    return sort_by_kind(list_log_files(store, first=first, upto=upto), upto=upto)


def list_log_files(store: LogStore, *, first: int, upto: int | None) -> Iterator[LogFile]:
    """The files whose names begin with a version from `first` to `upto`, by name."""
    for file in store.list_from(LOG_DIRECTORY, start_after=version_prefix(first)):
        name = parse_log_path(file.path.rpartition("/")[2])
        if name is None:
            continue
        if upto is not None and name.version > upto:
            return
        yield name, file


def sort_by_kind(log_files: Iterable[LogFile], *, upto: int | None) -> LogListing:
    """The listed files, sorted by kind; with `upto`, only those of versions up to it."""
    commits: list[CommitFile] = []
    compactions: list[CompactedFile] = []
    candidates: list[LogFile] = []
    for name, file in log_files:
        if upto is not None and name.version > upto:
            continue
        if name.kind is LogFileKind.COMMIT:
            commits.append(CommitFile(version=name.version, file=file))
        elif name.kind in CHECKPOINT_KINDS and file.size_bytes > 0:
            candidates.append((name, file))
        elif name.end_version is not None and (upto is None or name.end_version <= upto):
            compactions.append(CompactedFile(first=name.version, last=name.end_version, file=file))
    return LogListing(
        commits=tuple(commits),
        checkpoints=tuple(_complete_checkpoints(candidates)) if candidates else (),
        compactions=tuple(compactions),
    )


def after_last_gap(commits: tuple[CommitFile, ...]) -> tuple[CommitFile, ...]:
    """The commits after the last gap, which is where log cleanup was interrupted."""
    first = max(len(commits) - 1, 0)
    while first > 0 and commits[first - 1].version + 1 == commits[first].version:
        first -= 1
    return commits[first:]


def _complete_checkpoints(candidates: list[LogFile]) -> list[CheckpointFiles]:
    """The checkpoints of which all parts exist; others are ignored, see "Multi-part checkpoint"."""
    groups: dict[tuple[int, int, str], list[LogFile]] = {}
    for name, file in candidates:
        group = (name.version, -(name.parts or 0), name.unique_id or "")
        groups.setdefault(group, []).append((name, file))
    complete = []
    for _, members in sorted(groups.items(), key=lambda group: group[0]):
        name = members[0][0]
        parts = name.parts or 1
        if parts > CHECKPOINT_PARTS_MAX or len(members) != parts:
            continue
        ordered = sorted(members, key=lambda member: member[0].part or 0)
        files = tuple(file for _, file in ordered)
        complete.append(CheckpointFiles(version=name.version, kind=name.kind, files=files))
    return complete
