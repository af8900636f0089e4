"""Reading commits from `N.json`, and keeping the last ones for other threads. See "Delta Log Entries"."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import CorruptCommitError
from anabranch.errors.protocol import MalformedActionError
from anabranch.log.log_segment import CommitFile, CompactedFile, list_log
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
from anabranch.storage.log_store import LogStore, StoredFile, read_in_turn, read_whole

# Keys of actions: a later action supersedes an earlier one with the same key. See "Action Reconciliation".


ReconciliationKey = tuple[object, ...]


def reconciliation_key(action: Action) -> ReconciliationKey | None:
    """The key of an action; None for provenance and change data, which a compaction leaves out."""
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


class DuplicateCheck:
    """Checks that the actions of a compaction are reconciled."""

    def __init__(self) -> None:
        self._keys: set[ReconciliationKey] = set()
        self._added: set[str] = set()

    def fault_with(self, action: Action) -> str | None:
        """Why the compaction is not reconciled, judging by its next action; None if it may be.

        A path is live with one deletion vector at most, so a second `add` of it is a fault, too.
        """
        key = reconciliation_key(action)
        if key is not None and key in self._keys:
            return f"it is not reconciled: {' '.join(str(part) for part in key if part)} is in it twice"
        if key is not None:
            self._keys.add(key)
        if isinstance(action, AddFile):
            if action.path in self._added:
                return f"it is not reconciled: {action.path} is live in it under two deletion vectors"
            self._added.add(action.path)
        return None


Step = TypeVar("Step", CommitFile, CompactedFile, CommitFile | CompactedFile)

INFO_BYTES = 64 * 1024
"""Bytes read for provenance: enough for the first line of nearly every commit."""
READERS = 8
"""Files read in parallel: enough to hide the latency of an object store."""
READ_AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""Commits are fetched before they are needed only up to this total size."""
PIECE_BYTES = 16 * 1024 * 1024
"""A larger commit is read and parsed in pieces of this size."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: its actions and its time."""

    version: int
    actions: tuple[Action, ...]
    info: CommitInfo | None
    timestamp_ms: int
    """The in-commit timestamp where the commit has one, else `modified_ms`."""
    modified_ms: int
    """The modification time of the file in storage."""
    file: StoredFile | None = None
    """The file as listed; None where `actions` are only some of those of a commit."""


def read_commit(store: LogStore, version: int) -> Commit:
    """The commit of one version.

    Raises `FileMissingError`, `CorruptCommitError`, `StorageError`.
    """
    path = commit_path(version)
    file = store.head(path)
    if file is None:
        raise FileMissingError(root=store.root, path=path)
    commit = CommitFile(version=version, file=file)
    return commit_of(commit, _streamed(store, commit))


def read_commit_info(store: LogStore, commit: CommitFile) -> CommitInfo | None:
    """The `commitInfo` of a commit, or None where it has none.

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
    """The commits of versions `after` + 1 to `upto`, or to the newest, in order. They are read in parallel.

    It stops before a missing version, so that the result never has a gap.
    """
    files: list[CommitFile] = []
    for commit in list_log(store, first=after + 1, upto=upto).commits:
        if commit.version != after + 1 + len(files):
            break
        files.append(commit)
    return list(commits_of(store, files))


def commits_of(store: LogStore, files: Iterable[CommitFile]) -> Iterator[Commit]:
    """The commits in these files, in order. Raises the errors of `read_actions`."""
    for commit, actions in read_actions(store, files):
        yield commit_of(commit, actions)


def decode_actions(store: LogStore, step: CommitFile | CompactedFile, data: bytes) -> Iterator[Action]:
    """The actions in the content of a file, in order. Raises `CorruptCommitError` where it is empty or cut off."""
    version = step.version if isinstance(step, CommitFile) else step.last
    if not data.strip():
        # No writer commits an empty file: only a store that is not atomic leaves one. Skipping it would
        # silently lose a commit whose writer got a success.
        raise CorruptCommitError(table=store.root, version=version, path=step.file.path, reason="it is empty")
    try:
        yield from parse_actions(data)
    except MalformedActionError as error:
        raise CorruptCommitError(
            table=store.root, version=version, path=step.file.path, reason=error.explain()
        ) from error


def read_actions(store: LogStore, steps: Iterable[Step]) -> Iterator[tuple[Step, Iterator[Action]]]:
    """Pairs of a file and its actions, in order. Consume the actions of a file before advancing to the next one.

    Small files are fetched a few at a time, large ones in pieces, so that the memory needed is bounded.

    Raises `FileMissingError`, `CorruptCommitError`, `StorageError`.
    """
    remaining = iter(steps)
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-log") as pool:
        while window := list(islice(remaining, READERS * 4)):
            if len(window) == 1 or sum(step.file.size_bytes for step in window) > READ_AHEAD_BYTES_MAX:
                for step in window:
                    yield step, _checked(store, step, _streamed(store, step))
            else:
                contents = read_in_turn(store, [step.file for step in window])
                contents += pool.map(lambda step: read_whole(store, step.file), window[len(contents) :])
                for step, data in zip(window, contents, strict=True):
                    yield step, _checked(store, step, decode_actions(store, step, data))


def _checked(store: LogStore, step: CommitFile | CompactedFile, actions: Iterator[Action]) -> Iterator[Action]:
    """The actions of a step, checked: a compaction that is not reconciled would bring back removed files."""
    if isinstance(step, CommitFile):
        yield from actions
        return
    duplicates = DuplicateCheck()
    for action in actions:
        reason = duplicates.fault_with(action)
        if reason is not None:
            raise CorruptCommitError(table=store.root, version=step.last, path=step.file.path, reason=reason)
        yield action


def _streamed(store: LogStore, step: CommitFile | CompactedFile) -> Iterator[Action]:
    """The actions of a file that may be too large for memory."""
    path, size = step.file.path, step.file.size_bytes
    if size <= PIECE_BYTES:
        yield from decode_actions(store, step, read_whole(store, step.file))
        return
    unfinished: list[bytes] = []
    for offset in range(0, size, PIECE_BYTES):
        piece = store.read_range(path, offset, min(PIECE_BYTES, size - offset))
        # Pieces are joined only where a line ends; otherwise a long line would be copied again for each of its pieces.
        end = piece.rfind(b"\n") + 1
        if end:
            yield from _whole_lines(store, step, b"".join([*unfinished, piece[:end]]))
            unfinished = []
        unfinished.append(piece[end:])
        if sum(map(len, unfinished)) > LINE_BYTES_MAX:
            version = step.version if isinstance(step, CommitFile) else step.last
            reason = f"a line of it has more than {LINE_BYTES_MAX} bytes"
            raise CorruptCommitError(table=store.root, version=version, path=path, reason=reason)
    yield from _whole_lines(store, step, b"".join(unfinished))


def _whole_lines(store: LogStore, step: CommitFile | CompactedFile, data: bytes) -> Iterator[Action]:
    if data.strip():
        yield from decode_actions(store, step, data)


def commit_of(commit: CommitFile, decoded: Iterable[Action]) -> Commit:
    """The commit with these actions."""
    actions = tuple(decoded)
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


COMMITS_MAX = 256
"""Enough for writers that wait for one another; a reader that is further behind reads the files."""
KEPT_BYTES_MAX = 8 * 1024 * 1024
COMMIT_BYTES_MAX = 256 * 1024
"""A larger commit is not kept: reading it takes longer than the request."""


class RecentCommits:
    """The last commits that were read, by their files as listed. It is thread-safe.

    A commit is returned only for a file with the same name, size and time, by which a snapshot, too, knows that the log
    continues it. So a table that was dropped and created again is read again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commits: OrderedDict[StoredFile, Commit] = OrderedDict()
        self._size_bytes = 0

    def get(self, file: StoredFile) -> Commit | None:
        """The commit in this file; None where it is not kept."""
        with self._lock:
            return self._commits.get(file)

    def keep(self, commit: Commit) -> None:
        """Keep the commit, and let go of the oldest."""
        file = commit.file
        if file is None or file.size_bytes > COMMIT_BYTES_MAX:
            return
        with self._lock:
            if file in self._commits:
                return
            self._commits[file] = commit
            self._size_bytes += file.size_bytes
            while len(self._commits) > COMMITS_MAX or self._size_bytes > KEPT_BYTES_MAX:
                oldest, _ = self._commits.popitem(last=False)
                self._size_bytes -= oldest.size_bytes

    def read_actions(
        self, store: LogStore, files: Sequence[CommitFile]
    ) -> Iterator[tuple[CommitFile, Iterable[Action]]]:
        """Pairs of a commit file and its actions, in order, as `log.commit_files.read_actions` returns them."""
        kept = {file.version: commit for file in files if (commit := self.get(file.file)) is not None}
        others = read_actions(store, [file for file in files if file.version not in kept])
        for file in files:
            if file.version in kept:
                yield file, kept[file.version].actions
                continue
            _, actions = next(others)
            if file.file.size_bytes > COMMIT_BYTES_MAX:
                yield file, actions
                continue
            commit = commit_of(file, actions)
            self.keep(commit)
            yield file, commit.actions

    def read_commits(self, store: LogStore, *, after: int) -> list[Commit]:
        """The commits after the version `after`, to the newest, in order, by one listing.

        It stops before a missing version, so that the result never has a gap. Raises the errors of `read_actions`.
        """
        files: list[CommitFile] = []
        for file in list_log(store, first=after + 1, upto=None).commits:
            if file.version != after + 1 + len(files):
                break
            files.append(file)
        return [self.get(file.file) or commit_of(file, actions) for file, actions in self.read_actions(store, files)]
