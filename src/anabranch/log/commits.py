"""Commits, as read from `N.json`. See "Delta Log Entries"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from anabranch.errors.log import CorruptCommitError
from anabranch.errors.protocol import MalformedActionError
from anabranch.errors.storage import FileMissingError
from anabranch.log.listing import CommitFile, CompactedFile, list_log
from anabranch.protocol.actions import Action, CommitInfo
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import LogStore, StoredFile

Step = TypeVar("Step")

INFO_BYTES = 64 * 1024
"""Enough for the first line of nearly every commit."""
READERS = 8
"""Files read at once: enough to hide the latency of an object store."""
READ_AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""Commits are fetched ahead of their parsing only up to this size."""


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


def read_commit(store: LogStore, version: int, *, file: StoredFile | None = None) -> Commit:
    """The commit of one version. `file` saves asking storage for its time.

    Raises `FileMissingError`, `CorruptCommitError`, `StorageError`.
    """
    path = commit_path(version)
    known = file or store.head(path)
    if known is None:
        raise FileMissingError(root=store.root, path=path)
    return _commit(store, CommitFile(version=version, file=known), store.read(path))


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
    actions = decode_actions(store, commit, store.read(commit.file.path))
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
    return [_commit(store, commit, data) for commit, data in read_ahead(store, files, lambda commit: commit.file)]


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


def read_ahead(
    store: LogStore, steps: Iterable[Step], file_of: Callable[[Step], StoredFile]
) -> Iterator[tuple[Step, bytes]]:
    """Each step with the content of its file, in order; small files are fetched a few at a time."""
    remaining = iter(steps)
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-log") as pool:
        while window := list(islice(remaining, READERS * 4)):
            if len(window) == 1 or sum(file_of(step).size_bytes for step in window) > READ_AHEAD_BYTES_MAX:
                for step in window:
                    yield step, store.read(file_of(step).path)
            else:
                contents = pool.map(lambda step: store.read(file_of(step).path), window)
                yield from zip(window, contents, strict=True)


def _commit(store: LogStore, commit: CommitFile, data: bytes) -> Commit:
    actions = tuple(decode_actions(store, commit, data))
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    in_commit = None if info is None else info.in_commit_timestamp
    return Commit(
        version=commit.version,
        actions=actions,
        info=info,
        timestamp_ms=commit.file.modified_ms if in_commit is None else in_commit,
        modified_ms=commit.file.modified_ms,
    )
