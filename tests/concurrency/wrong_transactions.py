"""Wrong rules for transactions of several statements, which the judges must find."""

from __future__ import annotations

import copy
import dataclasses
import weakref
from collections.abc import Callable

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit import invariants
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.latest_state import LiveFileIndex
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement import net_change_data, open_transaction
from anabranch.transactions.multi_statement.net_changes import NetChanges
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction, TableInTransaction
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import ReadSet, Scan
from anabranch.transactions.transaction import Transaction
from concurrency import executor
from concurrency.conditions import Where
from concurrency.describing import described_by, keeps_rules
from concurrency.played_table import PlayedTable
from concurrency.played_transactions import RunningTransaction
from concurrency.random_histories import (
    TRANSACTIONS,
    TRANSACTIONS_AND_CONSTRAINTS,
    TRANSACTIONS_AND_FEED,
    TRANSACTIONS_AND_FEED_WITHOUT_VECTORS,
    TRANSACTIONS_ON_FEW_FILES,
    TRANSACTIONS_THAT_GO_ON,
)
from concurrency.wrong_rules import WrongRule, no_complaints


def _reads_of_the_last_statement(self: TableInTransaction) -> ReadSet:
    return self.statements[-1].on_base.reads if self.statements else ReadSet()


def _reads_since_the_first_statement(self: TableInTransaction, reads: ReadSet, read: Snapshot | None) -> None:
    if read is not self.base:
        RIGHT_KEEP_READS(self, reads, read)


def _reads_nothing(self: Transaction) -> None:
    return None


def _reads_of_statements_alone(self: TableInTransaction, reads: ReadSet, read: Snapshot | None) -> None:
    assert read is not None
    for scan in reads.scans:
        RIGHT_RECORD_SCAN(self, scan, read)


def _not_recorded(self: TableInTransaction, scan: Scan, seen: Snapshot) -> None:
    return None


def _reads_are_undone(self: TableInTransaction, num_statements: int) -> None:
    RIGHT_ROLL_BACK_TO(self, num_statements)
    self._scans = [scan for statement in self.statements for scan in statement.on_base.reads.scans]


def _as_before(snapshot: Snapshot, proposal: ProposedCommit, *, version: int) -> Snapshot:
    return dataclasses.replace(snapshot, version=version)


def _gross(self: NetChanges, proposal: ProposedCommit) -> NetChanges:
    adds: dict[str, AddFile] = {**self.adds, **{add.path: add for add in proposal.adds}}
    removes: dict[tuple[str, str | None], RemoveFile] = {**self.removes, **proposal.removed_files}
    return dataclasses.replace(RIGHT_AFTER(self, proposal), adds=adds, removes=removes)


def _deleted_rows_of_the_last_statement(self: NetChanges, proposal: ProposedCommit) -> NetChanges:
    last = RIGHT_AFTER(dataclasses.replace(self, deleted_rows={}), proposal).deleted_rows
    return dataclasses.replace(RIGHT_AFTER(self, proposal), deleted_rows={**self.deleted_rows, **last})


def _deleted_rows_by_the_vector_seen(self: NetChanges, proposal: ProposedCommit) -> NetChanges:
    deleted = {**self.deleted_rows, **proposal.deleted_rows}
    return dataclasses.replace(RIGHT_AFTER(self, proposal), deleted_rows=deleted)


def _rows_by_the_vector_seen(scan: Scan, seen: Snapshot, base: Snapshot, base_files: LiveFileIndex) -> Scan:
    return dataclasses.replace(RIGHT_SCAN_OF_BASE(scan, seen, base, base_files), rows=scan.rows)


def _named_though_rewritten(self: NetChanges) -> object:
    return dict(self.deleted_rows)


def _committed_from_the_newest(self: RunningTransaction) -> CommittedVersion | None:
    right = self.changed
    self.changed = copy.copy(right)
    self.changed.base = right.committed.snapshots.latest()
    return RIGHT_COMMITTED(self)


def _at_its_first_version(self: OpenTransaction, log: DeltaLog) -> TableInTransaction | None:
    if log.root not in self._tables:
        snapshot = FIRST_SNAPSHOTS.setdefault(log, log.snapshots.latest())
        self._tables[log.root] = TableInTransaction(self, log, snapshot)
    return self._tables[log.root]


def _failed_read_nothing(self: TableInTransaction, statement: Transaction) -> list[Scan]:
    return []


def _failed_read_what_is_recorded(self: TableInTransaction, statement: Transaction) -> list[Scan]:
    assert statement.snapshot is not None
    scans = statement.reads().scans
    return [RIGHT_SCAN_OF_BASE(scan, statement.snapshot, self.base, self.base_files) for scan in scans]


def _no_rules(played: PlayedTable, snapshot: Snapshot) -> tuple[Where, ...]:
    return ()


def _rules_at_the_end(self: RunningTransaction) -> CommittedVersion | None:
    rows = self._inside.rows(self.changed.snapshot)
    keeps = all(keeps_rules(row, described_by(self.changed.base).rules) for row in rows)
    return RIGHT_COMMITTED(self) if keeps else None


def _feed_of_all_statements(self: NetChanges) -> bool:
    return False


def _feed_of_own_rows_alone(self: NetChanges) -> bool:
    return self.changes_own_rows and RIGHT_NEEDS_NET_FEED(self)


def _copies_nothing(net: NetChanges) -> bool:
    return False


FIRST_SNAPSHOTS: weakref.WeakKeyDictionary[DeltaLog, Snapshot] = weakref.WeakKeyDictionary()
RIGHT_KEEP_READS = TableInTransaction.keep_reads
RIGHT_RECORD_SCAN = TableInTransaction.record_scan
RIGHT_ROLL_BACK_TO = TableInTransaction.roll_back_to
RIGHT_AFTER = NetChanges.after
RIGHT_NEEDS_NET_FEED: Callable[[NetChanges], bool] = vars(NetChanges)["needs_net_feed"].fget
RIGHT_SCAN_OF_BASE = open_transaction.scan_of_base
RIGHT_COMMITTED = RunningTransaction._committed

WRONG_TRANSACTIONS = (
    WrongRule(
        name="of a transaction only what its last statement read counts",
        patches=[(TableInTransaction, "reads", _reads_of_the_last_statement)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="what the first statement of a transaction read is forgotten",
        patches=[(TableInTransaction, "keep_reads", _reads_since_the_first_statement)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="a statement that changed nothing has read nothing",
        patches=[(Transaction, "end_without_commit", _reads_nothing)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="what queries of a transaction read does not count",
        patches=[
            (TableInTransaction, "keep_reads", _reads_of_statements_alone),
            (TableInTransaction, "record_scan", _not_recorded),
        ],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="with ROLLBACK TO the reads are undone, too",
        patches=[(TableInTransaction, "roll_back_to", _reads_are_undone)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="a statement does not see what those before it have changed",
        patches=[(open_transaction, "with_changes", _as_before)],
        mix=TRANSACTIONS,
        verdict="alone they show",
    ),
    WrongRule(
        name="files that one statement adds and the next removes are committed",
        patches=[(NetChanges, "after", _gross), (invariants, "_inconsistent_files", no_complaints)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="of a file the deleted rows are those of the last statement",
        patches=[(NetChanges, "after", _deleted_rows_of_the_last_statement)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="deleted rows belong to the vector that the statement saw, which no other commit knows",
        patches=[(NetChanges, "after", _deleted_rows_by_the_vector_seen)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="rows that were read belong to the vector that the statement saw, which no other commit knows",
        patches=[(open_transaction, "scan_of_base", _rows_by_the_vector_seen)],
        mix=TRANSACTIONS_ON_FEW_FILES,
        histories_max=6_000,
    ),
    WrongRule(
        name="the deleted rows of a file count as named, though another statement has rewritten it",
        patches=[(NetChanges, "named_rows", property(_named_though_rewritten))],
        mix=TRANSACTIONS_ON_FEW_FILES,
    ),
    WrongRule(
        name="a transaction is committed as if its first statement had read the newest version",
        patches=[(RunningTransaction, "_committed", _committed_from_the_newest)],
        mix=TRANSACTIONS,
    ),
    WrongRule(
        name="a transaction that is run again after a conflict reads the version that it read before",
        patches=[(OpenTransaction, "table_of", _at_its_first_version)],
        mix=TRANSACTIONS,
        verdict="no commit came before its own",
    ),
    WrongRule(
        name="what a failed statement of a transaction read does not count",
        patches=[(TableInTransaction, "_reads_of_failed", _failed_read_nothing)],
        mix=TRANSACTIONS_THAT_GO_ON,
    ),
    WrongRule(
        name="of a failed statement only what it had recorded before its jobs counts",
        patches=[(TableInTransaction, "_reads_of_failed", _failed_read_what_is_recorded)],
        mix=TRANSACTIONS_THAT_GO_ON,
    ),
    WrongRule(
        name="statements of a transaction check no constraints",
        patches=[(executor, "rules_of", _no_rules)],
        mix=TRANSACTIONS_AND_CONSTRAINTS,
        verdict="alone they show",
    ),
    WrongRule(
        name="constraints are checked at the end of a transaction",
        patches=[(executor, "rules_of", _no_rules), (RunningTransaction, "_committed", _rules_at_the_end)],
        mix=TRANSACTIONS_AND_CONSTRAINTS,
        verdict="alone they show",
    ),
    WrongRule(
        name="the feed has the changes of all statements, also of rows that came and went",
        patches=[(NetChanges, "needs_net_feed", property(_feed_of_all_statements))],
        mix=TRANSACTIONS_AND_FEED,
        verdict="more than its net changes",
    ),
    WrongRule(
        name="the feed has the change data files alone, though data files of other statements show changes",
        patches=[(NetChanges, "needs_net_feed", property(_feed_of_own_rows_alone))],
        mix=TRANSACTIONS_AND_FEED,
        verdict="the table went from",
    ),
    WrongRule(
        name="the feed has rows that were copied as deleted and inserted",
        patches=[(net_change_data, "_copies_rows", _copies_nothing)],
        mix=TRANSACTIONS_AND_FEED_WITHOUT_VECTORS,
        verdict="more than its net changes",
    ),
)
