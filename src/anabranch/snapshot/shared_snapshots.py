"""The snapshots of one table that this process holds, so that one of its sessions applies each commit."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable

from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import IdentifiedStore, LogStore, StoredFile


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
