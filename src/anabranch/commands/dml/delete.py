"""DELETE: rows that satisfy a condition leave the table."""

from __future__ import annotations

from pyspark.sql import Column

from anabranch.commands.data_files import rows_kept_tags
from anabranch.commands.dml.change_data import with_deletes_recorded
from anabranch.commands.dml.row_deletion import delete_rows
from anabranch.commands.dml.row_selection import older_version_read, record, rows_asked_for, satisfying, select_rows
from anabranch.commands.dml.statement import (
    Outcome,
    Prepared,
    Stopwatch,
    check_may_change_rows,
    execute,
    uses_vectors,
)
from anabranch.commands.dml.target_table import TargetRows, understand
from anabranch.commands.table_access import TableRef
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.read_set import RowsOfFile


def prepare_delete(table: TableRef, condition: Column | str | None = None, *, alias: RowNames = None) -> Prepared:
    """A DELETE of the rows for which `condition` is true, all rows where there is none: all of it but its commit.

    Raises Spark's `AnalysisException` for a condition that makes no sense, and `AppendOnlyTableError`.
    """
    return _prepared(table, condition, alias, table.latest())


def _prepared(table: TableRef, condition: Column | str | None, alias: RowNames, snapshot: Snapshot) -> Prepared:
    watch = Stopwatch(table)
    check_may_change_rows(table, snapshot, "DELETE")
    asked = None if condition is None else understand(table, snapshot, condition, alias=alias)
    operation = Operation(name="DELETE", parameters={"predicate": [] if asked is None else [asked.text]})
    transaction = table.begin_at(operation, snapshot=snapshot)
    target = TargetRows(table, snapshot, transaction.vectors, alias=alias)
    transaction.describe_rows = target.described
    asking = select_rows(target, asked)
    if asked is not None and asked.has_subquery:
        older = older_version_read(target, satisfying(target.read(asking.candidates), asked))
        if older is not None:
            return _prepared(table, condition, alias, table.delta_log.snapshots.at_version(older))
    with watch.measured("scanTimeMs"):
        rows = rows_asked_for(target, asking)
    record(transaction, target, asking, rows)
    with watch.measured("rewriteTimeMs"):
        changes = with_deletes_recorded(target, rows, delete_rows(target, rows, by_vectors=uses_vectors(snapshot)))
    deleted = {} if changes.num_rows is None else {"numDeletedRows": changes.num_rows}
    return Prepared(
        transaction,
        changes.actions(),
        num_affected_rows=changes.num_rows or 0,
        deleted_rows=changes.deleted_rows,
        metrics={**changes.metrics(), **deleted, **watch.metrics("scanTimeMs", "rewriteTimeMs")},
        tags=rows_kept_tags(table, snapshot),
    )


# TRUNCATE TABLE: all rows leave the table, none of them read.


def truncate(table: TableRef) -> Outcome:
    """Remove every row. Raises `AppendOnlyTableError`, and the errors of `errors.commits`."""
    return execute(table, lambda: _prepare(table))


def _prepare(table: TableRef) -> Prepared:
    watch = Stopwatch(table)
    snapshot = table.latest()
    check_may_change_rows(table, snapshot, "TRUNCATE TABLE")
    transaction = table.begin_at(Operation(name="TRUNCATE", parameters={}), snapshot=snapshot)
    transaction.record_whole_table()
    everything = [RowsOfFile(file=add, positions=None) for add in snapshot.files.to_actions(None)]
    changes = delete_rows(TargetRows(table, snapshot, transaction.vectors), everything, by_vectors=False)
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
