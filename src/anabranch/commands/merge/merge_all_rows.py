"""A MERGE that seems to update every row of its files writes the rows first, and looks for them only if it did not.

A commit says which rows of a file change, and several rows of the source must not change one row, so a MERGE joins the
table and the source to find that out, and many rows once more to write them. But if an outer join has each row of the
table once, with a row of the source, every row is updated by one: there is nothing to find out. Such a join writes new
rows, too.
"""

from __future__ import annotations

import contextlib
import dataclasses

from anabranch.commands.dml.row_deletion import delete_rows
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.merge.merge_rows import MarkedRows, MergeRun, mark_rows, no_counts
from anabranch.commands.merge.merge_write import MergeChanges
from anabranch.commands.table_access import TableRef
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.errors.environment import StorageError
from anabranch.protocol.data_paths import decode_path


def all_rows(run: MergeRun) -> MarkedRows | None:
    """All rows of the files as if each was updated, not known to be so; None where the source has fewer rows.

    `run` may update all. The frame has the rows that are updated, and the new ones.
    """
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
