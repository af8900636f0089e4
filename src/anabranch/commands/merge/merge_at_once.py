"""A MERGE of large tables or sources writes rows by the join that finds them, so that it reads and joins them once.

A commit says which rows of a file change, and several rows of the source must not change one row. To know both before
the write takes a join of its own, or a cache of what it finds; here the rows are marked while they are written.
"""

from __future__ import annotations

import dataclasses

from anabranch.change_feed.feed_columns import DELETE, UPDATE_PREIMAGE
from anabranch.commands.data_files import delete_data_files
from anabranch.commands.dml.row_changes import delete_rows, write_rows_by_position
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.dml.target_table import ReadFiles
from anabranch.commands.merge.merge_join import ACTION_COLUMN, INSERTION_COLUMN
from anabranch.commands.merge.merge_rows import MarkedRows, MergeRun, mark_rows, marked_rows
from anabranch.commands.merge.merge_write import MergeChanges, feeds_at_once, write_at_once
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.spark.conditions.repeatable_rows import is_deterministic
from anabranch.spark.rows.row_marks import RowMarks


def merge_at_once(run: MergeRun) -> tuple[MarkedRows, MergeChanges]:
    """Write the rows, and delete those that change. Nothing is committed.

    Raises `AmbiguousMergeError`, and leaves none of the files then.
    """
    read, plan = run.target.read(run.files), run.plan
    joined = run.join.written_at_once(
        run.that_may_match(read.frame),
        plan.updates,
        plan.inserts if run.has_new_rows else (),
        keeps=run.id_columns,
        outputs=plan.outputs.names,
    )
    clauses = [f"{ACTION_COLUMN} = {number}" for number in plan.updates]
    rows = RowMarks(
        joined,
        group_by=f"coalesce({ACTION_COLUMN}, {INSERTION_COLUMN})",
        condition=" OR ".join([*clauses, f"{INSERTION_COLUMN} IS NOT NULL"]),
    )
    merged = write_at_once(run, rows.rows, repeatable=is_deterministic(joined))
    marked, change_files = _marked(run, read, rows, merged), merged.changes.change_files
    if marked is None:
        try:
            marked = mark_rows(run, None)
        except AmbiguousMergeError:
            if merged.written is not None:
                delete_data_files(run.table, [*merged.written.adds, *change_files])
            raise
    if feeds_at_once(run):
        old = {UPDATE_PREIMAGE: marked.rows(marked.updated), DELETE: marked.rows(marked.deleted)}
        change_files = (*change_files, *write_rows_by_position(run.target, old))
    changes = delete_rows(run.target, marked.changed_rows(), by_vectors=uses_vectors(run.snapshot))
    return marked, dataclasses.replace(merged, changes=dataclasses.replace(changes, change_files=change_files))


def _marked(run: MergeRun, read: ReadFiles, rows: RowMarks, merged: MergeChanges) -> MarkedRows | None:
    """The rows that were marked while they were written.

    None where another join must find them: several rows of the source change one, or executors could not mark them.
    """
    marks = rows.marks()
    if marks is None:
        return None
    marked = marked_rows(marks, read, run.statement)
    num_new = sum(new.count for new in marks if new.file_id is None and new.group)
    num_written = 0 if merged.written is None else merged.written.num_rows
    return None if marked.is_ambiguous or marked.num_updated + num_new != num_written else marked
