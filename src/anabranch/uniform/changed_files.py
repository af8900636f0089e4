"""The files that changed since the version whose Iceberg metadata was published last."""

from __future__ import annotations

import dataclasses

from anabranch.log.commit_files import read_commits
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.storage.log_store import LogStore

COMMITS_MAX = 100
"""With more commits, all files are taken from the snapshot, which is cheaper than reading the commits."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFiles:
    """The files that some commits changed, as their net effect."""

    adds: tuple[AddFile, ...]
    """Files that the commits added and did not remove again, without duplicates."""
    touched: frozenset[str]
    """Paths, as in the log, of files that the commits removed, or added again with other metadata."""
    changes_data: bool

    @property
    def is_empty(self) -> bool:
        return not self.adds and not self.touched


def changes_between(store: LogStore, *, after: int, upto: int) -> ChangedFiles | None:
    """The files that the commits between two versions changed; None for too many commits, or if some were cleaned up.

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
                # A file that was added by one of these commits is in no manifest; looking for it there costs little.
                touched.add(action.path)
                added.pop(action.path, None)
                changes_data |= action.data_change
        for action in commit.actions:
            if isinstance(action, AddFile):
                if not action.data_change or action.path in added:
                    # New statistics or tags of an existing file.
                    touched.add(action.path)
                added[action.path] = action
                changes_data |= action.data_change
    return ChangedFiles(adds=tuple(added.values()), touched=frozenset(touched), changes_data=changes_data)
