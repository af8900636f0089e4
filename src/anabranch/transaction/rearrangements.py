"""Winners that moved rows and changed none, such as OPTIMIZE."""

from __future__ import annotations

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.head import Head
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.row_ids import shown_rows
from anabranch.transaction.winners import Winner


def only_rearranges(winner: Winner, read: Head, *, added_before: dict[FileKey, AddFile]) -> bool:
    """Whether the rows of its new files are exactly those of the files it removed.

    `dataChange=false` is a claim. It is believed if all file actions make it and as many rows came as went;
    where a count is not known the answer is no.
    """
    if winner.changes_data:
        return False
    gone = [_rows_of_removed(remove, read, added_before) for remove in winner.removes]
    came = [_rows_of_added(add) for add in winner.adds]
    known = [rows for rows in (*gone, *came) if rows is not None]
    return len(known) == len(gone) + len(came) and sum(known[: len(gone)]) == sum(known[len(gone) :])


def _rows_of_added(add: AddFile) -> int | None:
    return shown_rows(add.stats, add.deletion_vector.cardinality if add.deletion_vector else 0)


def _rows_of_removed(remove: RemoveFile, read: Head, added_before: dict[FileKey, AddFile]) -> int | None:
    if remove.key in added_before:
        return _rows_of_added(added_before[remove.key])
    return read.base_files.live_rows([remove.path]).get(remove.key)
