"""Conflicts over data by single rows, and rebasing our deletes to the files in which the rows are now.

If no row that was deleted or added since we read satisfies a condition of ours, then our operation, run again now,
would read, delete and create exactly the rows that it did. So it may be committed at this version; and by induction
over the log, the order of the log is a serial order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from anabranch.errors.commits import ConcurrentAppendException, ConcurrentDeleteDeleteException, ConflictReason
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.features import supported
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.file_conflicts import (
    NARROW_CONDITION,
    partition_hint,
    partition_or_file,
    removed_file_conflict,
)
from anabranch.transactions.conflicts.rebase_report import Reconciliation, select_example_rows
from anabranch.transactions.conflicts.row_tracing import TracedRows, trace_rows
from anabranch.transactions.conflicts.traced_files import NewRows
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.conflicts.write_serializable import breaks_serial_order, may_serialize_before
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import RowsOfFile, Scan
from anabranch.transactions.rows.deletion_vector_actions import hide_rows


def has_row_level_concurrency(context: ConflictContext) -> bool:
    """Whether rows decide, not files: with deletion vectors, deleting a row does not rewrite the other rows."""
    before, after = context.read.protocol, context.latest.protocol
    if before is None or after is None:
        return False
    return supported(before, "deletionVectors") and supported(after, "deletionVectors")


def rebase_by_rows(context: ConflictContext) -> ProposedCommit | Conflict:
    """Our proposal after all winners, with its deletes added to theirs, or the first conflict over a row."""
    outcome = judge_rows(context)
    if outcome is None:
        return context.ours
    if isinstance(outcome, Conflict):
        return outcome
    traced, ignored = outcome
    with_deletes = {path for path, _ in context.ours.deleted_rows}
    reconciliation = Reconciliation(
        moved_rows=traced.moved_rows,
        relocated_rows=traced.relocated_rows,
        united_vectors=sum(bool(file.deleted) for path, file in traced.files.items() if path in with_deletes),
        serialized_before=tuple(winner.version for winner in ignored),
    )
    return with_merged_vectors(context, traced).with_tags(reconciliation.tags())


def judge_rows(context: ConflictContext) -> tuple[TracedRows, tuple[Winner, ...]] | Conflict | None:
    """The first conflict over a row. Where there is none, the rows that matter after all winners, and the winners that
    ours is ordered before; None where no row matters to ours.
    """
    rewrite_conflict = files_rewritten_by_both(context)
    if rewrite_conflict is None and not context.ours.reads.scans and not context.ours.deleted_rows:
        return None
    traced, delete_conflict = trace_rows(context)
    ignored = () if delete_conflict is not None and context.time_is_up() else added_rows_conflict(context, traced)
    if isinstance(ignored, Conflict):
        return ignored
    conflict = delete_conflict or rewrite_conflict
    return (traced, ignored) if conflict is None else conflict


def files_rewritten_by_both(context: ConflictContext) -> Conflict | None:
    """The conflict where a winner removed a file that ours removes, too, without naming the rows that it deletes."""
    removed = context.latest.removed_from_base
    for file in context.ours.files:
        if file.key in removed and file.key not in context.ours.deleted_rows:
            return removed_file_conflict(context, ConcurrentDeleteDeleteException, file.key)
    return None


def added_rows_conflict(context: ConflictContext, traced: TracedRows) -> Conflict | tuple[Winner, ...]:
    """The conflict with a winner that added rows that ours should have read, and that ours may not be ordered before.

    If there is none, the winners that ours is ordered before, since ours may have had to read the rows they added.
    """
    new = traced.new
    if not new or context.read.base is None:
        return ()
    ignored: dict[int, Winner] = {}
    for number, scan in enumerate(context.ours.reads.scans):
        unchecked = [rows for rows in new if (number, *rows.identity) not in context.no_matches]
        matching = context.can_match(context.read.base, scan.predicate, [rows.first_file for rows in unchecked])
        suspects: list[NewRows] = []
        for rows in itertools.compress(unchecked, matching):
            if may_serialize_before(context, rows.origin) and not breaks_serial_order(context, rows.origin):
                ignored[rows.origin.version] = rows.origin
            else:
                suspects.append(rows)
        conflict = _matching_rows_conflict(context, scan, suspects)
        if conflict is not None:
            return conflict
        # Rows that ours is ordered before are checked again: a later winner may have read them.
        cleared = (rows for rows in unchecked if rows.origin.version not in ignored)
        context.no_matches.update((number, *rows.identity) for rows in cleared)
    return tuple(ignored.values())


def _matching_rows_conflict(context: ConflictContext, scan: Scan, suspects: Sequence[NewRows]) -> Conflict | None:
    """The conflict with the first of the new rows that the scan would have found.

    Where the condition cannot be evaluated for them, the first of all new rows counts as found.
    """
    if not suspects:
        return None
    first = suspects[0]
    if scan.reads_everything and scan.reevaluate is None:
        return _new_rows_conflict(context, first, ConflictReason.WHOLE_TABLE_READ)
    if scan.reevaluate is None:
        return _new_rows_conflict(context, first, partition_hint(first.file.partition_values))
    if context.time_is_up():
        return _new_rows_conflict(context, first, ConflictReason.ALLOTTED_TIME_EXCEEDED)
    matches = scan.reevaluate([RowsOfFile(file=rows.file, positions=rows.positions) for rows in suspects])
    for rows, matching in zip(suspects, matches, strict=True):
        if matching is None:
            return _new_rows_conflict(context, rows, partition_hint(rows.file.partition_values))
        if matching:
            examples = select_example_rows(
                (some.file, in_file) for some, in_file in zip(suspects, matches, strict=True) if in_file
            )
            return _new_rows_conflict(context, rows, ConflictReason.ROW_LEVEL_CHANGES, example_rows=examples)
    return None


def _new_rows_conflict(
    context: ConflictContext, rows: NewRows, reason: ConflictReason, *, example_rows: tuple[RowsOfFile, ...] = ()
) -> Conflict:
    if may_serialize_before(context, rows.origin) and reason is not ConflictReason.ALLOTTED_TIME_EXCEEDED:
        reason = ConflictReason.REORDER_CYCLE
    return Conflict(
        error=ConcurrentAppendException,
        winner=rows.origin,
        reason=reason,
        where=partition_or_file(context, rows.file.path, rows.file.partition_values),
        advice=NARROW_CONDITION,
        example_rows=example_rows,
    )


def with_merged_vectors(context: ConflictContext, traced: TracedRows) -> ProposedCommit:
    """Our proposal with its deletes added to those of the winners, in the files in which the rows are now."""
    ours = context.ours
    changed = {key for key in ours.deleted_rows if key in context.latest.removed or key[0] in traced.files}
    if not changed:
        return ours
    paths = {path for path, _ in changed}
    dropped = [
        *(remove for remove in ours.removes if remove.key in changed),
        *(add for add in ours.adds if add.path in paths),
    ]
    removed_at_ms = next(
        (remove.deletion_timestamp for remove in ours.removes if remove.key in changed and remove.deletion_timestamp), 0
    )
    chosen = [
        RowsOfFile(file=file.add, positions=None if file.deletes_uncounted_rows else file.deleted)
        for file in traced.files.values()
        if file.deletes_uncounted_rows or file.deleted
    ]
    merged: list[AddFile | RemoveFile] = hide_rows(chosen, context.vectors, removed_at_ms=removed_at_ms)
    kept = ours.without(*dropped)
    return dataclasses.replace(kept, actions=(*kept.actions, *merged))
