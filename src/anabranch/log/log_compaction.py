"""Writing a file that replaces several consecutive commits for readers. See "Log Compaction Files"."""

from __future__ import annotations

import dataclasses

from anabranch.errors.environment import FileMissingError
from anabranch.log.commit_files import ReconciliationKey, read_commits, reconciliation_key
from anabranch.protocol.actions import Action
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path, compacted_path
from anabranch.storage.log_store import LogStore, PutOutcome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction:
    """A compaction of the commits `first` to `last`."""

    first: int
    last: int
    path: str
    size_bytes: int
    num_actions: int
    existed: bool
    """Whether the file existed already; then it was not written."""


def write_log_compaction(store: LogStore, *, first: int, last: int) -> LogCompaction:
    """Write the compaction of two or more commits: their actions in force after `last`, see "Action Reconciliation".

    Raises `FileMissingError` where a commit is gone, `CorruptCommitError`, `StorageError`.
    """
    commits = read_commits(store, after=first - 1, upto=last)
    if len(commits) <= last - first:
        raise FileMissingError(root=store.root, path=commit_path(first + len(commits)))
    reconciled: dict[ReconciliationKey, Action] = {}
    for commit in commits:
        for action in commit.actions:
            key = reconciliation_key(action)
            if key is not None:
                # Removed first, so that actions are in the order of the commits they are from.
                reconciled.pop(key, None)
                reconciled[key] = action
    data, path = encode_actions(reconciled.values()), compacted_path(first, last)
    existed = store.put_if_absent(path, data) is PutOutcome.EXISTS
    return LogCompaction(
        first=first, last=last, path=path, size_bytes=len(data), num_actions=len(reconciled), existed=existed
    )
