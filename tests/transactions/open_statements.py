"""A transaction of several statements on a table in memory, and what others see of its table."""

from __future__ import annotations

import dataclasses

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.multi_statement.net_changes import NetChanges
from anabranch.transactions.multi_statement.net_commit import commit_net_changes
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from anabranch.transactions.transaction import Transaction
from transactions.table_on_memory import Writer, features, id_is, remove

VECTORS = features("appendOnly", "deletionVectors", "invariants")


@dataclasses.dataclass(frozen=True)
class Reference:
    label: str = "events"


class Open:
    """An open transaction of one table."""

    def __init__(self, table: Writer) -> None:
        self.transaction = OpenTransaction("the transaction")
        self.transaction.choose_target(table.table, Reference(), "BEGIN TRANSACTION", label="events")
        assert self.transaction.target is not None
        self.target = self.transaction.target

    @property
    def net(self) -> NetChanges:
        return self.target.net

    def begin(self, name: str = "WRITE") -> Transaction:
        return self.target.log.begin(Operation(name=name))

    def live(self, path: str) -> AddFile:
        return self.target.snapshot.files.at_path(path)[0]

    def delete(self, path: str, *rows: int) -> None:
        """Hide these rows of the file; all that it shows, without any."""
        statement, file = self.begin("DELETE"), self.live(path)
        positions = BitMap64(rows) if rows else None
        statement.record_scan(id_is(1), files=[file.key], rows={file.key: positions} if positions else None)
        actions = hide_rows([RowsOfFile(file=file, positions=positions)], statement.vectors, removed_at_ms=0)
        statement.commit(actions, deleted_rows={file.key: positions})

    def rewrite(self, path: str, new: AddFile) -> None:
        statement, file = self.begin("UPDATE"), self.live(path)
        statement.record_scan(id_is(1), files=[file.key], rows={file.key: BitMap64([0])})
        statement.commit([remove(file), new])

    def commit(self) -> CommittedVersion:
        target = self.target
        statement = target.committed.begin_at(Operation(name="TRANSACTION"), snapshot=target.base)
        committed = commit_net_changes(statement, target, [*self.net.others, *self.net.files])
        self.transaction.end()
        return committed


def hidden(table: Writer, path: str) -> set[int]:
    (file,) = table.table.snapshots.latest().files.at_path(path)
    (rows,) = table.begin().vectors.hidden([file])
    return set(rows)


def delete(table: Writer, path: str, *rows: int) -> None:
    """Another session's DELETE."""
    statement = table.begin("DELETE")
    assert statement.snapshot is not None
    (file,) = statement.snapshot.files.at_path(path)
    statement.record_scan(id_is(1), files=[file.key], rows={file.key: BitMap64(rows)})
    actions = hide_rows([RowsOfFile(file=file, positions=BitMap64(rows))], statement.vectors, removed_at_ms=0)
    statement.commit(actions, deleted_rows={file.key: BitMap64(rows)})
