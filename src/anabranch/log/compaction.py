"""Several commits in one file, so that readers open fewer. See "Log Compaction Files"."""

from __future__ import annotations

from anabranch.errors.log import LogGapError
from anabranch.log.commits import read_actions
from anabranch.log.listing import list_log
from anabranch.log.reconciled import reconciled
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import compacted_path
from anabranch.storage.log_store import LogStore, PutOutcome


def write_compaction(store: LogStore, *, first: int, last: int) -> PutOutcome:
    """Write `first.last.compacted.json` from the commits, unless there is one.

    Raises `LogGapError` where a commit is missing, `CorruptCommitError`, `StorageError`.
    """
    if not 0 <= first < last:
        raise ValueError(f"a compaction covers at least two versions, not {first} to {last}")
    commits = list_log(store, first=first, upto=last).commits
    present = {commit.version for commit in commits}
    missing = next((version for version in range(first, last + 1) if version not in present), None)
    if missing is not None:
        raise LogGapError(table=store.root, version=last, missing_from=missing, missing_to=missing)
    actions = (action for _, actions_of_one in read_actions(store, commits) for action in actions_of_one)
    return store.put_if_absent(compacted_path(first, last), encode_actions(reconciled(actions)))
