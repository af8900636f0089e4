"""MERGE: rows of a source update, delete and insert rows of a table."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.dml.identity_high_water import marks_alone
from anabranch.commands.dml.query_reads import record_query_reads
from anabranch.commands.dml.statement import (
    Outcome,
    Prepared,
    Stopwatch,
    check_may_change_rows,
    check_resolved,
    released_on_failure,
    run_statement,
    version_to_read,
)
from anabranch.commands.dml.target_table import TargetRows, begin_at_version_read
from anabranch.commands.merge.merge_at_once import merge_at_once
from anabranch.commands.merge.merge_plan import MergePlan, plan_merge
from anabranch.commands.merge.merge_rows import MergeRun, mark_rows, record_rows
from anabranch.commands.merge.merge_sample import with_sample
from anabranch.commands.merge.merge_source import measure
from anabranch.commands.merge.merge_statement import MergeStatement
from anabranch.commands.merge.merge_write import write_merge
from anabranch.commands.table_access import TableRef
from anabranch.errors.dml import MergeOfOtherColumnsError
from anabranch.protocol.features import check_writable
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.cached_rows import materialize, with_kept_batches
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.statement_retry import FIRST, Attempt
from anabranch.transactions.transaction import Transaction

_PARTS = ("materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs")


def merge(
    table: TableRef, make_statement: Callable[[], MergeStatement], *, conflict_retries: int | str | None = None
) -> Outcome:
    """Change, delete and insert rows of the table as the statement says; `counts` of the outcome has how many.

    Each execution makes the statement again, so that its source may read newer versions. Raises the errors of
    `errors.dml`, `AssignmentError`, those of columns and values that do not fit (`errors.schema`,
    `errors.constraints`), `AppendOnlyTableError`, Spark's `AnalysisException`, and the errors of `errors.commits`.
    """
    outcome = run_statement(
        table,
        "MERGE",
        lambda attempt: prepare_merge(table, make_statement(), attempt),
        conflict_retries=conflict_retries,
    )
    if table.entry is not None:
        register_if_changed(table, table.entry, outcome.committed)
    return outcome


def prepare_merge(table: TableRef, statement: MergeStatement, attempt: Attempt = FIRST) -> Prepared:
    """All of a MERGE but its commit."""
    latest = version_to_read(table, attempt, statement.alias)
    statement.check(table=table.label)
    source_versions = versions_read(statement.source, table.path)
    first = _version_read(table, latest, source_versions)
    watch = Stopwatch(table)
    with _unknown_columns_named(table), released_on_failure() as cached:
        if source_versions:
            # What the source reads of the table may be decided by rows of a batch, which must then be the same later.
            cached.append(with_kept_batches(statement.source))
            statement = dataclasses.replace(statement, source=cached[-1].frame)
        with watch.measured("materializeSourceTimeMs"):
            source = materialize(statement.source, counts=False)
        cached.append(source)
        plan = begin_at_version_read(table, first, lambda snapshot: _plan(table, snapshot, statement, source.frame))
        transaction, target = _begin(plan)
        _record_other_reads(transaction, plan, source_versions)
        with watch.measured("materializeSourceTimeMs"), typed_violations():
            facts = measure(source.frame, plan.on.keys, partition_columns=plan.snapshot.partition_columns)
        run = MergeRun.of(plan, target, facts, reserved=attempt.reserved)
        with watch.measured("scanTimeMs", phase="find matches"):
            run = run.with_key_filter() if run.filters_rows else run
            run = with_sample(run) if run.may_read_twice else run
            marked = None if run.writes_at_once else mark_rows(run, cached)
        with watch.measured("rewriteTimeMs"):
            marked, merged = merge_at_once(run) if marked is None else (marked, write_merge(run, marked))
        record_rows(transaction, run, marked)
        counts = {
            "updated": marked.num_updated,
            "deleted": marked.num_deleted,
            "inserted": (merged.written.num_rows if merged.written is not None else 0) - marked.num_updated,
        }
        changes = merged.changes.metrics(merged.written)
        metrics = merge_metrics(changes, {**marked.counts, **counts}, num_source_rows=facts.num_rows)
        return Prepared(
            transaction,
            [*merged.table_actions, *merged.changes.actions(merged.written)],
            num_affected_rows=sum(counts.values()),
            deleted_rows=merged.changes.deleted_rows,
            counts=counts,
            metrics={**metrics, **watch.metrics(*_PARTS)},
            tags=rows_kept_tags(plan.snapshot),
            edited_properties=marks_alone(plan.snapshot, plan.target.metadata, merged.table_actions)
            if merged.generated
            else None,
            on_new_columns=plan.rows_with_columns,
            generated=merged.generated,
            cached=cached,
        )


@contextlib.contextmanager
def _unknown_columns_named(table: TableRef) -> Iterator[None]:
    """Raises `MergeOfOtherColumnsError` instead of Spark's error for columns of neither the table nor the source."""
    try:
        yield
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("MISSING_ATTRIBUTES"):
            raise
        missing = (error.getMessageParameters() or {}).get("missingAttributes", "")
        raise MergeOfOtherColumnsError(table=table.label, columns=missing) from None


def _version_read(table: TableRef, latest: Snapshot, source_versions: Collection[int]) -> Snapshot:
    """The oldest version of the table that the source reads; the latest where it reads none.

    The statement depends on what the source has read; commits since then must count as winners.
    """
    oldest = min(source_versions, default=latest.version)
    return latest if oldest >= latest.version else table.delta_log.snapshots.at_version(oldest)


def _plan(table: TableRef, snapshot: Snapshot, statement: MergeStatement, source: DataFrame) -> MergePlan:
    """Plan the statement. Raises a typed error where the table may not be changed."""
    check_resolved(statement.alias, snapshot)
    if statement.only_inserts:
        # It is an append, which an append-only table allows.
        check_writable(snapshot.protocol, table=table.label)
    else:
        check_may_change_rows(table, snapshot, "MERGE")
    return plan_merge(table, snapshot, statement, source)


def _begin(plan: MergePlan) -> tuple[Transaction, TargetRows]:
    operation = Operation(name="MERGE", parameters=plan.parameters())
    transaction = plan.table.begin_at(operation, snapshot=plan.snapshot)
    target = TargetRows(plan.table, plan.snapshot, transaction.vectors, alias=plan.statement.alias)
    transaction.describe_rows = target.described
    return transaction, target


def _record_other_reads(transaction: Transaction, plan: MergePlan, source_versions: frozenset[int]) -> None:
    """Record what subqueries in values, and the source, read of the table itself."""
    if plan.planner.subquery_frames:
        transaction.record_whole_table()
    if not source_versions:
        return
    if source_versions != {plan.snapshot.version}:
        # A row that the source has read, and that was added and deleted since this version, would never be checked.
        transaction.record_whole_table()
        return
    record_query_reads(plan.table, plan.statement.source, plan.snapshot, transaction, at_snapshot=True)


def merge_metrics(changes: Mapping[str, int], counts: Mapping[str, int], *, num_source_rows: int) -> dict[str, int]:
    """`operationMetrics` by Delta's names, from the metrics of `RowChanges` and the rows by what was done to them."""
    updated = counts["matched updated"] + counts["unmatched updated"]
    deleted = counts["matched deleted"] + counts["unmatched deleted"]
    copied = changes["numCopiedRows"]
    return {
        "numSourceRows": num_source_rows,
        "numTargetRowsInserted": counts["inserted"],
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": counts["matched updated"],
        "numTargetRowsNotMatchedBySourceUpdated": counts["unmatched updated"],
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": counts["matched deleted"],
        "numTargetRowsNotMatchedBySourceDeleted": counts["unmatched deleted"],
        "numTargetRowsCopied": copied,
        "numOutputRows": counts["inserted"] + updated + copied,
        "numTargetFilesAdded": changes["numAddedFiles"],
        "numTargetFilesRemoved": changes["numRemovedFiles"],
        "numTargetBytesAdded": changes["numAddedBytes"],
        "numTargetBytesRemoved": changes["numRemovedBytes"],
        "numTargetChangeFilesAdded": changes["numAddedChangeFiles"],
        "numTargetDeletionVectorsAdded": changes["numDeletionVectorsAdded"],
        "numTargetDeletionVectorsRemoved": changes["numDeletionVectorsRemoved"],
        "numTargetDeletionVectorsUpdated": changes["numDeletionVectorsUpdated"],
    }
