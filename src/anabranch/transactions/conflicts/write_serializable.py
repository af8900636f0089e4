"""When a commit may be ordered before an append, or before new columns, that landed first (`WriteSerializable`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.protocol.actions import AddFile, Metadata, RemoveFile, visible_row_count_of
from anabranch.protocol.property_table import IsolationLevel
from anabranch.transactions.conflicts.conflict_context import ConflictContext
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.metadata_compatibility import adds_only_columns, same_schema_and_layout
from anabranch.transactions.conflicts.rebase_report import STANDS_BEFORE_TAG, parsed_versions, version_ranges
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import ProposedCommit, RowsWithColumns
from anabranch.transactions.read_set import FileKey


def may_serialize_before(context: ConflictContext, winner: Winner) -> bool:
    """Whether ours may ignore rows of the winner, since it is a blind append and ours changes no metadata."""
    relaxed = context.ours.isolation is IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and winner.is_blind_append and context.ours.metadata is None


def breaks_serial_order(context: ConflictContext, ignored: Winner) -> bool:
    """Rule R: whether another winner, which ours is ordered after, may have read the ignored append.

    Ours is ordered before the append, the append before that winner, and that winner before ours: this is a cycle.
    """
    for winner in context.winners:
        later = winner.version > ignored.version and _is_change(winner)
        if later and (winner.read_version is None or winner.read_version >= ignored.version):
            return True
    return False


def allows_new_columns(context: ConflictContext) -> bool:
    """Whether winners have only added columns, and ours is right after them or may be ordered before them."""
    before, after = context.read.metadata, context.latest.metadata
    if before is None or after is None or context.ours.protocol is not None or not adds_only_columns(before, after):
        return False
    first = new_columns_to_precede(context)
    if first is None:
        return True
    if _rows_with_columns(context.ours, after) is RowsWithColumns.OTHER:
        return False
    # A winner that added columns and has read rows comes before ours by these rows, so ours cannot come before it.
    reads_rows = any(winner.metadata is not None and _is_change(winner) for winner in context.winners)
    relaxed = context.ours.isolation is IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and not reads_rows and not breaks_serial_order(context, first)


def _is_change(winner: Winner) -> bool:
    """Whether the winner changes data, and may have read rows for that."""
    return winner.changes_data and not winner.is_blind_append


def new_columns_to_precede(context: ConflictContext) -> Winner | None:
    """The first winner that may have added columns before which ours must come; None where ours may come after all.

    A statement that changes no row does the same with any columns.
    """
    before, after, ours = context.read.metadata, context.latest.metadata, context.ours
    describes = ours.metadata is not None and not context.marks_of_ours
    if before is None or after is None or describes or not ours.changes_data:
        return None
    if same_schema_and_layout(before, after) or _rows_with_columns(ours, after) is RowsWithColumns.SAME:
        return None
    return next(winner for winner in context.winners if winner.metadata is not None)


def _rows_with_columns(ours: ProposedCommit, metadata: Metadata) -> RowsWithColumns:
    return RowsWithColumns.UNKNOWN if ours.on_new_columns is None else ours.on_new_columns(metadata)


def before_new_columns(ours: ProposedCommit, winners: Sequence[Winner]) -> ProposedCommit:
    """Our proposal as one that is ordered before the winners that changed the metadata."""
    versions = [winner.version for winner in winners if winner.metadata is not None]
    ignored = parsed_versions(ours.tags.get(STANDS_BEFORE_TAG))
    tags = {STANDS_BEFORE_TAG: version_ranges([*ignored, *versions])}
    return dataclasses.replace(ours.with_tags(tags), precedes_columns=True)


def only_moves_rows(winner: Winner, read: LatestState, *, added_before: dict[FileKey, AddFile]) -> bool:
    """Whether the winner only moved rows, such as OPTIMIZE: its new files have the rows of the files it removed.

    `dataChange=false` alone is no proof. All file actions must have it, and as many rows must have been added as
    removed; False where a row count is not known.
    """
    if winner.changes_data:
        return False
    removed = [_removed_row_count(remove, read, added_before) for remove in winner.removes]
    added = [visible_row_count_of(add) for add in winner.adds]
    counts = [count for count in (*removed, *added) if count is not None]
    all_counted = len(counts) == len(removed) + len(added)
    return all_counted and sum(counts[: len(removed)]) == sum(counts[len(removed) :])


def _removed_row_count(remove: RemoveFile, read: LatestState, added_before: dict[FileKey, AddFile]) -> int | None:
    if remove.key in added_before:
        return visible_row_count_of(added_before[remove.key])
    return read.base_files.live_rows([remove.path]).get(remove.key)
