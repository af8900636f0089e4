"""Conflicts over data, told by single rows, and our rows carried to where they stand now.

If no row that is gone or new since we read satisfies a condition of ours, then our operation, run again now,
would read, delete and create exactly the rows it did. So it may stand here; and by induction over the log, the
order of the log is a serial order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from anabranch.errors.commits import ConcurrentAppendException, ConcurrentDeleteDeleteException, ConflictReason
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.features import supported
from anabranch.transaction.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transaction.conflicts.file_conflicts import (
    NARROW_THE_CONDITION,
    partition_hint,
    partition_or_file,
    removed_file_conflict,
)
from anabranch.transaction.conflicts.rebase_report import Reconciliation, select_example_rows
from anabranch.transaction.conflicts.row_tracing import TracedRows, trace_rows
from anabranch.transaction.conflicts.traced_files import NewRows
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.conflicts.write_serializable import breaks_serial_order, may_serialize_before
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.read_set import RowsOfFile, Scan
from anabranch.transaction.rows.deletion_vector_actions import hide_rows


def has_row_level_concurrency(context: ConflictContext) -> bool:
    """Whether rows, not files, decide: the table has vectors, so whoever deletes a row can leave the rest alone."""
    before, after = context.read.protocol, context.latest.protocol
    if before is None or after is None:
        return False
    return supported(before, "deletionVectors") and supported(after, "deletionVectors")


def rebase_by_rows(context: ConflictContext) -> ProposedCommit | Conflict:
    """Our proposal behind all winners, its deletes added to theirs, or the first row that stands in the way."""
    rewritten = files_rewritten_by_both(context)
    if rewritten is None and not context.ours.reads.reads_rows and not context.ours.deleted_rows:
        return context.ours
    traced, gone = trace_rows(context)
    ignored = () if gone is not None and context.time_is_up() else added_rows_conflict(context, traced)
    if isinstance(ignored, Conflict):
        return ignored
    conflict = gone or rewritten
    if conflict is not None:
        return conflict
    marked = {path for path, _ in context.ours.deleted_rows}
    reconciliation = Reconciliation(
        moved_rows=traced.moved_rows,
        relocated_rows=traced.relocated_rows,
        united_vectors=sum(bool(file.deleted) for path, file in traced.files.items() if path in marked),
        serialized_before=tuple(winner.version for winner in ignored),
    )
    return with_merged_vectors(context, traced).with_tags(reconciliation.tags())


def files_rewritten_by_both(context: ConflictContext) -> Conflict | None:
    """A winner removed a file of which ours does not say what rows it deletes."""
    gone = context.latest.removed_from_base
    for file in context.ours.files:
        if file.key in gone and file.key not in context.ours.deleted_rows:
            return removed_file_conflict(context, ConcurrentDeleteDeleteException, file.key)
    return None


def added_rows_conflict(context: ConflictContext, traced: TracedRows) -> Conflict | tuple[Winner, ...]:
    """A winner added rows that ours should have read, and before which it may not stand.

    If there is none: the winners before which ours has to stand, since it may have had to read what they added.
    """
    new = traced.new
    if not new or context.read.base is None:
        return ()
    ignored: dict[int, Winner] = {}
    for scan in context.ours.reads.scans:
        matching = context.can_match(context.read.base, scan.predicate, [rows.first_file for rows in new])
        suspects: list[NewRows] = []
        for rows in itertools.compress(new, matching):
            if may_serialize_before(context, rows.origin) and not breaks_serial_order(context, rows.origin):
                ignored[rows.origin.version] = rows.origin
            else:
                suspects.append(rows)
        conflict = _first_match(context, scan, suspects)
        if conflict is not None:
            return conflict
    return tuple(ignored.values())


def _first_match(context: ConflictContext, scan: Scan, suspects: Sequence[NewRows]) -> Conflict | None:
    """The first of the rows that the scan would have found; in doubt, the first of all."""
    if not suspects:
        return None
    if scan.reads_everything and scan.reevaluate is None:
        return _added(context, suspects[0], ConflictReason.WHOLE_TABLE_READ)
    if scan.reevaluate is None:
        return _added(context, suspects[0], partition_hint(suspects[0].file.partition_values))
    if context.time_is_up():
        return _added(context, suspects[0], ConflictReason.ALLOTTED_TIME_EXCEEDED)
    found = scan.reevaluate([RowsOfFile(file=rows.file, positions=rows.positions) for rows in suspects])
    for rows, satisfying in zip(suspects, found, strict=True):
        if satisfying is None:
            return _added(context, rows, partition_hint(rows.file.partition_values))
        if satisfying:
            examples = select_example_rows(
                (each.file, hits) for each, hits in zip(suspects, found, strict=True) if hits
            )
            return _added(context, rows, ConflictReason.ROW_LEVEL_CHANGES, example_rows=examples)
    return None


def _added(
    context: ConflictContext, rows: NewRows, reason: ConflictReason, *, example_rows: tuple[RowsOfFile, ...] = ()
) -> Conflict:
    if may_serialize_before(context, rows.origin) and reason is not ConflictReason.ALLOTTED_TIME_EXCEEDED:
        reason = ConflictReason.REORDER_CYCLE
    return Conflict(
        error=ConcurrentAppendException,
        winner=rows.origin,
        reason=reason,
        where=partition_or_file(context, rows.file.path, rows.file.partition_values),
        advice=NARROW_THE_CONDITION,
        example_rows=example_rows,
    )


def with_merged_vectors(context: ConflictContext, traced: TracedRows) -> ProposedCommit:
    """Our deletes, made behind those of the winners, in the files where the rows stand now."""
    ours = context.ours
    touched = {key for key in ours.deleted_rows if key in context.latest.removed or key[0] in traced.files}
    if not touched:
        return ours
    paths = {path for path, _ in touched}
    dropped = [
        *(remove for remove in ours.removes if remove.key in touched),
        *(add for add in ours.adds if add.path in paths),
    ]
    removed_at_ms = next(
        (remove.deletion_timestamp for remove in ours.removes if remove.key in touched and remove.deletion_timestamp), 0
    )
    chosen = [
        RowsOfFile(file=file.add, positions=None if file.deletes_uncounted_rows else file.deleted)
        for file in traced.files.values()
        if file.deletes_uncounted_rows or file.deleted
    ]
    merged: list[AddFile | RemoveFile] = hide_rows(chosen, context.vectors, removed_at_ms=removed_at_ms)
    kept = ours.without(*dropped)
    return dataclasses.replace(kept, actions=(*kept.actions, *merged))
