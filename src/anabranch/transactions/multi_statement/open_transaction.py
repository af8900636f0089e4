"""Several statements of one session that become one commit to one table, or none.

Each statement is a `Transaction` of its own, which reads the version that the statement before it has left and that no
log has. Their proposals together are one proposal on the version that the first of them read: `NetChanges`.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anabranch.errors.commits import StatementInTransactionError
from anabranch.log.commit_history import HistoryEntry
from anabranch.protocol.actions import AddCDCFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.latest_state import LiveFileIndex
from anabranch.transactions.conflicts.metadata_compatibility import changes_only_marks
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement.net_changes import (
    NetChanges,
    on_base,
    scan_of_base,
    with_changes,
)
from anabranch.transactions.proposed_commit import ProposedCommit, encoded_metrics
from anabranch.transactions.read_set import WHOLE_TABLE, ReadSet, Scan
from anabranch.transactions.transaction import Transaction

LOGGER = logging.getLogger("anabranch.commit")
_uncommitted_versions = itertools.count(2**62)
"""Numbers of versions that are in no log. A process uses each of them once: Spark's cache, which all sessions share,
knows the rows of a scan by the version."""
_open: weakref.WeakValueDictionary[str, OpenTransaction] = weakref.WeakValueDictionary()


def open_transaction(key: str) -> OpenTransaction | None:
    """The open transaction of that key; None where it has ended."""
    return _open.get(key)


def is_uncommitted(version: int) -> bool:
    """Whether the version is in no log, but the result of a statement of a transaction that is still open."""
    return version >= 2**62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutedStatement:
    """One statement of a transaction."""

    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    proposal: ProposedCommit
    read: Snapshot
    """The table before it."""
    on_base: ProposedCommit
    """What it reads and deletes of the version that the transaction began with."""

    @property
    def change_files(self) -> tuple[AddCDCFile, ...]:
        """Its change data files."""
        return tuple(action for action in self.proposal.actions if isinstance(action, AddCDCFile))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _State:
    """The table after some statements."""

    snapshot: Snapshot
    net: NetChanges
    statements: tuple[ExecutedStatement, ...] = ()


class TableInTransaction:
    """One table in an open transaction: the version that it had at its first use, and the changes since."""

    def __init__(self, transaction: OpenTransaction, log: DeltaLog, base: Snapshot) -> None:
        self.committed = log
        """The table as all others see it."""
        self.base = base
        self.base_files = LiveFileIndex(base.files)
        self._transaction = transaction
        self._states = [_State(snapshot=base, net=NetChanges(base_files=self.base_files))]
        self._scans: list[Scan] = []
        self._applications: set[str] = set()
        self._begun: list[Transaction] = []
        self._lock = threading.RLock()
        self.log = log.as_seen_by(self, _Versions(log.snapshots, self))
        """The table as the transaction sees it."""

    @property
    def snapshot(self) -> Snapshot:
        """The table with all changes so far."""
        return self._states[-1].snapshot

    @property
    def net(self) -> NetChanges:
        return self._states[-1].net

    @property
    def statements(self) -> tuple[ExecutedStatement, ...]:
        return self._states[-1].statements

    def at_version(self, version: int) -> Snapshot | None:
        """The table after one of the statements; None for a version of the log."""
        with self._lock:
            return next((state.snapshot for state in self._states[1:] if state.snapshot.version == version), None)

    def record_scan(self, scan: Scan, seen: Snapshot) -> None:
        """Record that the transaction depends on what this scan of `seen` has read."""
        with self._lock:
            self._scans.append(scan_of_base(scan, seen, self.base, self.base_files))

    def begin(self, statement: Transaction) -> None:
        """Take note of a statement, for the case that it fails."""
        with self._lock:
            self._begun = [earlier for earlier in self._begun if not earlier.has_ended]
            self._begun.append(statement)

    def reads(self) -> ReadSet:
        """All reads so far, of statements, failed statements and queries."""
        with self._lock:
            failed = [statement for statement in self._begun if not statement.has_ended]
            scans = [*self._scans, *itertools.chain.from_iterable(map(self._reads_of_failed, failed))]
            applications = self._applications.union(*(statement.reads().application_ids for statement in failed))
            return ReadSet(scans=tuple(scans), application_ids=frozenset(applications))

    def _reads_of_failed(self, statement: Transaction) -> list[Scan]:
        """All rows, unless the statement had recorded what it reads before its jobs began."""
        if not statement.has_recorded_all:
            return [WHOLE_TABLE]
        seen = statement.snapshot
        assert seen is not None, "a transaction changes a table that exists"
        return [scan_of_base(scan, seen, self.base, self.base_files) for scan in statement.reads().scans]

    def roll_back_to(self, num_statements: int) -> None:
        """Undo all statements but the first ones. What they have read still counts: the program has seen it."""
        with self._lock:
            del self._states[num_statements + 1 :]

    def keep_reads(self, reads: ReadSet, read: Snapshot | None) -> None:
        """Record what a statement has read that changed nothing."""
        assert read is not None, "a transaction changes a table that exists"
        with self._lock:
            self._applications |= reads.application_ids
            for scan in reads.scans:
                self.record_scan(scan, read)

    def keep_until_end(self, release: Callable[[], None]) -> None:
        self._transaction.keep_until_end(release)

    def keep(self, proposal: ProposedCommit, read: Snapshot | None) -> CommittedVersion:
        """Add a statement. Raises `StatementInTransactionError`."""
        with self._lock:
            state = self._states[-1]
            self._check(proposal, read)
            num_scans = len(self._scans)
            self.keep_reads(proposal.reads, read)
            reads = ReadSet(scans=tuple(self._scans[num_scans:]))
            net = state.net.after(proposal)
            statement = ExecutedStatement(
                operation=proposal.operation.name,
                parameters=proposal.operation.encoded_parameters(),
                metrics=encoded_metrics(proposal.metrics),
                proposal=proposal,
                read=state.snapshot,
                on_base=on_base(proposal, reads, net, self.base),
            )
            version = next(_uncommitted_versions)
            self._states.append(
                _State(
                    snapshot=with_changes(state.snapshot, proposal, version=version),
                    net=net,
                    statements=(*state.statements, statement),
                )
            )
        self._transaction.changed(self)
        return CommittedVersion(
            version=version,
            timestamp_ms=self.base.timestamp_ms,
            txn_id=proposal.txn_id,
            attempts=1,
            reconciled=(),
            is_part=True,
            actions=proposal.actions,
            load=lambda _: self.snapshot,
        )

    def _check(self, proposal: ProposedCommit, read: Snapshot | None) -> None:
        current = self.snapshot
        problem = None
        if read is not current:
            problem = "it was made from rows that another statement has changed since; read the table again"
        elif self.statements and _describes(proposal, current):
            problem = "only the first statement may change the table's columns or properties"
        if problem is not None:
            label = self._transaction.reference.label
            raise StatementInTransactionError(table=label, operation=proposal.operation.name, problem=problem)


def _describes(proposal: ProposedCommit, current: Snapshot) -> bool:
    """Whether the statement changes the description of the table, and not only the marks of identity columns."""
    if proposal.protocol is not None and proposal.protocol != current.protocol:
        return True
    return proposal.metadata is not None and not changes_only_marks(current.metadata, proposal.metadata)


class OpenTransaction:
    """Several statements of one session, from BEGIN to COMMIT or ROLLBACK.

    Any number of threads may use it. `changed` is called with the root of a table after each of its changes: when a
    statement has run, and when the transaction has ended.
    """

    def __init__(self, key: str, *, on_change: Callable[[str], None] = lambda _: None) -> None:
        self.key = key
        """Unique among the transactions of all sessions."""
        self.target: TableInTransaction | None = None
        """The table that the transaction changes; None before its first change."""
        self.reference: Any = None
        """The same table as commands refer to it."""
        self._on_change = on_change
        self._tables: dict[str, TableInTransaction] = {}
        self._savepoints: dict[str, int] = {}
        self._releases: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        _open[self.key] = self

    def log_of(self, log: DeltaLog) -> DeltaLog:
        """The table as the transaction sees it, at the version of its first use and with its own changes."""
        table = self.table_of(log)
        return log if table is None else table.log

    def table_of(self, log: DeltaLog) -> TableInTransaction | None:
        """The table in this transaction; None where it does not exist."""
        with self._lock:
            table = self._tables.get(log.root)
            if table is None:
                snapshot = log.snapshots.latest_or_none()
                if snapshot is None:
                    return None
                table = self._tables[log.root] = TableInTransaction(self, log, snapshot)
            return table

    def choose_target(self, log: DeltaLog, reference: Any, operation: str, *, label: str) -> None:
        """Make this the table that the transaction changes. Raises `StatementInTransactionError` if it has another."""
        with self._lock:
            table = self.table_of(log)
            if table is None:
                problem = "the table does not exist yet"
                raise StatementInTransactionError(table=label, operation=operation, problem=problem)
            if self.target is None:
                self.target, self.reference = table, reference
            if self.target is not table:
                problem = f"it can change one table only, and it changes {self.reference.label}"
                raise StatementInTransactionError(table=label, operation=operation, problem=problem)

    def changed(self, table: TableInTransaction) -> None:
        """Called after each statement."""
        self._on_change(table.committed.root)

    def keep_until_end(self, release: Callable[[], None]) -> None:
        """Call this function at the end of the transaction."""
        with self._lock:
            self._releases.append(release)

    def set_savepoint(self, name: str) -> None:
        """Name the state after the statements so far. A name that is used again names the newer state."""
        with self._lock:
            self._savepoints.pop(name, None)
            self._savepoints[name] = 0 if self.target is None else len(self.target.statements)

    def roll_back_to(self, name: str) -> bool:
        """Undo the statements since that savepoint, and forget the savepoints since; False if there is none."""
        with self._lock:
            if name not in self._savepoints:
                return False
            while next(reversed(self._savepoints)) != name:
                self._savepoints.popitem()
            if self.target is not None:
                self.target.roll_back_to(self._savepoints[name])
                self.changed(self.target)
            return True

    def release_savepoint(self, name: str) -> bool:
        """Forget the savepoint; False if there is none."""
        with self._lock:
            return self._savepoints.pop(name, None) is not None

    def end(self) -> None:
        """End the transaction, committed or not. Its frames read the newest versions from now on.

        It may be committed by now, so what cannot be released is logged, and nothing is raised.
        """
        with self._lock:
            _open.pop(self.key, None)
            releases, self._releases = self._releases, []
        for release in releases:
            try:
                release()
            except Exception:
                LOGGER.warning("Rows that Spark has cached for a transaction were not released", exc_info=True)
        if self.target is not None:
            self.changed(self.target)


class _Versions(SnapshotCache):
    """The versions of a table for a transaction: the newest has its changes, and the others are those of the log."""

    def __init__(self, committed: SnapshotCache, table: TableInTransaction) -> None:
        self._committed = committed
        self._table = weakref.proxy(table)

    @property
    def store(self) -> Any:
        return self._committed.store

    def latest(self) -> Snapshot:
        snapshot: Snapshot = self._table.snapshot
        return snapshot

    def latest_or_none(self) -> Snapshot | None:
        return self.latest()

    def cached(self) -> Snapshot | None:
        return self.latest()

    def at_version(self, version: int) -> Snapshot:
        own: Snapshot | None = self._table.at_version(version) if is_uncommitted(version) else None
        if own is not None:
            return own
        base: Snapshot = self._table.base
        return base if version == base.version else self._committed.at_version(version)

    def version_at_timestamp(self, timestamp_ms: int) -> int:
        return self._committed.version_at_timestamp(timestamp_ms)

    def earliest_version(self) -> int:
        return self._committed.earliest_version()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        return self._committed.history(limit)


def combined_tags(statements: Sequence[ExecutedStatement], name: str) -> dict[str, str]:
    """The tag of that name for the commit, where all statements that have files agree on it."""
    values = {statement.proposal.tags.get(name) for statement in statements if statement.proposal.files}
    return {name: value} if len(values) == 1 and (value := values.pop()) is not None else {}
