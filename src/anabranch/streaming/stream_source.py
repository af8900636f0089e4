"""A table as the source of a stream: the next position, and the files between two positions.

Nothing here runs Spark. A stream begins with all files of the newest version at its start, or where its options say,
and continues commit by commit. The files between two positions never change, so that a batch can be read again.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator

from anabranch.change_feed.feed_range import FeedBound, resolve_range
from anabranch.change_feed.schema_compatibility import removes_rows_of_old_columns
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import LogError, TableNotFoundError, VersionNotFoundError
from anabranch.errors.streaming import (
    StreamedCommitMissingError,
    StreamedSnapshotGoneError,
    StreamedTableReplacedError,
)
from anabranch.log.commit_files import Commit
from anabranch.log.log_segment import list_log
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import Metadata, Protocol
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.streaming.admission import Admission
from anabranch.streaming.schema_tracking import SchemaTracking, described_in
from anabranch.streaming.source_files import BatchPart, VersionFiles, snapshot_files
from anabranch.streaming.source_log import commits_from
from anabranch.streaming.source_offset import (
    BASE_INDEX,
    METADATA_CHANGE_INDEX,
    METADATA_CHANGED_INDEX,
    SourceOffset,
    parse_offset,
)
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.source_rules import StreamColumns, check_recorded, files_of_commit

FILES_KEPT_MAX = 100_000
"""How many files of commits are cached between the planning of a batch and its reading."""
COMMITS_COUNTED_MAX = 1_000
"""How many commits after a batch are read to count how far the stream lags behind."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """Files that no batch had when the last one was planned. For a long log the numbers are lower bounds."""

    files: int
    size_bytes: int


class StreamSource:
    """One run of one query. Spark calls it from one thread at a time."""

    def __init__(
        self,
        snapshots: SnapshotCache,
        *,
        table: str,
        snapshot: Snapshot,
        options: SourceOptions,
        to_milliseconds: Callable[[str], int],
        allows_out_of_range: bool = False,
        tracking: SchemaTracking | None = None,
    ) -> None:
        """`table` is the name in messages, `snapshot` the newest version at the start.

        All rows have its columns or, with `tracking`, those of the schema log. `to_milliseconds` reads
        `startingTimestamp`; with `allows_out_of_range` it may be after the newest commit.
        """
        self.snapshot = snapshot
        self.read_snapshot = snapshot if tracking is None else tracking.read_snapshot
        """`snapshot` with the columns of all rows."""
        self.options = options
        self._snapshots = snapshots
        self._table = table
        self._to_milliseconds = to_milliseconds
        self._allows_out_of_range = allows_out_of_range
        self._columns = StreamColumns(
            metadata=self.read_snapshot.metadata, version=snapshot.version, table=table, has_start=options.has_start
        )
        self._tracking = tracking
        self._start_checked = False
        self._is_available_now = False
        self._bound: SourceOffset | None = None
        self._planned: SourceOffset | None = None
        self._latest_version = snapshot.version
        self._initial: VersionFiles | None = None
        self._kept: OrderedDict[int, VersionFiles] = OrderedDict()
        self._kept_count = 0

        if options.read_change_feed:
            check_recorded(self.read_snapshot.metadata, snapshot.version, table=table)

    def prepare_for_available_now(self) -> None:
        """Have the query end with the version that is the newest when it first requests a position."""
        self._is_available_now = True

    def latest_offset(self, start: str | None, *, is_limited: bool = True) -> str | None:
        """The end of the next batch after `start`; `start` itself where nothing is new.

        None at the start of a stream where there is nothing to read. Raises the errors of `errors.streaming`,
        `VersionNotFoundError`, `TimestampAfterLatestCommitError`, `TableNotFoundError`, `StreamedMetadataEvolvedError`.
        """
        self._check_table()
        begin = None if start is None else self._parsed(start)
        waiting = None if begin is None else self._after_change(begin)
        if waiting is not None:
            self._planned = waiting
            return waiting.to_json()
        if self._is_available_now and self._bound is None:
            self._bound = self._planned_upto(begin, Admission(files_max=None, bytes_max=None))
        limits = (self.options.files_max, self.options.bytes_max) if is_limited else (None, None)
        self._planned = self._planned_upto(begin, Admission(files_max=limits[0], bytes_max=limits[1]))
        return None if self._planned is None else self._planned.to_json()

    def batch(self, start: str | None, end: str) -> list[BatchPart]:
        """The files after `start` up to `end`, in order. The same two positions always have the same rows.

        Raises the errors of `errors.streaming`.
        """
        stop = self._parsed(end)
        begin = self._start_of_first(stop) if start is None else self._parsed(start)
        if begin == stop:
            return []
        self._begin_tracking(begin.version, upto=_last_version(stop))
        if not begin.is_initial_snapshot:
            self._initial = None
        self._forget_before(begin.version)
        self._check_start(begin)
        parts = []
        seen = begin.version - 1
        for files in self._versions(begin, upto=_last_version(stop)):
            seen = files.version
            first, behind = files.first_after(begin.version, begin.index), files.count_upto(stop.version, stop.index)
            if first < behind:
                parts.append(BatchPart(files=files, first=first, end=behind))
        if seen < _last_version(stop) and self.options.fail_on_data_loss:
            raise StreamedCommitMissingError(table=self._table, version=_last_version(stop), seen=seen)
        return parts

    def commit(self, end: str) -> None:
        """Record that the batch up to `end` is done. If it ends at a change of columns, these go into the schema log.

        Raises `StreamedMetadataEvolvedError`.
        """
        position = self._parsed(end)
        if self._tracks is not None and position.index in {METADATA_CHANGE_INDEX, METADATA_CHANGED_INDEX}:
            self._tracks.evolve(*self._described_at(position.version), position.version)

    @property
    def tracks(self) -> bool:
        """Whether `commit` has to be called."""
        return self._tracking is not None

    def outstanding(self) -> Outstanding | None:
        """How far the stream lags behind the table; None before a batch was planned."""
        if self._planned is None:
            return None
        files, size_bytes = 0, 0
        try:
            for number, version in enumerate(self._versions(self._planned, upto=self._latest_version)):
                left = version.sizes[version.first_after(self._planned.version, self._planned.index) :]
                files, size_bytes = files + len(left), size_bytes + int(left.sum())
                if number >= COMMITS_COUNTED_MAX or self._kept_count >= FILES_KEPT_MAX:
                    break
        except DeltaError:
            # A commit that the stream cannot read past raises its error when the stream reaches it.
            pass
        return Outstanding(files=files, size_bytes=size_bytes)

    def _check_table(self) -> None:
        """Raises `StreamedTableReplacedError` where the table is not the one that the stream began with."""
        latest = self._snapshots.latest()
        if latest.metadata.id != self.snapshot.metadata.id:
            id_read = self.snapshot.metadata.id
            raise StreamedTableReplacedError(table=self._table, id_read=id_read, id_found=latest.metadata.id)
        self._latest_version = latest.version

    def _planned_upto(self, position: SourceOffset | None, admission: Admission) -> SourceOffset | None:
        begin = self._start() if position is None else position
        if position is None:
            self._begin_tracking(begin.version)
        if position is None and self.options.starts_latest:
            # The checkpoint needs the first position: on a restart, "latest" would be another version.
            return begin
        self._check_start(begin)
        reached, bound = position, self._bound
        upto = self._latest_version if bound is None else _last_version(bound)
        for files in self._versions(begin, upto=upto):
            if files.changes_metadata and (begin.version, begin.index) < (files.version, METADATA_CHANGE_INDEX):
                return self._offset(files.version, METADATA_CHANGE_INDEX)
            first = files.first_after(begin.version, begin.index)
            behind = len(files.sizes) if bound is None else files.count_upto(bound.version, bound.index)
            is_whole = files.is_whole or (files.is_snapshot and self.options.event_time_order)
            taken = admission.admit(files.sizes[first:behind], whole=is_whole)
            if first + taken == len(files.sizes):
                reached = self._offset(files.version + 1)
                continue
            if taken:
                reached = self._offset(files.version, first + taken - 1, is_initial_snapshot=files.is_snapshot)
            break
        return reached

    def _start(self) -> SourceOffset:
        """The first position of a stream without a checkpoint."""
        options = self.options
        if options.starts_latest:
            return self._offset(self._latest_version + 1)
        if options.starting_version is not None:
            self._check_exists(options.starting_version)
            return self._offset(options.starting_version)
        if options.starting_timestamp is not None:
            return self._offset(self._version_since(options.starting_timestamp))
        return self._offset(self.snapshot.version, is_initial_snapshot=True)

    def _start_of_first(self, end: SourceOffset) -> SourceOffset:
        """The start of the first batch, which the checkpoint does not have. It follows from the options and the end."""
        if self.options.starts_latest:
            return end
        if self.options.has_start:
            return self._start()
        version = end.version if end.is_initial_snapshot else end.version - 1
        return self._offset(version, is_initial_snapshot=True)

    def _check_exists(self, version: int) -> None:
        if version <= self._latest_version:
            commits = list_log(self._snapshots.store, first=version, upto=version).commits
            if commits:
                return
        elif self._allows_out_of_range:
            return
        earliest = next(iter(list_log(self._snapshots.store, first=0, upto=None).commits)).version
        raise VersionNotFoundError(table=self._table, version=version, earliest=earliest, latest=self._latest_version)

    def _version_since(self, timestamp: str) -> int:
        latest = self._snapshots.latest()
        search = TimestampSearch.of(
            self._snapshots.store,
            latest_version=latest.version,
            latest_timestamp_ms=latest.timestamp_ms,
            properties=latest.properties,
        )
        bound = FeedBound(timestamp_ms=self._to_milliseconds(timestamp))
        versions = resolve_range(bound, None, search, allows_out_of_range=self._allows_out_of_range)
        return latest.version + 1 if versions is None else versions.start

    # The schema log.

    @property
    def _tracks(self) -> SchemaTracking | None:
        """The tracking; None without one, and while its log is empty."""
        return self._tracking if self._tracking is not None and self._tracking.is_begun else None

    def _begin_tracking(self, version: int, *, upto: int | None = None) -> None:
        """Append the first entry, of the version where the stream begins or, for a batch planned earlier, of `upto`."""
        if self._tracking is None or self._tracking.is_begun:
            return
        first = self._snapshot_at(min(version, self._latest_version))
        last = first.version if upto is None else max(upto, first.version)
        later = self._commits(first.version + 1, upto=last)
        self._tracking.begin(first, later, version=last)

    def _after_change(self, position: SourceOffset) -> SourceOffset | None:
        """The end of the empty batch after a change of metadata; None at all other positions."""
        if self._tracks is None:
            return None
        if position.index == METADATA_CHANGE_INDEX:
            return dataclasses.replace(position, index=METADATA_CHANGED_INDEX)
        if position.index == METADATA_CHANGED_INDEX:
            # The process ended before `commit` was called, and Spark neither calls it again nor plans an empty batch.
            self._tracks.evolve(*self._described_at(position.version), position.version)
        return None

    def _described_at(self, version: int) -> tuple[Metadata | None, Protocol | None]:
        return described_in(next(iter(self._commits(version, upto=version))))

    def _check_start(self, begin: SourceOffset) -> None:
        """Check once in a run that rows with older columns can be read. Later changes are checked at their commits."""
        if self._start_checked or self._tracks is not None:
            return
        self._start_checked = True
        if begin.version >= self.snapshot.version:
            return
        try:
            described = self._snapshots.at_version(begin.version).metadata
        except (LogError, VersionNotFoundError, TableNotFoundError, FileMissingError):
            # A version that cannot be rebuilt may have commits that can be read.
            return
        self._check_metadata(described, begin.version)

    def _check_metadata(self, metadata: Metadata, version: int) -> None:
        """Raises where the stream cannot read rows with this `metaData`."""
        if self._tracks is None:
            self._columns.check(metadata, version)
        if self.options.read_change_feed:
            check_recorded(metadata, version, table=self._table)

    def _versions(self, begin: SourceOffset, *, upto: int) -> Iterator[VersionFiles]:
        """The files of the versions from a position on, in order."""
        first = begin.version
        if begin.is_initial_snapshot:
            yield self._snapshot_files(begin.version)
            first += 1
        while first <= upto and first in self._kept:
            yield self._kept[first]
            first += 1
        if first > upto:
            return
        for commit in self._commits(first, upto=upto):
            if self.options.read_change_feed and commit.version and removes_rows_of_old_columns(commit):
                self._columns.check_removed(self._snapshot_at(commit.version - 1).metadata, commit.version)
            files = files_of_commit(commit, self.options, self._check_metadata, table=self._table)
            if self._tracks is not None and self._tracks.changes(*described_in(commit), commit.version):
                files = dataclasses.replace(files, changes_metadata=True)
            self._keep(files)
            yield files

    def _commits(self, first: int, *, upto: int) -> Iterator[Commit]:
        fails = self.options.fail_on_data_loss
        return commits_from(self._snapshots.store, first, upto=upto, table=self._table, fail_on_data_loss=fails)

    def _snapshot_files(self, version: int) -> VersionFiles:
        if self._initial is None or self._initial.version != version:
            snapshot = self._snapshot_at(version)
            if self._tracks is not None and version >= self._tracks.read_version:
                # Nothing was read yet, and the columns have changed since the entry.
                self._tracks.evolve(snapshot.metadata, snapshot.protocol, version, replaces=True)
            self._initial = snapshot_files(version, snapshot.files, timestamp_ms=snapshot.timestamp_ms)
        return self._initial

    def _snapshot_at(self, version: int) -> Snapshot:
        try:
            return self._snapshots.at_version(version)
        except (LogError, VersionNotFoundError, FileMissingError) as error:
            raise StreamedSnapshotGoneError(table=self._table, version=version, cause=error.explain()) from error

    def _keep(self, files: VersionFiles) -> None:
        if self._kept_count + len(files.sizes) <= FILES_KEPT_MAX and files.version not in self._kept:
            self._kept[files.version] = files
            self._kept_count += len(files.sizes) + 1

    def _forget_before(self, version: int) -> None:
        """Drop cached files before a version: Spark never goes back before the start of a batch."""
        for older in [cached for cached in self._kept if cached < version]:
            self._kept_count -= len(self._kept.pop(older).sizes) + 1

    def _offset(self, version: int, index: int = BASE_INDEX, *, is_initial_snapshot: bool = False) -> SourceOffset:
        return SourceOffset(
            table_id=self.snapshot.metadata.id, version=version, index=index, is_initial_snapshot=is_initial_snapshot
        )

    def _parsed(self, text: str) -> SourceOffset:
        return parse_offset(text, table_id=self.snapshot.metadata.id, table=self._table)


def _last_version(end: SourceOffset) -> int:
    """The newest version with a file before a position."""
    return end.version - 1 if end.index == BASE_INDEX else end.version
