"""One pass over the commits in the log: what they did, and which files they removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from anabranch.commands.vacuum.vacuum_lite import removed_entries
from anabranch.log.commit_files import Commit, commits_of
from anabranch.log.log_segment import CommitFile
from anabranch.log.time_travel import monotonic_times
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.protocol.actions import Action, AddCDCFile, CommitInfo, Metadata, Protocol, RemoveFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.table_report.commit_text import landed_after, metrics_in_words, parameters_in_words, reconciled_in_words
from anabranch.table_report.description_changes import metadata_changes, protocol_changes
from anabranch.table_report.file_change_summary import FileChangeSummary
from anabranch.table_report.report_values import CommitSummary
from anabranch.transactions.conflicts.rebase_report import LOST_TO_TAG, parsed_versions


@dataclasses.dataclass(slots=True, kw_only=True)
class Removals:
    """Files that commits removed, each field a column: data files, deletion vectors, and files of changes."""

    paths: list[str] = dataclasses.field(default_factory=list)
    """Plain, from the table's root."""
    sizes: list[int] = dataclasses.field(default_factory=list)
    times_ms: list[int] = dataclasses.field(default_factory=list)

    def add(self, action: Action, *, time_ms: int, store: LogStore) -> None:
        """Add the files that one action of a commit removes or, for changes, leaves to VACUUM."""
        for path, size_bytes, removed_ms, _ in removed_entries(action, store):
            self.paths.append(path)
            self.sizes.append(size_bytes)
            self.times_ms.append(time_ms if isinstance(action, AddCDCFile) else removed_ms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogPass:
    """What the commits of the log say."""

    commits: tuple[CommitSummary, ...]
    """Newest first."""
    removals: Removals
    vacuumed_before_ms: int | None
    """Files removed before this time were deleted by a VACUUM that was completed."""
    last_vacuum_ms: int | None


def read_log(store: LogStore, snapshot: Snapshot, commits: tuple[CommitFile, ...]) -> LogPass:
    """Read these consecutive commits, the oldest first. Raises `CorruptCommitError`, `StorageError`."""
    file_times = {time.version: time.timestamp_ms for time in monotonic_times(commits)}
    in_commit_from = _in_commit_times_from(snapshot)
    descriptions, vacuums, removals = _Descriptions(), _Vacuums(), Removals()
    summaries = []
    begin_phase("read commits", files=len(commits))
    for commit in commits_of(store, commits):
        time_ms = commit.timestamp_ms if commit.version >= in_commit_from else file_times[commit.version]
        for action in commit.actions:
            if isinstance(action, RemoveFile | AddCDCFile):
                removals.add(action, time_ms=time_ms, store=store)
        summaries.append(_summary(commit, time_ms, tuple(descriptions.changes_of(commit))))
        vacuums.note(commit.info, time_ms, retention_ms=snapshot.properties.deleted_file_retention_ms)
        add_done(files=1)
    return LogPass(
        commits=tuple(reversed(summaries)),
        removals=removals,
        vacuumed_before_ms=vacuums.deleted_before_ms,
        last_vacuum_ms=vacuums.completed_ms,
    )


def _in_commit_times_from(snapshot: Snapshot) -> int:
    """The first version whose time is the in-commit timestamp. See "In-Commit Timestamps"."""
    if not snapshot.properties.in_commit_timestamps_enabled:
        return snapshot.version + 1
    return snapshot.properties.in_commit_timestamp_enablement_version or 0


def _summary(commit: Commit, time_ms: int, description_changes: tuple[str, ...]) -> CommitSummary:
    info = commit.info or CommitInfo()
    return CommitSummary(
        version=commit.version,
        timestamp_ms=time_ms,
        operation=info.operation,
        parameters=parameters_in_words(info.operation_parameters),
        user=info.user_name or info.user_id,
        engine=info.engine_info,
        user_metadata=info.user_metadata,
        files=FileChangeSummary.of(commit.actions),
        metrics=metrics_in_words(info.operation_metrics),
        read_version=info.read_version,
        isolation_level=info.isolation_level,
        is_blind_append=info.is_blind_append,
        landed_after=landed_after(info),
        run_again_after=parsed_versions((info.tags or {}).get(LOST_TO_TAG)),
        reconciled=tuple(reconciled_in_words(info)),
        description_changes=description_changes,
    )


class _Descriptions:
    """The metadata and the protocol up to the commit that was read last."""

    def __init__(self) -> None:
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None

    def changes_of(self, commit: Commit) -> Iterator[str]:
        """The changes that the next commit makes, in words. The first description read is listed as a whole."""
        for action in commit.actions:
            if isinstance(action, Metadata):
                yield from metadata_changes(self._metadata, action)
                self._metadata = action
            elif isinstance(action, Protocol):
                yield from protocol_changes(self._protocol, action)
                self._protocol = action


class _Vacuums:
    """The VACUUMs that the commits record, with what they deleted."""

    def __init__(self) -> None:
        self._cutoff_ms: int | None = None
        self.deleted_before_ms: int | None = None
        self.completed_ms: int | None = None

    def note(self, info: CommitInfo | None, time_ms: int, *, retention_ms: int) -> None:
        """Take the next commit into account; `retention_ms` is for a VACUUM that does not record its own."""
        if info is None:
            return
        parameters = info.operation_parameters or {}
        if info.operation == "VACUUM START":
            recorded = [_whole(parameters.get(f"{kind}RetentionMillis")) for kind in ("specified", "default")]
            self._cutoff_ms = time_ms - next((ms for ms in recorded if ms is not None), retention_ms)
        elif info.operation == "VACUUM END" and parameters.get("status") == "COMPLETED":
            self.completed_ms = time_ms
            if self._cutoff_ms is not None:
                self.deleted_before_ms = max(self._cutoff_ms, self.deleted_before_ms or self._cutoff_ms)


def _whole(value: object) -> int | None:
    """A number of milliseconds, which writers record as a number or as text."""
    return int(value) if isinstance(value, int | str) and str(value).isdecimal() else None
