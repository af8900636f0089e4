"""The change data files of a transaction of several statements, which show its net changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, INSERT
from anabranch.commands.dml.change_data import write_changed_rows
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.dml.target_table import TargetRows, with_row_counts
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import AddCDCFile
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote
from anabranch.transactions.multi_statement.open_transaction import ExecutedStatement, TableInTransaction
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors

_KEY, _NUMBER = "__anabranch_row", "__anabranch_number"


def net_change_files(table: TableRef, changed: TableInTransaction) -> tuple[AddCDCFile, ...]:
    """The change data files of the commit; none where its data files show the changes.

    Where no statement changed rows that an earlier one had written, the changes of all statements together are the net
    changes. Otherwise a row that was updated is shown as deleted and inserted, by the deletion vectors and new files;
    on a table without vectors, by comparing the rows of the removed files with those of the new ones.
    """
    net = changed.net
    if not net.needs_net_feed:
        return tuple(file for files in net.change_files for file in files)
    target = TargetRows(table, changed.snapshot, StoredVectors(table.committed_log.store, table.session.random))
    if not net.changes_own_rows:
        return tuple(file for statement in changed.statements for file in _of_statement(target, statement))
    if uses_vectors(changed.snapshot):
        return ()
    return _written(target, list(_differences(target, changed)))


def _of_statement(target: TargetRows, statement: ExecutedStatement) -> tuple[AddCDCFile, ...]:
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
    return _written(
        target,
        [
            target.read_rows(with_row_counts(rows, target.table)).frame.withColumn(CHANGE_TYPE, F.lit(change))
            for rows, change in ((deleted, DELETE), (inserted, INSERT))
            if rows
        ],
    )


def _differences(target: TargetRows, changed: TableInTransaction) -> Iterator[DataFrame]:
    """The rows that only the removed files have, and those that only the new files have, by all of their values."""
    net = changed.net
    before = changed.base_files.adds([path for path, _ in net.removes]).values()
    rows = [
        _numbered(target, [RowsOfFile(file=file, positions=None) for file in files])
        for files in (before, net.adds.values())
    ]
    for ours, theirs, change in ((rows[0], rows[1], DELETE), (rows[1], rows[0], INSERT)):
        yield ours.join(theirs.select(_KEY, _NUMBER), [_KEY, _NUMBER], "left_anti").withColumn(
            CHANGE_TYPE, F.lit(change)
        )


def _numbered(target: TargetRows, rows: Sequence[RowsOfFile]) -> DataFrame:
    """The rows with a text of all values, and a number among the rows with the same."""
    names = [quote(name) for name in without_void(target.snapshot.schema).fieldNames()]
    text = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    frame = target.read_rows(rows).frame.withColumn(_KEY, text)
    return frame.withColumn(_NUMBER, F.row_number().over(Window.partitionBy(_KEY).orderBy(_KEY)))


def _written(target: TargetRows, frames: Sequence[DataFrame]) -> tuple[AddCDCFile, ...]:
    names = [*map(quote, without_void(target.snapshot.schema).fieldNames()), CHANGE_TYPE]
    files: list[AddCDCFile] = []
    for frame in frames:
        files += write_changed_rows(target.table, target.snapshot, frame.select(*names))
    return tuple(files)
