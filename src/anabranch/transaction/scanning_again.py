"""A fresh look for rows that another engine's compaction moved without word of where to."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transaction.followed_files import FollowedFile
from anabranch.transaction.race import Race
from anabranch.transaction.read_set import RowsOfFile


def found_again(race: Race, sources: Sequence[FollowedFile], outputs: Sequence[AddFile]) -> list[BitMap64] | None:
    """Where in `outputs` the rows of `sources` stand that ours deletes; None where that cannot be told.

    They are told by the condition that found them at first, where it found exactly what ours deletes.
    """
    if not may_scan_again(sources):
        return None
    wanted = sum(len(source.deleted) for source in sources)
    for number, scan in enumerate(race.ours.reads.scans):
        if scan.again is None or scan.rows is None or race.time_is_up():
            continue
        if any(source.deleted != source.read.get(number, BitMap64()) for source in sources):
            continue
        found = scan.again([RowsOfFile(file=add, positions=None) for add in outputs])
        places = [rows for rows in found if rows is not None]
        if len(places) == len(outputs) and sum(map(len, places)) == wanted:
            return places
    return None


def may_scan_again(sources: Sequence[FollowedFile]) -> bool:
    """Whether all rows of these files were in our snapshot.

    Rows that came later may satisfy the condition too, and under `WriteSerializable` ours stands before them:
    to delete those would be to delete rows that it never saw.
    """
    return not any(source.new or source.any_deleted or source.any_read for source in sources)
