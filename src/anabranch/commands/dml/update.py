"""UPDATE: rows that satisfy a condition get new values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.data_files import rows_kept_tags
from anabranch.commands.dml.assignments import Assignments, Value, assignments, check_of_one_row, with_defaults
from anabranch.commands.dml.change_data import both_images, old_names, old_values, records_changes, tell
from anabranch.commands.dml.row_deletion import Replacement, RowChanges, replace_rows, write_new_rows
from anabranch.commands.dml.row_selection import (
    found_rows,
    older_version_read,
    record,
    satisfying,
    select_rows,
    whole_files,
)
from anabranch.commands.dml.statement import (
    Prepared,
    Stopwatch,
    check_may_change_rows,
    uses_vectors,
)
from anabranch.commands.dml.target_table import TargetRows, understand
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_target import store_assignment
from anabranch.errors.arguments import IdentityAssignmentError
from anabranch.schema.computed_columns import identity_columns
from anabranch.schema.enforcement import Fill, WriteApi, fill_of, plan_write, rules_for
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames
from anabranch.spark.conditions.repeatable_rows import cache_or_checkpoint
from anabranch.spark.conditions.user_condition import empty_frame, has_subquery, subqueries_may_read
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, WrittenFiles
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.row_tracking import stored_tracking_columns
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.conform import conform
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.read_set import RowsOfFile

_POSITION = (FILE_ID_COLUMN, ROW_INDEX_COLUMN)


def prepare_update(
    table: TableRef, given: Mapping[str, Value], condition: Column | str | None = None, *, alias: RowNames = None
) -> Prepared:
    """An UPDATE of the rows for which `condition` is true, all rows where there is none: all of it but its commit.

    Raises Spark's `AnalysisException` for expressions that make no sense, `AssignmentError`, the errors of a value
    that does not fit (`errors.constraints`), and `AppendOnlyTableError`.
    """
    return _prepared(table, given, condition, alias, table.latest())


def _prepared(
    table: TableRef,
    given: Mapping[str, Value],
    condition: Column | str | None,
    alias: RowNames,
    snapshot: Snapshot,
) -> Prepared:
    watch = Stopwatch(table)
    check_may_change_rows(table, snapshot, "UPDATE")
    values = with_defaults(given, snapshot.schema, table=table.label, alias=alias)
    setting = assignments(values, snapshot.schema, table=table.label, alias=alias)
    _check_sets_no_identity(setting, snapshot, table=table.label)
    asked = None if condition is None else understand(table, snapshot, condition, alias=alias)
    operation = Operation(name="UPDATE", parameters={"predicate": [] if asked is None else [asked.text]})
    transaction = table.begin_at(operation, snapshot=snapshot)
    target = TargetRows(table, snapshot, transaction.vectors, alias=alias)
    transaction.describe_rows = target.described
    asking = select_rows(target, asked)
    read = target.read(asking.candidates)
    changed = _changed(target, satisfying(read, asked), setting)
    if has_subquery(changed):
        older = older_version_read(target, changed)
        if older is not None:
            return _prepared(table, given, condition, alias, table.delta_log.snapshots.at_version(older))
        if _values_may_read(target, setting):
            transaction.record_whole_table()
    if not asking.candidates.any():
        record(transaction, target, asking, ())
        return Prepared(transaction, (), num_affected_rows=0)
    # Computed once: what is written is what was marked, whatever the expressions are.
    kept_rows = cache_or_checkpoint(changed)
    changed = kept_rows.frame
    try:
        with watch.measured("scanTimeMs"), typed_violations():
            rows = (
                found_rows(read, changed)
                if asking.partly_matching.any()
                else whole_files(target, asking.fully_matching)
            )
        record(transaction, target, asking, rows)
        with watch.measured("rewriteTimeMs"):
            changes, written = _replaced(target, changed, rows)
    except BaseException:
        kept_rows.release()
        raise
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
        tags=rows_kept_tags(table, snapshot),
        kept=(kept_rows,),
    )


def _values_may_read(target: TargetRows, setting: Assignments) -> bool:
    """Whether a subquery in the new values may depend on rows of the table. What it asks of other tables stands still;
    of the condition's subqueries `understand` knows.
    """
    schema, table = target.snapshot.schema, target.table
    rows = empty_frame(table.session.spark, schema, target.alias)
    values = rows.select(
        *(setting.value(field, F.col(quote(field.name))) for field in schema if setting.sets(field.name))
    )
    return subqueries_may_read(values, lambda frame: bool(versions_read(frame, table.path)))


def _check_sets_no_identity(setting: Assignments, snapshot: Snapshot, *, table: str) -> None:
    for name in identity_columns(snapshot.schema, table):
        if setting.sets(name):
            raise IdentityAssignmentError(table=table, column=quoted([name]))


def _replaced(
    target: TargetRows, changed: DataFrame, rows: Sequence[RowsOfFile]
) -> tuple[RowChanges, WrittenFiles | None]:
    """The old rows gone and the new ones written, with what a change data feed shows of both."""
    snapshot = target.snapshot
    replacement = replace_rows(target, rows, by_vectors=uses_vectors(snapshot))
    if not rows:
        return replacement.changes, None
    written = _written(target, changed, replacement)
    if not records_changes(snapshot):
        return replacement.changes, written
    images = tell(target.table, snapshot, both_images(changed, snapshot.schema))
    return dataclasses.replace(replacement.changes, change_files=images), written


def _written(target: TargetRows, changed: DataFrame, replacement: Replacement) -> WrittenFiles:
    names = without_void(target.snapshot.schema).fieldNames()
    frame = replacement.together(changed.select(*map(quote, names), *stored_tracking_columns(target.tracking)))
    return replacement.without_staying(write_new_rows(target, frame))


def _changed(target: TargetRows, frame: DataFrame, setting: Assignments) -> DataFrame:
    """The rows with their new values, as the table takes them, their positions, and their ids, if they have some."""
    snapshot, table = target.snapshot, target.table
    # A generated column that is not set is computed anew.
    given = [f for f in snapshot.schema if setting.sets(f.name) or fill_of(f)[0] is not Fill.GENERATED]
    named = {field.name: setting.value(field, F.col(quote(field.name))) for field in given}
    if not isinstance(target.alias, BoundAttributes):
        # Without columns of ours, which Spark would suggest for one that is not there.
        check_of_one_row(
            frame.drop(*_POSITION),
            {name: value for name, value in named.items() if setting.sets(name)},
            table=table.label,
        )
    values = [value.alias(name) for name, value in named.items()]
    tells = records_changes(snapshot)
    placed = (*_POSITION, *(() if target.tracking is None else (target.tracking.row_id,)))
    keep = (*placed, *(old_names(snapshot.schema) if tells else ()))
    rows = frame.select(*values, *map(quote, placed), *(old_values(snapshot.schema) if tells else ()))
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
