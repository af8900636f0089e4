"""Commits, as read from `N.json`. See "Delta Log Entries"."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import CorruptCommitError
from anabranch.errors.protocol import MalformedActionError
from anabranch.log.listing import CommitFile, CompactedFile, list_log
from anabranch.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.protocol.actions_json import LINE_BYTES_MAX, parse_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import LogStore, StoredFile

# Actions of several commits without those that a later one supersedes. See "Action Reconciliation".


Subject = tuple[object, ...]


def subject_of(action: Action) -> Subject | None:
    """What an action is about; None for what a compaction leaves out: provenance and change data."""
    match action:
        case AddFile() | RemoveFile():
            return ("file", *action.key)
        case SetTransaction():
            return ("txn", action.app_id)
        case DomainMetadata():
            return ("domain", action.domain)
        case Metadata():
            return ("metadata",)
        case Protocol():
            return ("protocol",)
        case _:
            return None


class Doublets:
    """Looks for what shows that the actions of a file are not reconciled."""

    def __init__(self) -> None:
        self._subjects: set[Subject] = set()
        self._added: set[str] = set()

    def found_with(self, action: Action) -> str | None:
        """What the next action shows, in words. Of a path one vector is live at most, so a second add is too many."""
        subject = subject_of(action)
        if subject is not None and subject in self._subjects:
            return f"it is not reconciled: {' '.join(str(part) for part in subject if part)} is in it twice"
        if subject is not None:
            self._subjects.add(subject)
        if isinstance(action, AddFile):
            if action.path in self._added:
                return f"it is not reconciled: {action.path} is live in it under two deletion vectors"
            self._added.add(action.path)
        return None


Step = TypeVar("Step", CommitFile, CompactedFile, CommitFile | CompactedFile)

INFO_BYTES = 64 * 1024
"""Enough for the first line of nearly every commit."""
READERS = 8
"""Files read at once: enough to hide the latency of an object store."""
READ_AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""Commits are fetched ahead of their parsing only up to this size."""
PIECE_BYTES = 16 * 1024 * 1024
"""A larger commit is read and parsed by pieces of this size."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one version did."""

    version: int
    actions: tuple[Action, ...]
    info: CommitInfo | None
    timestamp_ms: int
    """The in-commit timestamp where the commit has one, else `modified_ms`."""
    modified_ms: int
    """When storage says that the file was written."""
    file: StoredFile | None = None
    """As a listing shows it; None where the actions are a part of a commit's."""


def read_commit(store: LogStore, version: int) -> Commit:
    """The commit of one version.

    Raises `FileMissingError`, `CorruptCommitError`, `StorageError`.
    """
    path = commit_path(version)
    known = store.head(path)
    if known is None:
        raise FileMissingError(root=store.root, path=path)
    commit = CommitFile(version=version, file=known)
    return _commit(commit, _streamed(store, commit))


def read_commit_info(store: LogStore, commit: CommitFile) -> CommitInfo | None:
    """The provenance of a commit, or None where it has none.

    Usually only the start of the file is read, since writers put it first. Raises `FileMissingError`,
    `CorruptCommitError`, `StorageError`.
    """
    size = commit.file.size_bytes
    if size > INFO_BYTES:
        start = store.read_range(commit.file.path, 0, INFO_BYTES)
        first_line, line_break, _ = start.partition(b"\n")
        if line_break:
            for action in decode_actions(store, commit, first_line):
                if isinstance(action, CommitInfo):
                    return action
    actions = _streamed(store, commit)
    return next((action for action in actions if isinstance(action, CommitInfo)), None)


def read_commits(store: LogStore, *, after: int, upto: int | None = None) -> list[Commit]:
    """The commits of versions `after` + 1 to `upto`, or to the newest, in order. Read in parallel.

    Stops before a version that is missing, so that the result is always without a gap.
    """
    files: list[CommitFile] = []
    for commit in list_log(store, first=after + 1, upto=upto).commits:
        if commit.version != after + 1 + len(files):
            break
        files.append(commit)
    return list(commits_of(store, files))


def commits_of(store: LogStore, files: Iterable[CommitFile]) -> Iterator[Commit]:
    """The commits in these files, in order. Raises as `read_actions`."""
    for commit, actions in read_actions(store, files):
        yield _commit(commit, actions)


def decode_actions(store: LogStore, step: CommitFile | CompactedFile, data: bytes) -> Iterator[Action]:
    """The actions of a file, one after the other. Raises `CorruptCommitError` where it is torn."""
    version = step.version if isinstance(step, CommitFile) else step.last
    if not data.strip():
        # An empty commit never happens: only a store that is not atomic leaves one. To skip it
        # would silently drop what its writer was told is durable.
        raise CorruptCommitError(table=store.root, version=version, path=step.file.path, reason="it is empty")
    try:
        yield from parse_actions(data)
    except MalformedActionError as error:
        raise CorruptCommitError(
            table=store.root, version=version, path=step.file.path, reason=error.explain()
        ) from error


def read_actions(store: LogStore, steps: Iterable[Step]) -> Iterator[tuple[Step, Iterator[Action]]]:
    """Each file with its actions, in order. The actions of one are to be taken before the next is asked for.

    Small files are fetched a few at a time, large ones in pieces, so that the memory needed does not grow
    with them. Raises `FileMissingError`, `CorruptCommitError`, `StorageError`.
    """
    remaining = iter(steps)
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-log") as pool:
        while window := list(islice(remaining, READERS * 4)):
            if len(window) == 1 or sum(step.file.size_bytes for step in window) > READ_AHEAD_BYTES_MAX:
                for step in window:
                    yield step, _believed(store, step, _streamed(store, step))
            else:
                contents = pool.map(lambda step: store.read(step.file.path), window)
                for step, data in zip(window, contents, strict=True):
                    yield step, _believed(store, step, decode_actions(store, step, data))


def _believed(store: LogStore, step: CommitFile | CompactedFile, actions: Iterator[Action]) -> Iterator[Action]:
    """The actions of a step. A compaction that another writer did not reconcile would bring back what is gone."""
    if isinstance(step, CommitFile):
        yield from actions
        return
    doublets = Doublets()
    for action in actions:
        reason = doublets.found_with(action)
        if reason is not None:
            raise CorruptCommitError(table=store.root, version=step.last, path=step.file.path, reason=reason)
        yield action


def _streamed(store: LogStore, step: CommitFile | CompactedFile) -> Iterator[Action]:
    """The actions of a file that may be too large to be held at once."""
    path, size = step.file.path, step.file.size_bytes
    if size <= PIECE_BYTES:
        yield from decode_actions(store, step, store.read(path))
        return
    begun: list[bytes] = []
    for offset in range(0, size, PIECE_BYTES):
        piece = store.read_range(path, offset, min(PIECE_BYTES, size - offset))
        # Put together only where a line ends, or a long line would be copied again with each piece of it.
        end = piece.rfind(b"\n") + 1
        if end:
            yield from _whole_lines(store, step, b"".join([*begun, piece[:end]]))
            begun = []
        begun.append(piece[end:])
        if sum(map(len, begun)) > LINE_BYTES_MAX:
            version = step.version if isinstance(step, CommitFile) else step.last
            reason = f"a line of it has more than {LINE_BYTES_MAX} bytes"
            raise CorruptCommitError(table=store.root, version=version, path=path, reason=reason)
    yield from _whole_lines(store, step, b"".join(begun))


def _whole_lines(store: LogStore, step: CommitFile | CompactedFile, data: bytes) -> Iterator[Action]:
    if data.strip():
        yield from decode_actions(store, step, data)


def _commit(commit: CommitFile, read: Iterator[Action]) -> Commit:
    actions = tuple(read)
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    in_commit = None if info is None else info.in_commit_timestamp
    return Commit(
        version=commit.version,
        actions=actions,
        info=info,
        timestamp_ms=commit.file.modified_ms if in_commit is None else in_commit,
        modified_ms=commit.file.modified_ms,
        file=commit.file,
    )
