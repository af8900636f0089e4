"""What a MERGE writes: deleted and changed rows leave their files, changed and new rows become data files."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.change_feed.change_files import write_change_files
from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.data_files import write_data_files
from anabranch.commands.dml.identity_high_water import generated_numbers, with_moved_marks
from anabranch.commands.dml.row_changes import (
    NO_CHANGES,
    Replacement,
    RowChanges,
    as_stored,
    delete_rows,
    files_show_changes,
    records_changes,
    replace_rows,
    write_changed_rows,
)
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.merge.merge_join import ACTION_COLUMN, APPLIED, POSITION
from anabranch.commands.merge.merge_rows import MarkedRows, MergeRun, chosen_of
from anabranch.commands.merge.merge_values import OutputColumns, set_flag
from anabranch.errors.constraints import GeneratedColumnMismatchError
from anabranch.protocol.actions import Action, AddCDCFile, Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.computed_columns import RowTrackingColumns, identity_columns
from anabranch.schema.enforcement import WritePlan, fill_of
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote, quoted
from anabranch.spark.engine import FILE_ID_COLUMN, WrittenFiles
from anabranch.spark.gateway.jvm_classes import select_sql
from anabranch.spark.rows.cached_rows import CachedRows, cache_or_checkpoint, in_spark_cache
from anabranch.spark.write.conform import conform
from anabranch.spark.write.row_checks import refuse_when
from anabranch.spark.write.row_rules import stored_value
from anabranch.transactions.reserved_numbers import NumberRange

ROWS_OF_FILE = 250_000
"""About how many of the rows go into one file: few files for few rows, and still work for all cores."""

JOINED_ROWS_RATIO_MAX = 4
"""A task that writes rows of a source may join so many times as many of the table to them."""

_NEW_ROW = "__anabranch_new_row"
_BOTH = "both"
"""The type of change of rows of `MergeJoin.written_at_once`, which a change data feed does not have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeChanges:
    """What a MERGE has written. Nothing is committed."""

    changes: RowChanges
    """The deleted rows, and all change data files."""
    written: WrittenFiles | None
    """The files of changed and new rows; None where there are none."""
    table_actions: tuple[Action, ...]
    """Changes of the table itself, such as its schema."""
    generated: Mapping[str, NumberRange] = dataclasses.field(default_factory=dict)
    """The numbers of identity columns in the new files."""


def write_merge(run: MergeRun, marked: MarkedRows) -> MergeChanges:
    """Delete the rows that change, and write what they become, the new rows, and change data files."""
    changed = _changed_rows(run, marked)
    replacement = _replacement(run, marked)
    changes = replacement.changes
    feeds = records_changes(run.snapshot) and (marked.num_updated > 0 or not files_show_changes(changes))
    rows = _rows_to_write(run, marked, changed)
    if rows:
        num_rows_max = marked.num_updated + (run.facts.num_rows if run.has_new_rows else 0)
        merged = _write_rows(run, rows, replacement, num_rows_max=num_rows_max, feeds=feeds)
    else:
        merged = MergeChanges(changes=changes, written=None, table_actions=run.plan.target.actions)
    if feeds and changed is not None:
        change_files = (*merged.changes.change_files, *_write_old_rows(run, changed))
        merged = dataclasses.replace(merged, changes=dataclasses.replace(changes, change_files=change_files))
    return merged


def write_at_once(run: MergeRun, rows: DataFrame, *, repeatable: bool) -> MergeChanges:
    """Write rows of `MergeJoin.written_at_once`. The old ones of those that are updated are not deleted.

    `repeatable` says that another evaluation has the same rows.
    """
    num_rows_max = run.num_written_max
    if num_rows_max > ROWS_OF_FILE and not run.has_new_rows:
        num_rows_max = min(num_rows_max, run.num_rows)
    return _write_rows(
        run,
        {_BOTH if run.plan.updates else INSERT: rows},
        Replacement(changes=NO_CHANGES),
        num_rows_max=int(num_rows_max),
        feeds=feeds_at_once(run),
        repeatable=repeatable,
        shuffles=_joins_many_rows(run),
    )


def feeds_at_once(run: MergeRun) -> bool:
    """Whether rows that are written at once need change data files, as far as is known before the write."""
    if not records_changes(run.snapshot) or run.statement.only_inserts:
        return False
    # Vectors show which rows are deleted.
    return bool(run.plan.updates) or not uses_vectors(run.snapshot)


def _joins_many_rows(run: MergeRun) -> bool:
    """Whether the join takes more tasks than the write of its rows."""
    if run.join.source_is_small and not run.has_new_rows:
        # The source is broadcast, so the tasks that read the table join its rows.
        return True
    return not run.facts.has_key_filter and run.num_rows > JOINED_ROWS_RATIO_MAX * run.facts.num_rows


def _changed_rows(run: MergeRun, marked: MarkedRows) -> DataFrame | None:
    """The rows to which a clause applies, with their new values; None where there are none, or new rows beside them."""
    frame = marked.frame
    if frame is None or not marked.changed:
        return None
    plan = run.plan
    if marked.num_updated and not set(plan.outputs.columns) <= set(frame.columns):
        # They were too many to be cached with their new values. The same join matches the same rows again.
        files = chosen_of(run.files, marked.changed)
        keeps = [*(run.snapshot.schema.fieldNames() if run.keeps_old_values else ()), *run.id_columns]
        rows = run.that_may_match(run.target.read(files).frame)
        frame = run.join.decided(rows, plan.updates, keeps=keeps, outputs=plan.outputs.names)
    return frame.where(APPLIED)


def _replacement(run: MergeRun, marked: MarkedRows) -> Replacement:
    """Delete the rows that change; the rows of their files that stay are written together with the new ones."""
    by_vectors, rows = uses_vectors(run.snapshot), marked.changed_rows()
    writes = marked.num_updated > 0 or run.has_new_rows
    # Rows that stay have the old schema. And identity columns count on from the values in the files of new rows, which
    # therefore must hold no others.
    is_alike = run.plan.target.schema == run.snapshot.schema and not identity_columns(run.snapshot.schema)
    if writes and is_alike:
        return replace_rows(run.target, rows, by_vectors=by_vectors)
    return Replacement(changes=delete_rows(run.target, rows, by_vectors=by_vectors))


def _rows_to_write(run: MergeRun, marked: MarkedRows, changed: DataFrame | None) -> dict[str, DataFrame]:
    """Updated and new rows with their values, by their type of change in a change data feed."""
    plan = run.plan
    frames = {}
    if changed is not None and marked.num_updated:
        frames[UPDATE_POSTIMAGE] = changed.where(f"{ACTION_COLUMN} IN ({', '.join(map(str, sorted(plan.updates)))})")
    if run.has_new_rows:
        matched = None
        if marked.frame is not None and marked.matched:
            matched = marked.frame.where(f"{ACTION_COLUMN} < {len(run.statement.matched)}")
        are_few = plan.broadcasts(plan.fields_of_condition, marked.num_pairs)
        frames[INSERT] = run.join.inserted(matched, plan.inserts, plan.outputs.names, matched_are_few=are_few)
    return frames


def _write_old_rows(run: MergeRun, changed: DataFrame) -> tuple[AddCDCFile, ...]:
    """Write change data files with the old values of updated and deleted rows."""
    if run.statement.deletes_all_matched:
        # A row that several rows of the source match is deleted once.
        changed = changed.dropDuplicates(list(POSITION))
    is_update = F.col(ACTION_COLUMN).isin(sorted(run.plan.updates))
    change = F.when(is_update, UPDATE_PREIMAGE).otherwise(DELETE)
    return write_changed_rows(run.table, run.snapshot, changed.withColumn(CHANGE_TYPE, change))


def _table_actions(run: MergeRun, numbers: Mapping[str, NumberRange]) -> tuple[Action, ...]:
    """The changes of the table itself: its schema, and the high-water marks of its identity columns."""
    target = run.plan.target
    metadata = target.metadata
    if numbers:
        metadata = with_moved_marks(metadata, numbers, table=run.table.label, reserved=run.reserved)
    others = tuple(action for action in target.actions if not isinstance(action, Metadata))
    return others if metadata == run.snapshot.metadata else (*others, metadata)


def _write_rows(
    run: MergeRun,
    frames: Mapping[str, DataFrame],
    replacement: Replacement,
    *,
    num_rows_max: int,
    feeds: bool = False,
    repeatable: bool = False,
    shuffles: bool = False,
) -> MergeChanges:
    """Write the rows of all frames as data files and, with `feeds`, also as change data files.

    Changed rows have their ids in a column of the frame, and keep them. There are about `num_rows_max` rows, or fewer.
    """
    table, target = run.table, run.plan.target
    properties = TableProperties(target.metadata.configuration)
    partition_columns = tuple(target.metadata.partition_columns)
    schema = without_void(target.schema)
    has_only_new_rows = frames.keys() == {INSERT} and replacement.staying is None
    tracking = None if has_only_new_rows else run.target.tracking
    added = [*([CHANGE_TYPE] if feeds else []), *([] if tracking is None else [tracking.row_id])]
    ready, plan = _conformed(run, _union(frames, run.plan.outputs, added, tracking), added)
    # Partitions may be by generated columns, so rows are brought together only after these are computed.
    together = _together(ready, partition_columns, _tasks(num_rows_max), shuffles=shuffles)
    rows = _verified(together, run.plan.outputs, plan, table=table.label)
    with contextlib.ExitStack() as finished:
        if feeds:
            # Computed once, so that the feed has exactly the rows that are in the table.
            cache = _cached(rows, [*schema.fieldNames(), *added], repeatable=repeatable)
            finished.callback(cache.release)
            rows = cache.frame
        written = write_data_files(
            table,
            replacement.together(as_stored(rows, schema, tracking), tasks_min=_tasks(num_rows_max)),
            schema=schema if tracking is None else tracking.added_to(schema),
            partition_columns=partition_columns,
            properties=properties,
        )
        change_files: tuple[AddCDCFile, ...] = ()
        if feeds:
            change_files = write_change_files(
                table.session.engine,
                rows,
                table_root=table.path,
                schema=schema,
                partition_columns=partition_columns,
                properties=properties,
                options=table.storage,
            )
    written = replacement.without_staying(written)
    numbers = dict[str, NumberRange]()
    if identity := plan.generates_identity:
        numbers = generated_numbers(target.metadata, written.adds, identity, table=table.label, reserved=run.reserved)
    return MergeChanges(
        changes=dataclasses.replace(replacement.changes, change_files=change_files),
        written=written,
        table_actions=_table_actions(run, numbers),
        generated=numbers,
    )


def _cached(rows: DataFrame, names: Sequence[str], *, repeatable: bool) -> CachedRows:
    """These columns of the rows. With `repeatable` they are computed again where an executor is lost.

    Of a plan that marks rows Spark does not know that it has the same ones again.
    """
    frame = rows.select(*(rows[quote(name)] for name in names))
    return in_spark_cache(frame) if repeatable else cache_or_checkpoint(frame)


def _union(
    frames: Mapping[str, DataFrame], outputs: OutputColumns, added: Sequence[str], tracking: RowTrackingColumns | None
) -> DataFrame:
    """The rows of all frames, with the outputs and the added columns; new rows have no row id yet.

    Outputs for the table's columns have the names of these.
    """
    columns = [f"{outputs.at(field.name)} AS {quote(field.name)}" for field in outputs.plain]
    columns += _checked_outputs(outputs)
    first, *others = (
        select_sql(frame, [*columns, *(_added(name, change, tracking) for name in (*added, _NEW_ROW))])
        for change, frame in frames.items()
    )
    for other in others:
        first = first.union(other)
    return first


def _added(name: str, change: str, tracking: RowTrackingColumns | None) -> str:
    """An added column of rows with this type of change, as SQL."""
    if tracking is not None and name == tracking.row_id:
        return f"CAST(NULL AS BIGINT) AS {quote(name)}" if change == INSERT else quote(name)
    if name == CHANGE_TYPE:
        value = f"IF({FILE_ID_COLUMN} IS NULL, '{INSERT}', '{UPDATE_POSTIMAGE}')" if change == _BOTH else f"'{change}'"
    else:
        value = f"{FILE_ID_COLUMN} IS NULL" if change == _BOTH else str(change == INSERT)
    return f"{value} AS {quote(name)}"


def _checked_outputs(outputs: OutputColumns) -> list[str]:
    """The names in a frame of explicit values of generated columns, and of the flags that say where they are set."""
    return [outputs.at(name) for field in outputs.explicit for name in (field.name, set_flag(field.name))]


def _conformed(run: MergeRun, rows: DataFrame, added: Sequence[str]) -> tuple[DataFrame, WritePlan]:
    """The rows as the table stores them, with the added columns, and the explicit values of generated columns."""
    outputs, target = run.plan.outputs, run.plan.target
    data = StructType(list(outputs.plain))
    plan = run.plan.planner.plan_rows(data, target.metadata, has_new_rows=run.has_new_rows)
    keep = [*_checked_outputs(outputs), *added]
    first_numbers = None if run.reserved is None else run.reserved.first_numbers
    ready = conform(rows, plan, table=run.table.label, keep=keep, new_rows=_NEW_ROW, first_numbers=first_numbers)
    return ready, plan


def _together(rows: DataFrame, partition_columns: Sequence[str], tasks: int, *, shuffles: bool) -> DataFrame:
    """The rows in as many tasks as there should be files; otherwise each file that was read would make a new one.

    `shuffles` leaves the tasks that compute them as many as they are.
    """
    if partition_columns:
        return rows.repartition(*(F.col(quote(name)) for name in partition_columns))
    return rows.repartition(tasks) if shuffles else rows.coalesce(tasks)


def _tasks(rows_max: int) -> int:
    return max(1, math.ceil(rows_max / ROWS_OF_FILE))


def _verified(rows: DataFrame, outputs: OutputColumns, plan: WritePlan, *, table: str) -> DataFrame:
    """The rows, failing the job where a clause sets a generated column to another value than the computed one."""
    checked = {}
    for field in outputs.explicit:
        value, explicit = F.col(quote(field.name)), F.col(outputs.at(field.name))
        row = F.to_json(F.struct(explicit.alias(field.name), value.alias("computed")), {"ignoreNullFields": "false"})
        stored = stored_value(explicit, field, plan, row=row, table=table)
        wrong = F.col(outputs.at(set_flag(field.name))) & ~stored.eqNullSafe(value)
        facts = {"table": table, "column": quoted([field.name]), "expression": str(fill_of(field)[1])}
        checked[field.name] = refuse_when(wrong, value, GeneratedColumnMismatchError, facts, shown={"row": row})
    return rows.withColumns(checked) if checked else rows
