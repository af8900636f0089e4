"""Transactions of several statements on a played table, run as sessions run them."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from anabranch.clock import random_uuid
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.multi_statement.net_change_data import net_change_files
from anabranch.transactions.multi_statement.net_commit import commit_net_changes
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction, TableInTransaction
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import Scan
from concurrency.executor import begin, rules_of
from concurrency.played_feed import PlayedChanges
from concurrency.played_table import PlayedTable
from concurrency.several_statements import FAILED, Query, RollBackTo, Savepoint, Seen, SeveralStatements, Step, seen_of
from concurrency.statements import Effect, Insert, Numbered, Plan

OPERATION = "TRANSACTION"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Label:
    label: str = "the played table"


class RunningTransaction:
    """A transaction that has run some of its statements, and runs the others before it commits."""

    def __init__(self, played: PlayedTable, statement: SeveralStatements, *, snapshot: Snapshot | None = None) -> None:
        """It reads the newest version, or `snapshot`."""
        self._program = statement
        self._executed: list[Step] = []
        self._played = played
        self._transaction = OpenTransaction(random_uuid(played.random))
        if snapshot is not None:
            self._transaction._tables[played.table.root] = TableInTransaction(self._transaction, played.table, snapshot)
        self._transaction.choose_target(played.table, _Label(), OPERATION, label=_Label.label)
        assert self._transaction.target is not None
        self.changed: TableInTransaction = self._transaction.target
        self._inside = dataclasses.replace(played, table=self.changed.log)
        self._steps = iter(statement.steps)
        self._seen: list[Seen] = []
        self._rows = played.rows(self.changed.base)
        self.proceed()

    @property
    def statement(self) -> SeveralStatements:
        """The statements so far, with what was known of them only when they ran."""
        rules = rules_of(self._played, self.changed.base)
        return dataclasses.replace(self._program, steps=tuple(self._executed), rules=rules)

    @property
    def plan(self) -> Plan:
        return self.statement.plan(self._rows)

    @property
    def read_version(self) -> int:
        return self.changed.base.version

    @property
    def effect(self) -> Effect:
        """The effect that its statements must have together, and what the program has seen of each of them."""
        return dataclasses.replace(self.statement.effect(self._rows), seen=tuple(self._seen))

    def proceed(self) -> None:
        """Run the next statement, if there is one."""
        for step in itertools.islice(self._steps, 1):
            self._run(step)

    def commit(self) -> CommittedVersion | None:
        """Run the other statements and end the transaction. Raises the conflicts."""
        for step in self._steps:
            self._run(step)
        expected = self.statement.effect(self._rows).seen
        assert tuple(self._seen) == expected, f"its statements show {self._seen}, alone they show {expected}"
        try:
            return None if self.statement.rolls_back else self._committed()
        finally:
            self._transaction.end()

    def run_again(self) -> RunningTransaction:
        """The same transaction on the newest version, for the last time."""
        return RunningTransaction(self._played, dataclasses.replace(self._program, is_run_again=False))

    def _committed(self) -> CommittedVersion | None:
        actions: list[Action] = [*self.changed.net.others, *self.changed.net.files]
        if not actions:
            return None
        if self._played.manner.feeds:
            actions += net_change_files(self.changed, PlayedChanges(self._inside))
        table = self.changed.committed
        transaction = table.begin_at(Operation(name=OPERATION), snapshot=self.changed.base)
        return commit_net_changes(transaction, self.changed, actions)

    def _run(self, step: Step) -> None:
        self._executed.append(step)
        if isinstance(step, Savepoint):
            self._transaction.set_savepoint(step.name)
        elif isinstance(step, RollBackTo):
            self._transaction.roll_back_to(step.name)
        elif isinstance(step, Query):
            self._query(step)
        else:
            before = self._inside.rows(self.changed.snapshot)
            running = begin(self._inside, step)
            if running.fails:
                self._seen.append(FAILED)
                return
            running.commit()
            repeats = isinstance(step, Numbered) and not running.actions
            self._executed[-1] = executed = Insert(()) if repeats else running.statement
            self._seen.append(seen_of(executed, executed.plan(before) if repeats else running.plan, before))

    def _query(self, query: Query) -> None:
        seen = self.changed.log.snapshots.latest()
        rows = self._inside.rows(seen)
        predicate, manner = query.where.predicate, self._played.manner
        files = can_be_true(predicate, seen.skipping_columns)
        again = self._played.evaluator(query.where) if manner.reevaluates else None
        self.changed.record_scan(Scan(predicate=predicate, files=np.asarray(files), reevaluate=again), seen)
        self._seen.append(seen_of(query, query.plan(rows), rows))
