"""One operation on one version of a table, from its first read to its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from anabranch.predicates.expressions import TRUE, Predicate
from anabranch.protocol.actions import Action, Metadata, Protocol
from anabranch.protocol.isolation import IsolationLevel
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.application_progress import already_written
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.isolation import changes_no_row
from anabranch.transaction.operation import Operation
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.read_set import WHOLE_TABLE, FileKey, FileMask, ReadSet, Scan


class Transaction:
    """Sees one version, remembers what it was asked of it, and lands at most one commit.

    Reads may be recorded from any thread: Spark plans scans on its own.
    """

    def __init__(
        self,
        *,
        operation: Operation,
        snapshot: Snapshot | None,
        txn_id: str,
        land: Callable[[ProposedCommit], CommittedVersion],
    ) -> None:
        self.operation = operation
        self.snapshot = snapshot
        """None where there is no table yet."""
        self.txn_id = txn_id
        self._land = land
        self._lock = threading.Lock()
        self._scans: list[Scan] = []
        self._application_ids: set[str] = set()

    @property
    def read_version(self) -> int:
        """-1 where there is no table yet."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def metadata(self) -> Metadata | None:
        return None if self.snapshot is None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol | None:
        return None if self.snapshot is None else self.snapshot.protocol

    def record_scan(self, predicate: Predicate, *, files: FileMask | Iterable[FileKey] | None = None) -> None:
        """Rows for which `predicate` is true matter to this operation; `files` were opened to find them.

        Every row of the snapshot that satisfies it must be in one of these files. Without `files`, all were
        opened.
        """
        opened = files if files is None or isinstance(files, np.ndarray) else frozenset(files)
        scan = WHOLE_TABLE if predicate == TRUE and opened is None else Scan(predicate=predicate, files=opened)
        with self._lock:
            self._scans.append(scan)

    def record_whole_table(self) -> None:
        """Any row at all may matter to this operation."""
        self.record_scan(TRUE)

    def has_written(self, *, app_id: str, version: int) -> bool:
        """Whether an earlier run of the application has done this write; if so, there is nothing to do.

        From here on, nobody else may record progress of this application.
        """
        with self._lock:
            self._application_ids.add(app_id)
        return already_written(self.snapshot, app_id=app_id, version=version)

    def reads(self) -> ReadSet:
        """Everything recorded so far."""
        with self._lock:
            return ReadSet(scans=tuple(self._scans), application_ids=frozenset(self._application_ids))

    def propose(
        self,
        actions: Sequence[Action],
        *,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> ProposedCommit:
        """The commit that `actions` would make. `commitInfo`, row ids and timestamps are filled in later."""
        return ProposedCommit(
            txn_id=self.txn_id,
            operation=self.operation,
            metrics=metrics or {},
            tags=tags or {},
            read_version=self.read_version,
            isolation=None if changes_no_row(actions) else self._isolation_level(actions),
            reads=self.reads(),
            actions=tuple(actions),
        )

    def commit(
        self,
        actions: Sequence[Action],
        *,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> CommittedVersion:
        """Land `actions` as the next version, behind whoever came first.

        Raises the exceptions of `errors.conflicts`, where a winner makes ours wrong, and those of
        `errors.commits`; then nothing of it is in the table, unless the error is `CommitFateUnknownError`.
        """
        return self._land(self.propose(actions, metrics=metrics, tags=tags))

    def _isolation_level(self, actions: Sequence[Action]) -> IsolationLevel:
        """As the table asks for; a new table's first commit by what it sets itself."""
        given = next((action for action in actions if isinstance(action, Metadata)), None)
        metadata = self.metadata or given
        return TableProperties({} if metadata is None else metadata.configuration).isolation_level
