"""Commits of a table that this process has read, so that its threads and sessions read each of them once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from anabranch.log.commit_files import Commit, commit_of, read_actions
from anabranch.log.listing import CommitFile, list_log
from anabranch.protocol.actions import Action
from anabranch.storage.log_store import LogStore, StoredFile

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
