"""Which files came and went since the version that was converted last."""

from __future__ import annotations

import dataclasses

from anabranch.log.commits import read_commits
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.storage.log_store import LogStore

COMMITS_MAX = 100
"""More are not worth reading: the snapshot has all files at once."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The net effect of some commits."""

    adds: tuple[AddFile, ...]
    """Files that are there now and were added meanwhile, each once."""
    touched: frozenset[str]
    """Paths, as in the log, of files that may have been there before and are not any more as they were."""
    changes_data: bool

    @property
    def is_empty(self) -> bool:
        return not self.adds and not self.touched


def changes_between(store: LogStore, *, after: int, upto: int) -> FileChanges | None:
    """What the commits between two versions did; None where they are too many, or not all there any more.

    Raises `CorruptCommitError`, `StorageError`.
    """
    if upto - after > COMMITS_MAX:
        return None
    commits = read_commits(store, after=after, upto=upto)
    if len(commits) != upto - after:
        return None
    added: dict[str, AddFile] = {}
    touched: set[str] = set()
    changes_data = False
    for commit in commits:
        for action in commit.actions:
            if isinstance(action, RemoveFile):
                # A file that came and went meanwhile is in no manifest; looking for it there costs little.
                touched.add(action.path)
                added.pop(action.path, None)
                changes_data |= action.data_change
        for action in commit.actions:
            if isinstance(action, AddFile):
                if not action.data_change or action.path in added:
                    # Statistics or tags of a file that is there.
                    touched.add(action.path)
                added[action.path] = action
                changes_data |= action.data_change
    return FileChanges(adds=tuple(added.values()), touched=frozenset(touched), changes_data=changes_data)
