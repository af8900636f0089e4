"""What a listing of `_delta_log` shows, sorted by what the files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from anabranch.protocol.log_paths import LOG_DIRECTORY, LogFileKind, LogPath, parse_log_path, version_prefix
from anabranch.storage.log_store import LogStore, StoredFile

CHECKPOINT_PARTS_MAX = 10_000
"""A checkpoint that claims more parts is ignored as incomplete."""

NamedFile = tuple[LogPath, StoredFile]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitFile:
    """`N.json`."""

    version: int
    file: StoredFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """`x.y.compacted.json`, for versions `first` to `last`, both covered."""

    first: int
    last: int
    file: StoredFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """One complete checkpoint: all its parts, in order. Sidecars are named inside."""

    version: int
    kind: LogFileKind
    files: tuple[StoredFile, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """Commits by version; complete checkpoints, the preferred ones last; the rest by name."""

    commits: tuple[CommitFile, ...]
    checkpoints: tuple[CheckpointFiles, ...]
    compactions: tuple[CompactedFile, ...]

    @property
    def latest_version(self) -> int | None:
        """The newest version that a commit or a checkpoint speaks of."""
        versions = [commit.version for commit in self.commits[-1:]] + [one.version for one in self.checkpoints[-1:]]
        return max(versions, default=None)

    def newest_checkpoint(self, unusable: frozenset[str] = frozenset()) -> CheckpointFiles | None:
        """The newest complete checkpoint none of whose files is `unusable`."""
        for checkpoint in reversed(self.checkpoints):
            if not any(file.path in unusable for file in checkpoint.files):
                return checkpoint
        return None

    def earliest_recreatable_version(self) -> int:
        """The oldest version that this listing, if it is of the whole log, can rebuild."""
        if self.commits and self.commits[0].version == 0:
            return 0
        if self.checkpoints:
            return self.checkpoints[0].version
        return self.commits[0].version if self.commits else 0


def list_log(store: LogStore, *, first: int, upto: int | None) -> LogListing:
    """The log files of versions `first` to `upto`; a compaction counts where all it covers is within."""
    return sorted_listing(list_named(store, first=first, upto=upto), upto=upto)


def list_named(store: LogStore, *, first: int, upto: int | None) -> Iterator[NamedFile]:
    """The files whose names begin with a version from `first` to `upto`, by name."""
    for file in store.list_from(LOG_DIRECTORY, start_after=version_prefix(first)):
        name = parse_log_path(file.path.rpartition("/")[2])
        if name is None:
            continue
        if upto is not None and name.version > upto:
            return
        yield name, file


def sorted_listing(named: Iterable[NamedFile], *, upto: int | None) -> LogListing:
    """What was listed of the log, sorted by what the files are; with `upto`, as it was at that version."""
    commits: list[CommitFile] = []
    compactions: list[CompactedFile] = []
    candidates: list[NamedFile] = []
    for name, file in named:
        if upto is not None and name.version > upto:
            continue
        if name.kind is LogFileKind.COMMIT:
            commits.append(CommitFile(version=name.version, file=file))
        elif name.kind.is_checkpoint and file.size_bytes > 0:
            candidates.append((name, file))
        elif name.end_version is not None and (upto is None or name.end_version <= upto):
            compactions.append(CompactedFile(first=name.version, last=name.end_version, file=file))
    return LogListing(
        commits=tuple(commits),
        checkpoints=tuple(_complete_checkpoints(candidates)),
        compactions=tuple(compactions),
    )


def consecutive(commits: tuple[CommitFile, ...]) -> tuple[CommitFile, ...]:
    """The last run without a gap: before it, a clean-up of the log was stopped half-way."""
    first = max(len(commits) - 1, 0)
    while first > 0 and commits[first - 1].version + 1 == commits[first].version:
        first -= 1
    return commits[first:]


def _complete_checkpoints(candidates: list[NamedFile]) -> list[CheckpointFiles]:
    """See "Multi-part checkpoint": one with missing parts is ignored."""
    groups: dict[tuple[int, int, str], list[NamedFile]] = {}
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
