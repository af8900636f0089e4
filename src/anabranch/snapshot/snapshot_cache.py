"""The versions of one table, cached, and refreshed by reading only new commits; sessions of one process share them."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from types import MappingProxyType

from anabranch.clock import Clock
from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import (
    IncompleteStateError,
    MissingInCommitTimestampError,
    TableNotFoundError,
)
from anabranch.log.commit_files import RecentCommits, read_commit_info
from anabranch.log.commit_history import HistoryEntry, read_history
from anabranch.log.log_segment import CommitFile, LogSegment, find_segment, list_log
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import CommitInfo, Metadata, Protocol, SetTransaction
from anabranch.protocol.features import check_readable
from anabranch.protocol.log_paths import commit_path
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.replay import TableState, load_newest, state_after
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import IdentifiedStore, LogStore, StoredFile, is_on_local_disk


class SharedSnapshots:
    """The snapshots of one table by their version's file, as long as a session holds them. It is thread-safe.

    A session gets a snapshot only for a file that it has listed itself, with the same name, size and time, by which a
    snapshot, too, knows that the log continues it. So a table that was dropped and created again is read again.
    """

    def __init__(self) -> None:
        self.advancing = threading.Lock()
        """Held while commits are applied: sessions that wait for it take the result, or apply only later commits."""
        self._lock = threading.Lock()
        self._snapshots: weakref.WeakValueDictionary[StoredFile, Snapshot] = weakref.WeakValueDictionary()
        self._loading: weakref.WeakValueDictionary[StoredFile, threading.Lock] = weakref.WeakValueDictionary()

    def get(self, file: StoredFile | None) -> Snapshot | None:
        """The snapshot whose commit is in this file; None where no session holds it."""
        with self._lock:
            return None if file is None else self._snapshots.get(file)

    def put(self, snapshot: Snapshot) -> None:
        """Let other sessions take this snapshot."""
        if snapshot.segment.version_file is not None:
            with self._lock:
                self._snapshots[snapshot.segment.version_file] = snapshot

    def loading(self, file: StoredFile | None) -> threading.Lock:
        """The lock that is held while the version of this file is read from the log.

        It is not `advancing`: a checkpoint may be large, and sessions that have a snapshot need not wait for it.
        """
        if file is None:
            return threading.Lock()
        with self._lock:
            return self._loading.setdefault(file, threading.Lock())


_tables: weakref.WeakValueDictionary[Hashable, SharedSnapshots] = weakref.WeakValueDictionary()
_tables_lock = threading.Lock()


def shared_snapshots_of(store: LogStore) -> SharedSnapshots:
    """The snapshots of the table in `store`, for all stores that read the same files with the same rights."""
    if not isinstance(store, IdentifiedStore):
        return SharedSnapshots()
    with _tables_lock:
        return _tables.setdefault(store.identity, SharedSnapshots())


OLDER_VERSIONS_CACHED = 4
"""The number of versions that are cached for time travel, besides the newest."""
ATTEMPTS_MAX = 3
"""Log cleanup may delete files between listing and reading; then the log is listed again."""


class SnapshotCache:
    """The versions of one table. Any number of threads may use it; the snapshots that it returns never change.

    The newest version seen is kept, and `latest` applies only the commits since. Snapshots that other caches of this
    process have, with which it has `shared` in common, are taken from them.
    """

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        *,
        recent: RecentCommits | None = None,
        shared: SharedSnapshots | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._recent = RecentCommits() if recent is None else recent
        self._shared = SharedSnapshots() if shared is None else shared
        self._lock = threading.RLock()
        self._newest: Snapshot | None = None
        self._older: OrderedDict[int, Snapshot] = OrderedDict()

    @property
    def store(self) -> LogStore:
        return self._store

    def latest(self) -> Snapshot:
        """The newest version.

        Raises `TableNotFoundError`, the errors of `errors.log`, `UnsupportedFeatureError`, `StorageError`.
        """
        with self._lock:
            cached = self._newest
            snapshot = None if cached is None else self._refreshed(cached)
            if snapshot is None:
                self._forget()
                snapshot = self._loaded(upto=None)
            return self._with_newest(snapshot)

    def latest_or_none(self) -> Snapshot | None:
        """The newest version, or None where there is no table. Raises the other errors of `latest`."""
        try:
            return self.latest()
        except TableNotFoundError:
            with self._lock:
                self._forget()
            return None

    def after_commit(self, version: int, *, before: Sequence[CommitFile] = ()) -> Snapshot:
        """The snapshot of a version that was just committed. Later commits wait until `latest` is called.

        `before` has commits that the log is known to have before it. Raises the errors of `at_version`.
        """
        with self._lock:
            cached = self._newest
            if cached is None:
                snapshot: Snapshot | None = self.latest()
            else:
                snapshot = self._behind(cached, version, before) or self._refreshed(cached, upto=version)
            if snapshot is None or snapshot.version != version:
                return self.at_version(version)
            return self._with_newest(snapshot)

    def cached(self) -> Snapshot | None:
        """The newest version seen so far; reads nothing from storage."""
        return self._newest

    def at_version(self, version: int) -> Snapshot:
        """The snapshot of a version. Raises the errors of `latest`, and `VersionNotFoundError`."""
        with self._lock:
            cached = self._newest if self._newest and self._newest.version == version else self._older.get(version)
            if cached is not None and self._is_current(cached):
                self._keep(cached)
                return cached
            snapshot = self._advanced_from_cache(version) or self._loaded(upto=version)
            self._keep(snapshot)
            return snapshot

    def version_at_timestamp(self, timestamp_ms: int) -> int:
        """The newest version committed at or before that time.

        Raises `TimestampEarlierThanFirstCommitError`, `TimestampAfterLatestCommitError`.
        """
        latest = self.latest()
        search = TimestampSearch.of(
            self._store,
            latest_version=latest.version,
            latest_timestamp_ms=latest.timestamp_ms,
            properties=latest.properties,
        )
        return search.version_at(timestamp_ms).version

    def at_timestamp(self, timestamp_ms: int) -> Snapshot:
        """The snapshot at a time. Raises the errors of `version_at_timestamp` and `at_version`."""
        return self.at_version(self.version_at_timestamp(timestamp_ms))

    def earliest_version(self) -> int:
        """The oldest version that can still be rebuilt. Raises `TableNotFoundError`."""
        listing = list_log(self._store, first=0, upto=None)
        if listing.latest_version is None:
            raise TableNotFoundError(table=self._store.root)
        return listing.earliest_recreatable_version()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The commits up to the newest version that still exist, newest first."""
        latest = self.latest()
        return read_history(self._store, upto=latest.version, properties=latest.properties, limit=limit)

    def _with_newest(self, snapshot: Snapshot) -> Snapshot:
        """Take over `snapshot` as the newest, and keep the one before it."""
        cached, self._newest = self._newest, snapshot
        if cached is not None and cached is not snapshot and snapshot.version > cached.version:
            self._keep(cached)
        return snapshot

    def _refreshed(self, cached: Snapshot, *, upto: int | None = None) -> Snapshot | None:
        """`cached` or a later version; None where the log does not continue it."""
        listing = list_log(self._store, first=cached.version, upto=upto)
        own = listing.commits[:1] if listing.commits and listing.commits[0].version == cached.version else ()
        if (own[0].file if own else None) != cached.segment.version_file:
            # The file of a version never changes. The table was dropped and created again, or its log cleaned up.
            return None
        new = listing.commits[len(own) :]
        if not new:
            if (listing.latest_version or 0) > cached.version:
                return None
            return self._without_expired(cached)
        if [commit.version for commit in new] != list(range(cached.version + 1, cached.version + 1 + len(new))):
            return None
        try:
            return self._advanced(cached, new)
        except FileMissingError:
            return None

    def _behind(self, cached: Snapshot, version: int, before: Sequence[CommitFile]) -> Snapshot | None:
        """The version that follows these commits and `cached`, without a listing; None where that is not certain.

        A local disk lists all files of the log to find one. Other storages begin where they are told, and some of them
        round times differently in a listing, by which later refreshes recognize the file.
        """
        commits = {commit.version: commit for commit in before}
        between = [commits[number] for number in range(cached.version + 1, version) if number in commits]
        if not is_on_local_disk(self._store) or cached.version + 1 + len(between) != version:
            return None
        own = self._commit_file(version)
        if own is None or not self._is_current(cached):
            return None
        try:
            return self._advanced(cached, (*between, CommitFile(version=version, file=own)))
        except FileMissingError:
            return None

    def _advanced(self, base: Snapshot, new: tuple[CommitFile, ...]) -> Snapshot:
        with self._shared.advancing:
            for number in range(len(new), 0, -1):
                other = self._shared.get(new[number - 1].file)
                if other is not None:
                    base, new = other, new[number:]
                    break
            if new:
                base = self._applied(base, new)
                self._shared.put(base)
        return self._without_expired(base)

    def _applied(self, base: Snapshot, new: tuple[CommitFile, ...]) -> Snapshot:
        state = state_after(state_of(base), self._recent.read_actions(self._store, new))
        segment = dataclasses.replace(
            base.segment, version=new[-1].version, commits=(*base.segment.commits, *new), version_file=new[-1].file
        )
        return self._snapshot(segment, state).with_parsed_metadata(base)

    def _advanced_from_cache(self, version: int) -> Snapshot | None:
        """The snapshot of `version`, if commits lead to it from a cached version; None otherwise."""
        snapshots = (*self._older.values(), self._newest)
        bases = [snapshot for snapshot in snapshots if snapshot and snapshot.version < version]
        if not bases:
            return None
        base = max(bases, key=lambda snapshot: snapshot.version)
        if not self._is_current(base):
            self._forget()
            return None
        listing = list_log(self._store, first=base.version + 1, upto=version)
        if [commit.version for commit in listing.commits] != list(range(base.version + 1, version + 1)):
            return None
        try:
            return self._advanced(base, listing.commits)
        except FileMissingError:
            return None

    def _loaded(self, *, upto: int | None) -> Snapshot:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                segment = find_segment(self._store, upto=upto)
                with self._shared.loading(segment.version_file):
                    snapshot = self._shared.get(segment.version_file)
                    if snapshot is None:
                        snapshot = self._snapshot(*load_newest(self._store, segment, upto=upto))
                        self._shared.put(snapshot)
                return self._without_expired(snapshot)
            except FileMissingError:
                if attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    def _snapshot(self, segment: LogSegment, state: TableState) -> Snapshot:
        protocol, metadata = self._complete(segment, state)
        check_readable(protocol, table=self._store.root)
        properties = TableProperties(metadata.configuration)
        info = state.info
        timestamp_ms = segment.modified_ms
        if properties.in_commit_timestamps_enabled:
            info = info or self._info_of(segment)
            if info is None or info.in_commit_timestamp is None:
                raise MissingInCommitTimestampError(table=self._store.root, version=segment.version)
            timestamp_ms = info.in_commit_timestamp
        return Snapshot(
            table_root=self._store.root,
            version=segment.version,
            protocol=protocol,
            metadata=metadata,
            files=state.files,
            set_transactions=self._retained(state, properties),
            domain_metadata=state.domain_metadata,
            timestamp_ms=timestamp_ms,
            info=info,
            segment=segment,
            all_tombstones=state.tombstones,
        )

    def _complete(self, segment: LogSegment, state: TableState) -> tuple[Protocol, Metadata]:
        table, version = self._store.root, segment.version
        if state.protocol is None:
            raise IncompleteStateError(table=table, version=version, missing="protocol")
        if state.metadata is None:
            raise IncompleteStateError(table=table, version=version, missing="metaData")
        return state.protocol, state.metadata

    def _info_of(self, segment: LogSegment) -> CommitInfo | None:
        if segment.version_file is None:
            return None
        return read_commit_info(self._store, CommitFile(version=segment.version, file=segment.version_file))

    def _retained(self, state: TableState, properties: TableProperties) -> MappingProxyType[str, SetTransaction]:
        """The transactions within `delta.setTransactionRetentionDuration`; those without a time are kept."""
        transactions = state.set_transactions
        if not transactions:
            return MappingProxyType({})
        retention_ms = properties.set_transaction_retention_ms
        if retention_ms is None:
            return MappingProxyType(dict(transactions))
        start_ms = self._clock.now_ms() - retention_ms
        return MappingProxyType(
            {
                app_id: action
                for app_id, action in transactions.items()
                if action.last_updated is None or action.last_updated > start_ms
            }
        )

    def _without_expired(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot without the application ids that have expired since it was read."""
        if not snapshot.set_transactions:
            return snapshot
        retained = self._retained(state_of(snapshot), snapshot.properties)
        if len(retained) == len(snapshot.set_transactions):
            return snapshot
        return dataclasses.replace(snapshot, set_transactions=retained)

    def _is_current(self, snapshot: Snapshot) -> bool:
        """Whether the log still has the commit from which the snapshot was read."""
        file = self._commit_file(snapshot.version)
        return file is not None and file == snapshot.segment.version_file

    def _commit_file(self, version: int) -> StoredFile | None:
        return self._store.head(commit_path(version))

    def _keep(self, snapshot: Snapshot) -> None:
        if self._newest is not None and snapshot.version == self._newest.version:
            return
        self._older[snapshot.version] = snapshot
        self._older.move_to_end(snapshot.version)
        while len(self._older) > OLDER_VERSIONS_CACHED:
            self._older.popitem(last=False)

    def _forget(self) -> None:
        self._newest = None
        self._older.clear()


def state_of(snapshot: Snapshot) -> TableState:
    """The state on which the commits after `snapshot` are replayed."""
    return TableState(
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        files=snapshot.files,
        tombstones=snapshot.all_tombstones,
        set_transactions=snapshot.set_transactions,
        domain_metadata=snapshot.domain_metadata,
    )
