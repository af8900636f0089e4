"""DELETE and TRUNCATE TABLE: rows leave the table."""

from __future__ import annotations

from pyspark.sql import Column

from anabranch.commands.dml.row_changes import delete_rows, with_deletes_recorded
from anabranch.commands.dml.statement import (
    Outcome,
    Prepared,
    Stopwatch,
    check_may_change_rows,
    run_statement,
    uses_vectors,
    version_to_read,
)
from anabranch.commands.dml.target_table import (
    BegunStatement,
    TargetRows,
    begin_at_version_read,
    begin_statement,
    record_selection,
    selected_rows,
)
from anabranch.commands.table_access import TableRef
from anabranch.progress.progress_events import begin_phase
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.statement_retry import FIRST, Attempt


def prepare_delete(
    table: TableRef, condition: Column | str | None = None, *, alias: RowNames = None, attempt: Attempt = FIRST
) -> Prepared:
    """A DELETE of the rows for which `condition` is true, or of all rows without one: all of it but its commit.

    Raises Spark's `AnalysisException` for a condition that makes no sense, and `AppendOnlyTableError`.
    """

    def begin(snapshot: Snapshot) -> BegunStatement:
        check_may_change_rows(table, snapshot, "DELETE")
        return begin_statement("DELETE", table, snapshot, condition, alias=alias)

    latest = version_to_read(table, attempt, alias)
    watch = Stopwatch(table)
    begin_phase("find rows")
    begun = begin_at_version_read(table, latest, begin)
    transaction, target, snapshot = begun.transaction, begun.target, begun.snapshot
    with watch.measured("scanTimeMs"):
        rows = selected_rows(target, begun.selection)
    record_selection(transaction, target, begun.selection, rows)
    with watch.measured("rewriteTimeMs"):
        changes = delete_rows(target, rows, by_vectors=uses_vectors(snapshot))
        changes = with_deletes_recorded(target, rows, changes)
    deleted = {} if changes.num_rows is None else {"numDeletedRows": changes.num_rows}
    return Prepared(
        transaction,
        changes.actions(),
        num_affected_rows=changes.num_rows or 0,
        deleted_rows=changes.deleted_rows,
        metrics={**changes.metrics(), **deleted, **watch.metrics("scanTimeMs", "rewriteTimeMs")},
        tags=rows_kept_tags(snapshot),
    )


def truncate(table: TableRef) -> Outcome:
    """Remove every row. Raises `AppendOnlyTableError`, and the errors of `errors.commits`."""
    return run_statement(table, "TRUNCATE", lambda _: prepare_truncate(table))


def prepare_truncate(table: TableRef) -> Prepared:
    """TRUNCATE TABLE, which removes all files and reads none of them: all of it but its commit."""
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
