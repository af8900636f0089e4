"""A MERGE that seems to update every row of its files writes the rows first, and looks for them only if it did not.

Files must be told which of their rows change, and several rows of the source must not change one row, so a MERGE joins
the table and the source to find that out, and many rows once more to write them. But if a left join of all rows has as
many pairs as there are rows, and a row of the source in each of them, every row is in one pair: there is nothing to
find out.
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
from anabranch.spark.rows.cached_rows import CachedRows


def all_rows(run: MergeRun) -> MarkedRows | None:
    """All rows of the files as if each was updated, not known to be so; None where that is not to be expected.

    Their frame has only those that are.
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
        frame=run.join.decided_and_counted(
            read.frame, run.plan.updates, keeps=run.id_columns, outputs=run.plan.outputs.names
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
        statement.only_matched
        and statement.changes_all_matched
        and len(run.plan.updates) == len(statement.matched)
        and not run.caches_new_values
        and not records_changes(run.snapshot)
        and bool(run.files.any())
    )


def are_all(marked: MarkedRows, merged: MergeChanges) -> bool:
    """Whether the rows of `all_rows`, which have been written, were all that it has, each in one pair."""
    written = merged.written
    return written is not None and written.num_counted == written.num_rows == marked.num_updated


def only_matched(run: MergeRun, merged: MergeChanges, cached: list[CachedRows]) -> tuple[MarkedRows, MergeChanges]:
    """The rows that were updated in truth, and the same files as the new values of these alone.

    Raises `AmbiguousMergeError`, and leaves none of the files then.
    """
    try:
        marked = mark_rows(run, cached)
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
