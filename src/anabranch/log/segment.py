"""Choosing the log files that rebuild a version. See "Delta Log Entries", "Checkpoints", "Log Compaction Files"."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

from anabranch.errors.base import DeltaError
from anabranch.errors.log import LogGapError, TableNotFoundError, TruncatedLogError, VersionNotFoundError
from anabranch.log.last_checkpoint import read_last_checkpoint
from anabranch.log.listing import CheckpointFiles, CommitFile, CompactedFile, LogListing, list_log
from anabranch.storage.log_store import LogStore, StoredFile


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
