"""Writing a file that stands for several commits in a row. See "Log Compaction Files"."""

from __future__ import annotations

import dataclasses

from anabranch.errors.environment import FileMissingError
from anabranch.log.commit_files import Subject, read_commits, subject_of
from anabranch.protocol.actions import Action
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path, compacted_path
from anabranch.storage.log_store import LogStore, PutOutcome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction:
    """What stands for the commits of `first` to `last`."""

    first: int
    last: int
    path: str
    size_bytes: int
    num_actions: int
    was_there: bool
    """Somebody has written it before; it is left as it is."""


def write_log_compaction(store: LogStore, *, first: int, last: int) -> LogCompaction:
    """Write it, of two commits or more. It says what is left of them: see "Action Reconciliation".

    Raises `FileMissingError` where a commit is gone, `CorruptCommitError`, `StorageError`.
    """
    commits = read_commits(store, after=first - 1, upto=last)
    if len(commits) <= last - first:
        raise FileMissingError(root=store.root, path=commit_path(first + len(commits)))
    left: dict[Subject, Action] = {}
    for commit in commits:
        for action in commit.actions:
            subject = subject_of(action)
            if subject is not None:
                # Where it came last, so that what it is about is in the order of the commits.
                left.pop(subject, None)
                left[subject] = action
    data, path = encode_actions(left.values()), compacted_path(first, last)
    was_there = store.put_if_absent(path, data) is PutOutcome.EXISTS
    return LogCompaction(
        first=first, last=last, path=path, size_bytes=len(data), num_actions=len(left), was_there=was_there
    )
