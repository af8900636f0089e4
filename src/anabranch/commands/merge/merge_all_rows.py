"""A MERGE that seems to update every row of its files writes the rows first, and looks for them only if it did not.

A commit says which rows of a file change, and several rows of the source must not change one row, so a MERGE joins the
table and the source to find that out, and many rows once more to write them. But if an outer join has each row of the
table once, with a row of the source, every row is updated by one: there is nothing to find out. Such a join writes new
rows, too.
"""

from __future__ import annotations

import contextlib
import dataclasses

from anabranch.commands.dml.change_data import records_changes
from anabranch.commands.dml.row_deletion import delete_rows
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.merge.merge_rows import MarkedRows, MergeRun, mark_rows, no_counts
from anabranch.commands.merge.merge_write import MergeChanges
from anabranch.commands.table_access import TableRef
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.errors.environment import StorageError
from anabranch.protocol.data_paths import decode_path
from anabranch.schema.computed_columns import identity_columns


def all_rows(run: MergeRun) -> MarkedRows | None:
    """All rows of the files as if each was updated, not known to be so; None where that is not to be expected.

    Their frame has those that are, and the new ones.
    """
    if not _may_update_all(run):
        return None
    files = run.snapshot.files.to_actions(run.files)
    positions = run.target.all_rows(files)
    if positions is None:
        return None
    num_rows = sum(map(len, positions.values()))
    if run.facts.num_rows < num_rows:
        return None
    read = run.target.read(run.files, pruned=False)
    changed = {file_id: positions[file.key] for file_id, file in enumerate(files)}
    return MarkedRows(
        frame=run.join.written_at_once(
            read.frame,
            run.plan.updates,
            run.plan.inserts,
            keeps=run.id_columns,
            outputs=run.plan.outputs.names,
        ),
        read=read,
        changed=changed,
        matched=changed,
        num_pairs=num_rows,
        counts={**no_counts(), "matched updated": num_rows},
        is_ambiguous=False,
        is_assumed=True,
    )


def _may_update_all(run: MergeRun) -> bool:
    """Whether the statement updates all matched rows, so many that they would be read twice, and no others."""
    statement = run.statement
    return (
        statement.changes_all_matched
        and not statement.not_matched_by_source
        and len(run.plan.updates) == len(statement.matched)
        and bool(run.plan.on.keys)
        and not run.caches_new_values
        and not records_changes(run.snapshot)
        # New rows are numbered in partitions that are fixed before the write, which Spark does not observe.
        and not (run.plan.inserts and identity_columns(run.plan.target.schema))
        and bool(run.files.any())
    )


def are_all(marked: MarkedRows, merged: MergeChanges) -> bool:
    """Whether the rows of `all_rows`, which have been written, were all that it has, each in one pair."""
    observed = () if merged.written is None else merged.written.observed
    return observed == (marked.num_updated, marked.num_updated)


def only_matched(run: MergeRun, merged: MergeChanges) -> tuple[MarkedRows, MergeChanges]:
    """The rows that were updated in truth, and the same files as the new values of these alone.

    Raises `AmbiguousMergeError`, and leaves none of the files then.
    """
    try:
        marked = mark_rows(run, None)
    except AmbiguousMergeError:
        _delete_files(run.table, merged)
        raise
    changes = delete_rows(run.target, marked.changed_rows(), by_vectors=uses_vectors(run.snapshot))
    return marked, dataclasses.replace(merged, changes=changes)


def _delete_files(table: TableRef, merged: MergeChanges) -> None:
    adds = () if merged.written is None else merged.written.adds
    # What cannot be deleted is left to VACUUM, like the files of a statement that loses to another.
    with contextlib.suppress(StorageError):
        table.delta_log.store.delete_many([decode_path(add.path, table_root=table.path) for add in adds])
