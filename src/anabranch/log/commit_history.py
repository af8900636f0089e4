"""The history of a table: the provenance of its commits. See "Commit Provenance Information"."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import MissingInCommitTimestampError
from anabranch.log.commit_files import READERS, read_commit_info
from anabranch.log.log_segment import CommitFile, list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.actions import CommitInfo
from anabranch.protocol.properties import TableProperties
from anabranch.storage.log_store import LogStore


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """The time and the provenance of a commit."""

    version: int
    timestamp_ms: int
    """The in-commit timestamp where the table has them, else the time of the file, made to ascend."""
    info: CommitInfo | None
    """None where the commit has no provenance."""


def read_history(
    store: LogStore, *, upto: int, properties: TableProperties, limit: int | None = None
) -> list[HistoryEntry]:
    """The commits that still exist, newest first, at most `limit`. `properties` are those of version `upto`.

    Raises `CorruptCommitError`, `MissingInCommitTimestampError`, `StorageError`.
    """
    if limit is not None and limit < 1:
        return []
    commits = list_log(store, first=0, upto=upto).commits
    times = {time.version: time.timestamp_ms for time in monotonic_times(commits)}
    wanted = list(reversed(commits))[:limit]
    in_commit_from = upto + 1
    if properties.in_commit_timestamps_enabled:
        in_commit_from = properties.in_commit_timestamp_enablement_version or 0
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-history") as pool:
        infos = list(pool.map(lambda commit: _info(store, commit), wanted))
    entries = []
    for commit, (exists, info) in zip(wanted, infos, strict=True):
        if not exists:
            continue
        time_ms = times[commit.version]
        if commit.version >= in_commit_from:
            if info is None or info.in_commit_timestamp is None:
                raise MissingInCommitTimestampError(table=store.root, version=commit.version)
            time_ms = info.in_commit_timestamp
        entries.append(HistoryEntry(version=commit.version, timestamp_ms=time_ms, info=info))
    return entries


def _info(store: LogStore, commit: CommitFile) -> tuple[bool, CommitInfo | None]:
    """Whether the commit still exists, and its provenance. Log cleanup may have deleted it since it was listed."""
    try:
        return True, read_commit_info(store, commit)
    except FileMissingError:
        return False, None
