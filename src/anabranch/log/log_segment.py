"""Listings of `_delta_log`, and the files of a listing that rebuild a version.

See "Delta Log Entries", "Checkpoints", "Log Compaction Files".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import pairwise

from anabranch.errors.base import DeltaError
from anabranch.errors.log import LogGapError, TableNotFoundError, TruncatedLogError, VersionNotFoundError
from anabranch.log.last_checkpoint import read_last_checkpoint
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The log files that rebuild one version of a table.

    Checked on construction:

    1. Commits are consecutive and the last one is `version`; there are none where the checkpoint is of `version`.
    2. The first commit follows the checkpoint; with no checkpoint it is version 0.
    3. Every compaction covers commits of this segment only, and no two overlap.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[CommitFile, ...]
    compactions: tuple[CompactedFile, ...] = ()
    version_file: StoredFile | None
    """The commit of `version`; None only where just a checkpoint of it remains."""

    def __post_init__(self) -> None:
        first = self.checkpoint.version + 1 if self.checkpoint else 0
        expected = range(first, self.version + 1)
        assert [commit.version for commit in self.commits] == list(expected), "commits must be consecutive"
        for compaction in self.compactions:
            assert first <= compaction.first < compaction.last <= self.version, (
                "a compaction must be within the segment"
            )
        for one, following in pairwise(self.compactions):
            assert one.last < following.first, "compactions must not overlap"

    @property
    def modified_ms(self) -> int:
        """The modification time of the version in storage."""
        if self.version_file is not None:
            return self.version_file.modified_ms
        assert self.checkpoint is not None
        return self.checkpoint.files[0].modified_ms

    def steps(self) -> list[CommitFile | CompactedFile]:
        """The files to replay after the checkpoint, in order: compactions instead of the commits they cover."""
        by_first = {compaction.first: compaction for compaction in self.compactions}
        steps: list[CommitFile | CompactedFile] = []
        covered_upto = -1
        for commit in self.commits:
            if commit.version <= covered_upto:
                continue
            step: CommitFile | CompactedFile = by_first.get(commit.version, commit)
            if isinstance(step, CompactedFile):
                covered_upto = step.last
            steps.append(step)
        return steps


def find_segment(store: LogStore, *, upto: int | None = None, unusable: frozenset[str] = frozenset()) -> LogSegment:
    """The segment of version `upto`, or of the newest version.

    `unusable` has the paths of files that exist but could not be read.

    Raises `TableNotFoundError`, `VersionNotFoundError`, `LogGapError`, `TruncatedLogError`, `StorageError`.
    """
    listing = _list_from_hint(store, upto=upto, unusable=unusable) or list_log(store, first=0, upto=upto)
    try:
        return _segment_of(listing, store=store, upto=upto, unusable=unusable)
    except LogGapError:
        # A paginated listing is not atomic: of commits written meanwhile it may have only some. A commit that
        # a second listing does not have either is missing.
        listing = list_log(store, first=0, upto=upto)
        return _segment_of(listing, store=store, upto=upto, unusable=unusable)


def _list_from_hint(store: LogStore, *, upto: int | None, unusable: frozenset[str]) -> LogListing | None:
    """The log from the hinted checkpoint on; None if that is not usable. See "Last Checkpoint File"."""
    hint = read_last_checkpoint(store)
    if hint is None or (upto is not None and hint.version > upto):
        return None
    listing = list_log(store, first=hint.version, upto=upto)
    return listing if listing.newest_checkpoint(unusable) is not None else None


def _segment_of(listing: LogListing, *, store: LogStore, upto: int | None, unusable: frozenset[str]) -> LogSegment:
    latest = listing.latest_version
    if latest is None or (upto is not None and upto > latest):
        raise _version_error(store, upto)
    version = latest if upto is None else upto
    checkpoint = listing.newest_checkpoint(unusable)
    first = 0 if checkpoint is None else checkpoint.version + 1
    commits = tuple(commit for commit in listing.commits if commit.version >= first)
    _check_complete(commits, store=store, first=first, version=version)
    usable = [
        compaction
        for compaction in listing.compactions
        # A listing that is not atomic may have a compaction without the last of its commits.
        if compaction.first >= first and compaction.last <= version and compaction.file.path not in unusable
    ]
    return LogSegment(
        version=version,
        checkpoint=checkpoint,
        commits=commits,
        compactions=_widest(usable),
        version_file=next((commit.file for commit in reversed(listing.commits) if commit.version == version), None),
    )


def _version_error(store: LogStore, version: int | None) -> DeltaError:
    """The error where a listing up to `version` does not reach it."""
    whole = list_log(store, first=0, upto=None)
    latest = whole.latest_version
    if version is None or latest is None:
        return TableNotFoundError(table=store.root)
    earliest = whole.earliest_recreatable_version()
    if earliest < version < latest:
        previous = max((commit.version for commit in whole.commits if commit.version < version), default=earliest)
        return LogGapError(table=store.root, version=version, missing_from=previous + 1, missing_to=version)
    return VersionNotFoundError(table=store.root, version=version, earliest=earliest, latest=latest)


def _check_complete(commits: tuple[CommitFile, ...], *, store: LogStore, first: int, version: int) -> None:
    """Raises an error that names the missing commits, if there are any from `first` to `version`."""
    expected = first
    for commit in commits:
        if commit.version != expected:
            raise _gap_error(store, missing_from=expected, missing_to=commit.version - 1, version=version, first=first)
        expected += 1
    if expected <= version:
        raise _gap_error(store, missing_from=expected, missing_to=version, version=version, first=first)


def _gap_error(store: LogStore, *, missing_from: int, missing_to: int, version: int, first: int) -> DeltaError:
    """The error where commits that `version` needs are missing."""
    if missing_from > first or first > 0:
        return LogGapError(table=store.root, version=version, missing_from=missing_from, missing_to=missing_to)
    whole = list_log(store, first=0, upto=None)
    latest = whole.latest_version
    earliest = whole.earliest_recreatable_version()
    if latest is not None and version < earliest <= latest:
        return VersionNotFoundError(table=store.root, version=version, earliest=earliest, latest=latest)
    return TruncatedLogError(table=store.root, version=version, first_commit=missing_to + 1)


def _widest(compactions: list[CompactedFile]) -> tuple[CompactedFile, ...]:
    """Compactions that do not overlap: of those with the same first version, the longest."""
    chosen: list[CompactedFile] = []
    for compaction in sorted(compactions, key=lambda compaction: (compaction.first, -compaction.last)):
        if not chosen or compaction.first > chosen[-1].last:
            chosen.append(compaction)
    return tuple(chosen)
