"""Which change data files a transaction of several statements commits, so that the feed shows its net changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.transactions.multi_statement.net_changes import NetChanges
from anabranch.transactions.multi_statement.open_transaction import ExecutedStatement, TableInTransaction
from anabranch.transactions.read_set import RowsOfFile


class ChangeDataWriter(Protocol):
    """Writes change data files."""

    def changes(self, *, deleted: Sequence[RowsOfFile], inserted: Sequence[RowsOfFile]) -> tuple[AddCDCFile, ...]:
        """Files with these rows as deleted and inserted; none without rows."""

    def differences(self, before: Sequence[AddFile], after: Sequence[AddFile]) -> tuple[AddCDCFile, ...]:
        """Files with the rows that only `before` has, as deleted, and those that only `after` has, as inserted.

        Rows are equal by all of their values, and each counts once.
        """


def net_change_files(changed: TableInTransaction, writer: ChangeDataWriter) -> tuple[AddCDCFile, ...]:
    """The change data files of the commit; none where its data files show the changes.

    Where no statement changed rows that an earlier one had written, the changes of all statements together are the net
    changes. Otherwise a row that was updated is shown as deleted and inserted, by the deletion vectors and new files;
    where rows were copied to new files, by comparing the rows of the removed files with those of the new ones.
    """
    net = changed.net
    if not net.needs_net_feed:
        return tuple(file for files in net.change_files for file in files)
    if not net.changes_own_rows:
        return tuple(file for statement in changed.statements for file in _of_statement(writer, statement))
    if not _copies_rows(net):
        return ()
    before = changed.base_files.adds([path for path, _ in net.removes])
    return writer.differences(list(before.values()), list(net.adds.values()))


def _copies_rows(net: NetChanges) -> bool:
    """Whether a statement has copied rows of files of the base, without naming those that it deleted."""
    return bool(net.rewritten)


def _of_statement(writer: ChangeDataWriter, statement: ExecutedStatement) -> tuple[AddCDCFile, ...]:
    """The change data files of a statement, also of one whose data files showed its changes."""
    files = statement.change_files
    if files or not statement.proposal.files:
        return files
    proposal = statement.proposal
    deleted = [
        RowsOfFile(file=file, positions=rows)
        for key, rows in proposal.deleted_rows.items()
        if (file := statement.read.files.find(*key)) is not None
    ]
    replaced = {remove.path for remove in proposal.removes}
    inserted = [RowsOfFile(file=add, positions=None) for add in proposal.adds if add.path not in replaced]
    return writer.changes(deleted=deleted, inserted=inserted)
