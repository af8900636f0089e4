"""When a commit may be ordered before an append that landed first, as `WriteSerializable` allows."""

from __future__ import annotations

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.property_table import IsolationLevel
from anabranch.transactions.conflicts.conflict_context import ConflictContext
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.rows.row_ids import visible_row_count_of


def may_serialize_before(context: ConflictContext, winner: Winner) -> bool:
    """Whether ours may ignore rows of the winner, since it is a blind append and ours changes no metadata."""
    relaxed = context.ours.isolation is IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and winner.is_blind_append and context.ours.metadata is None


def breaks_serial_order(context: ConflictContext, ignored: Winner) -> bool:
    """Rule R: whether another winner, which ours is ordered after, may have read the ignored append.

    Ours is ordered before the append, the append before that winner, and that winner before ours: this is a cycle.
    """
    for winner in context.winners:
        later = winner.version > ignored.version and winner.changes_data and not winner.is_blind_append
        if later and (winner.read_version is None or winner.read_version >= ignored.version):
            return True
    return False


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
