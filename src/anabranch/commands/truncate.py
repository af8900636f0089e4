"""TRUNCATE TABLE: all rows leave the table, none of them read."""

from __future__ import annotations

from anabranch.commands.row_changes import take_out
from anabranch.commands.statement import Outcome, Prepared, Stopwatch, check_may_change_rows, execute
from anabranch.commands.table_access import TableHandle
from anabranch.commands.target_rows import TargetRows
from anabranch.transaction.operation import Operation
from anabranch.transaction.read_set import RowsOfFile


def truncate(handle: TableHandle) -> Outcome:
    """Remove every row. Raises `AppendOnlyTableError`, and the errors of `errors.conflicts` and `errors.commits`."""
    return execute(handle, lambda: _prepare(handle))


def _prepare(handle: TableHandle) -> Prepared:
    watch = Stopwatch(handle)
    snapshot = handle.latest()
    check_may_change_rows(handle, snapshot, "TRUNCATE TABLE")
    transaction = handle.begin_at(Operation(name="TRUNCATE", parameters={}), snapshot=snapshot)
    transaction.record_whole_table()
    everything = [RowsOfFile(file=add, positions=None) for add in snapshot.files.to_actions(None)]
    changes = take_out(TargetRows(handle, snapshot, transaction.vectors), everything, by_vectors=False)
    metrics = {
        "numRemovedFiles": len(changes.removes),
        "numRemovedBytes": sum(remove.size or 0 for remove in changes.removes),
        **({} if changes.num_rows is None else {"numDeletedRows": changes.num_rows}),
        **watch.metrics(),
    }
    return Prepared(
        transaction,
        changes.actions(),
        num_affected_rows=changes.num_rows or 0,
        deleted_rows=changes.deleted_rows,
        metrics=metrics,
    )
