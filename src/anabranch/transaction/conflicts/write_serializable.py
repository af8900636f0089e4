"""When `WriteSerializable` lets a commit stand before an append that landed first."""

from __future__ import annotations

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.property_table import IsolationLevel
from anabranch.transaction.conflicts.conflict_context import ConflictContext
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.rows.row_ids import visible_row_count_of


def may_serialize_before(context: ConflictContext, winner: Winner) -> bool:
    """Whether ours may ignore rows of the winner: it read nothing to make them, and ours changes no metadata."""
    relaxed = context.ours.isolation is IsolationLevel.WRITE_SERIALIZABLE
    return relaxed and winner.is_blind_append and context.ours.metadata is None


def breaks_serial_order(context: ConflictContext, ignored: Winner) -> bool:
    """Rule R: we stand before the ignored append, so nobody who stands before us may have read it.

    The order would be the append, then who read it, then we, who stand before the append.
    """
    for winner in context.winners:
        later = winner.version > ignored.version and winner.changes_data and not winner.is_blind_append
        if later and (winner.read_version is None or winner.read_version >= ignored.version):
            return True
    return False


# Winners that moved rows and changed none, such as OPTIMIZE.


def only_moves_rows(winner: Winner, read: LatestState, *, added_before: dict[FileKey, AddFile]) -> bool:
    """Whether the rows of its new files are exactly those of the files it removed.

    `dataChange=false` is a claim. It is believed if all file actions make it and as many rows came as went;
    where a count is not known the answer is no.
    """
    if winner.changes_data:
        return False
    gone = [_rows_of_removed(remove, read, added_before) for remove in winner.removes]
    came = [visible_row_count_of(add) for add in winner.adds]
    known = [rows for rows in (*gone, *came) if rows is not None]
    return len(known) == len(gone) + len(came) and sum(known[: len(gone)]) == sum(known[len(gone) :])


def _rows_of_removed(remove: RemoveFile, read: LatestState, added_before: dict[FileKey, AddFile]) -> int | None:
    if remove.key in added_before:
        return visible_row_count_of(added_before[remove.key])
    return read.base_files.live_rows([remove.path]).get(remove.key)
