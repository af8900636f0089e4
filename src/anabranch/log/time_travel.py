"""Finding the version that was current at a time. See "In-Commit Timestamps"."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence

from anabranch.errors.log import (
    MissingInCommitTimestampError,
    TableNotFoundError,
    TimestampAfterLatestCommitError,
    TimestampEarlierThanFirstCommitError,
)
from anabranch.log.commit_files import read_commit_info
from anabranch.log.log_segment import CommitFile, list_log
from anabranch.protocol.properties import TableProperties
from anabranch.storage.log_store import LogStore


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitTime:
    """A version and the time of its commit."""

    version: int
    timestamp_ms: int


def monotonic_times(commits: Sequence[CommitFile]) -> list[CommitTime]:
    """The times of the files, which as in Delta are moved after the previous one where a clock ran backwards."""
    times: list[CommitTime] = []
    for commit in commits:
        time_ms = commit.file.modified_ms
        if times and time_ms <= times[-1].timestamp_ms:
            time_ms = times[-1].timestamp_ms + 1
        times.append(CommitTime(version=commit.version, timestamp_ms=time_ms))
    return times


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimestampSearch:
    """A search for a version by time, usually among the commits that can be rebuilt."""

    store: LogStore
    commits: tuple[CommitFile, ...]
    """Consecutive commits, starting with the oldest that can be rebuilt."""
    latest: CommitTime
    in_commit_from: int
    """The first version with an in-commit timestamp; one after the last where there are none."""
    in_commit_from_ms: int | None
    """The time of that version, where the table's properties have it."""

    @classmethod
    def of(
        cls, store: LogStore, *, latest_version: int, latest_timestamp_ms: int, properties: TableProperties
    ) -> TimestampSearch:
        """A search among the commits of the log. Raises `TableNotFoundError` where no version can be rebuilt."""
        listing = list_log(store, first=0, upto=latest_version)
        earliest = listing.earliest_recreatable_version()
        commits = tuple(commit for commit in listing.commits if commit.version >= earliest)
        if not commits:
            raise TableNotFoundError(table=store.root)
        return cls.among(
            store,
            commits,
            latest_version=latest_version,
            latest_timestamp_ms=latest_timestamp_ms,
            properties=properties,
        )

    @classmethod
    def among(
        cls,
        store: LogStore,
        commits: tuple[CommitFile, ...],
        *,
        latest_version: int,
        latest_timestamp_ms: int,
        properties: TableProperties,
    ) -> TimestampSearch:
        """A search among these commits, consecutive and at least one; `properties` are those of `latest_version`."""
        in_commit_from, in_commit_from_ms = latest_version + 1, None
        if properties.in_commit_timestamps_enabled:
            in_commit_from = properties.in_commit_timestamp_enablement_version or 0
            in_commit_from_ms = properties.in_commit_timestamp_enablement_timestamp_ms
        return cls(
            store=store,
            commits=commits,
            latest=CommitTime(version=latest_version, timestamp_ms=latest_timestamp_ms),
            in_commit_from=in_commit_from,
            in_commit_from_ms=in_commit_from_ms,
        )

    def version_at(
        self, timestamp_ms: int, *, can_return_last: bool = False, can_return_earliest: bool = False
    ) -> CommitTime:
        """The newest commit at or before `timestamp_ms`.

        Raises `TimestampEarlierThanFirstCommitError`, `TimestampAfterLatestCommitError`.
        """
        commit = self._newest_at(timestamp_ms)
        table = self.store.root
        if commit.timestamp_ms > timestamp_ms and not can_return_earliest:
            raise TimestampEarlierThanFirstCommitError(
                table=table,
                timestamp_ms=timestamp_ms,
                earliest_version=commit.version,
                earliest_timestamp_ms=commit.timestamp_ms,
            )
        if commit.version == self.latest.version and commit.timestamp_ms < timestamp_ms and not can_return_last:
            raise TimestampAfterLatestCommitError(
                table=table,
                timestamp_ms=timestamp_ms,
                latest_version=commit.version,
                latest_timestamp_ms=commit.timestamp_ms,
            )
        return commit

    def _newest_at(self, timestamp_ms: int) -> CommitTime:
        """The newest commit at or before the time, or the oldest where there is none."""
        with_timestamp = [commit for commit in self.commits if commit.version >= self.in_commit_from]
        without_timestamp = [commit for commit in self.commits if commit.version < self.in_commit_from]
        if with_timestamp:
            if self.latest.timestamp_ms <= timestamp_ms:
                return self.latest
            enabled_ms = self.in_commit_from_ms if without_timestamp and self.in_commit_from_ms is not None else None
            if enabled_ms is None:
                enabled_ms = self._in_commit_time(with_timestamp[0])
            if timestamp_ms >= enabled_ms or not without_timestamp:
                return self._search_in_commit_times(with_timestamp, timestamp_ms)
        times = monotonic_times(without_timestamp)
        after = bisect.bisect_right([time.timestamp_ms for time in times], timestamp_ms)
        return times[max(after - 1, 0)]

    def _search_in_commit_times(self, commits: list[CommitFile], timestamp_ms: int) -> CommitTime:
        """The newest commit at or before the time; few are read, since in-commit timestamps ascend."""
        after = bisect.bisect_right(commits, timestamp_ms, key=self._in_commit_time)
        commit = commits[max(after - 1, 0)]
        return CommitTime(version=commit.version, timestamp_ms=self._in_commit_time(commit))

    def _in_commit_time(self, commit: CommitFile) -> int:
        info = read_commit_info(self.store, commit)
        if info is None or info.in_commit_timestamp is None:
            raise MissingInCommitTimestampError(table=self.store.root, version=commit.version)
        return info.in_commit_timestamp
