"""UPDATE: rows for which a condition is true get new values."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.data_files import delete_data_files
from anabranch.commands.dml.assignments import Assignments, Value, assignments, check_of_one_row, with_defaults
from anabranch.commands.dml.row_changes import (
    NO_CHANGES,
    Replacement,
    RowChanges,
    as_stored,
    both_images,
    delete_rows,
    old_names,
    old_values,
    records_changes,
    replace_rows,
    write_changed_rows,
    write_new_rows,
)
from anabranch.commands.dml.statement import (
    Prepared,
    Stopwatch,
    check_may_change_rows,
    released_on_failure,
    uses_vectors,
    version_to_read,
)
from anabranch.commands.dml.target_table import (
    TargetRows,
    begin_at_version_read,
    begin_statement,
    read_candidates,
    record_selection,
    satisfying,
)
from anabranch.commands.dml.update_rows import BegunUpdate, find_rows, may_write_at_once
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import IdentityAssignmentError
from anabranch.progress.progress_events import begin_phase
from anabranch.schema.computed_columns import identity_columns
from anabranch.schema.enforcement import Fill, fill_of, plan_write
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote, quoted
from anabranch.schema.write_rules import WriteApi, rules_for
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames
from anabranch.spark.conditions.user_condition import empty_frame, has_subquery, subqueries_may_read
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, WrittenFiles
from anabranch.spark.gateway.jvm_classes import select
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.row_marks import RowMarks
from anabranch.spark.session.session_settings import store_assignment
from anabranch.spark.write.conform import conform
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.statement_retry import FIRST, Attempt

_POSITION = (FILE_ID_COLUMN, ROW_INDEX_COLUMN)


def prepare_update(
    table: TableRef,
    values: Mapping[str, Value],
    condition: Column | str | None = None,
    *,
    alias: RowNames = None,
    attempt: Attempt = FIRST,
) -> Prepared:
    """An UPDATE of the rows for which `condition` is true, or of all rows without one: all of it but its commit.

    Raises Spark's `AnalysisException` for expressions that make no sense, `AssignmentError`, the errors of a value
    that does not fit (`errors.constraints`), and `AppendOnlyTableError`.
    """
    latest = version_to_read(table, attempt, alias)
    watch = Stopwatch(table)
    begin_phase("find rows")
    begun = begin_at_version_read(table, latest, lambda snapshot: _begin(table, snapshot, values, condition, alias))
    transaction, target, selection = begun.transaction, begun.target, begun.selection
    if begun.has_subquery and _values_may_read(target, begun.assignments):
        transaction.record_whole_table()
    if not selection.candidates.any():
        record_selection(transaction, target, selection, ())
        return Prepared(transaction, (), num_affected_rows=0)
    with released_on_failure() as cached:
        at_once = None
        if may_write_at_once(begun):
            with watch.measured("rewriteTimeMs"):
                at_once = _write_at_once(begun)
        if at_once is None:
            with watch.measured("scanTimeMs"), typed_violations():
                rows, changed = find_rows(begun, cached)
            with watch.measured("rewriteTimeMs"):
                changes, written = _write(target, changed, rows)
        else:
            rows, changes, written = at_once
        record_selection(transaction, target, selection, rows)
    num_updated = 0 if written is None else written.num_rows
    return Prepared(
        transaction,
        changes.actions(written),
        num_affected_rows=num_updated,
        deleted_rows=changes.deleted_rows,
        metrics={
            "numUpdatedRows": num_updated,
            **changes.metrics(written),
            **watch.metrics("scanTimeMs", "rewriteTimeMs"),
        },
        tags=rows_kept_tags(target.snapshot),
        cached=cached,
    )


def _begin(
    table: TableRef, snapshot: Snapshot, values: Mapping[str, Value], condition: Column | str | None, alias: RowNames
) -> BegunUpdate:
    """Check the statement and plan its rows. Nothing runs yet."""
    check_may_change_rows(table, snapshot, "UPDATE")
    values = with_defaults(values, snapshot.schema, table=table.label, alias=alias)
    setting = assignments(values, snapshot.schema, table=table.label, alias=alias)
    _check_sets_no_identity(setting, snapshot, table=table.label)
    begun = begin_statement("UPDATE", table, snapshot, condition, alias=alias)
    read = read_candidates(begun.target, begun.selection, begun.selection.candidates)
    with_new_values = functools.partial(_changed, begun.target, setting)
    changed = with_new_values(satisfying(read, begun.selection.condition))
    return BegunUpdate(
        transaction=begun.transaction,
        target=begun.target,
        selection=begun.selection,
        assignments=setting,
        read=read,
        with_new_values=with_new_values,
        changed=changed,
        has_subquery=has_subquery(changed),
    )


def _values_may_read(target: TargetRows, setting: Assignments) -> bool:
    """Whether a subquery in the new values may depend on rows of the table itself.

    A subquery reads other tables at one version. Subqueries of the condition are `resolve_row_condition`'s concern.
    """
    schema, table = target.snapshot.schema, target.table
    rows = empty_frame(table.session.spark, schema, target.alias)
    values = rows.select(
        *(setting.value(field, F.col(quote(field.name))) for field in schema if setting.sets(field.name))
    )
    return subqueries_may_read(values, lambda frame: bool(versions_read(frame, table.path)))


def _check_sets_no_identity(setting: Assignments, snapshot: Snapshot, *, table: str) -> None:
    """Raises `IdentityAssignmentError` for an assignment to an identity column."""
    for name in identity_columns(snapshot.schema, table):
        if setting.sets(name):
            raise IdentityAssignmentError(table=table, column=quoted([name]))


def _write(
    target: TargetRows, changed: DataFrame, rows: Sequence[RowsOfFile]
) -> tuple[RowChanges, WrittenFiles | None]:
    """Delete the old rows and write the new ones, with change data files where the table has a change data feed."""
    snapshot = target.snapshot
    replacement = replace_rows(target, rows, by_vectors=uses_vectors(snapshot))
    if not rows:
        return replacement.changes, None
    written = _write_new_rows(target, changed, replacement)
    if not records_changes(snapshot):
        return replacement.changes, written
    images = write_changed_rows(target.table, snapshot, both_images(changed, snapshot.schema))
    return dataclasses.replace(replacement.changes, change_files=images), written


def _write_at_once(begun: BegunUpdate) -> tuple[Sequence[RowsOfFile], RowChanges, WrittenFiles] | None:
    """Write the new rows by the read that finds the old ones, and delete these; None where they could not be marked."""
    target = begun.target
    marks = RowMarks(begun.changed, group_by="0", condition="true")
    written = _write_new_rows(target, marks.rows, Replacement(changes=NO_CHANGES))
    marked = marks.marks()
    if marked is None or sum(rows.count for rows in marked) != written.num_rows:
        delete_data_files(target.table, written.adds)
        return None
    rows = begun.read.rows({rows.file_id: rows.positions for rows in marked if rows.file_id is not None})
    return rows, delete_rows(target, rows, by_vectors=True), written


def _write_new_rows(target: TargetRows, changed: DataFrame, replacement: Replacement) -> WrittenFiles:
    """Write the new rows, together with the rows of their files that stay."""
    stored = as_stored(changed, without_void(target.snapshot.schema), target.tracking)
    return replacement.without_staying(write_new_rows(target, replacement.together(stored)))


def _changed(target: TargetRows, setting: Assignments, frame: DataFrame) -> DataFrame:
    """The rows with their new values, cast to the table's types, their positions, and their row ids if they have some.

    Where the table has a change data feed, their old values are beside them, named as `old_names` says.
    """
    snapshot, table = target.snapshot, target.table
    # A generated column that is not set is computed from the new values.
    fields = [f for f in snapshot.schema if setting.sets(f.name) or fill_of(f)[0] is not Fill.GENERATED]
    changing = [field for field in fields if setting.sets(field.name)]
    new_values = {field.name: setting.value(field, F.col(quote(field.name))) for field in changing}
    if not isinstance(target.alias, BoundAttributes):
        # Without our own columns, which Spark would suggest for a column that does not exist.
        check_of_one_row(frame.drop(*_POSITION), new_values, table=table.label)
    names = [field.name for field in fields]
    values = [new_values[name].alias(name) if name in new_values else quote(name) for name in names]
    keeps_old = records_changes(snapshot)
    positions = (*_POSITION, *(() if target.tracking is None else (target.tracking.row_id,)))
    keep = (*positions, *(old_names(snapshot.schema) if keeps_old else ()))
    rows = select(frame, [*values, *map(quote, positions), *(old_values(snapshot.schema) if keeps_old else ())])
    plan = plan_write(
        StructType([field for field in rows.schema if field.name not in keep]),
        snapshot.schema,
        rules_for(
            WriteApi.CHANGED_ROWS,
            overwriting=False,
            merge_schema=False,
            overwrite_schema=False,
            policy=store_assignment(table.session),
            fills_fields=False,
        ),
        table=table.label,
        constraints=snapshot.properties.constraints,
        partition_columns=snapshot.partition_columns,
    )
    return conform(rows, plan, table=table.label, keep=keep)
