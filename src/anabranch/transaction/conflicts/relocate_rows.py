"""A fresh look for rows that a commit moved without word of where to, as another engine's compaction does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transaction.conflicts.conflict_context import ConflictContext
from anabranch.transaction.conflicts.traced_files import TracedFile, visible_rows
from anabranch.transaction.read_set import RowsOfFile, Scan
from anabranch.transaction.rows.row_access import checked_positions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelocatedRows:
    """Where rows stand now, one entry an output."""

    deleted: Sequence[BitMap64]
    """Rows that ours deletes."""
    read: Mapping[int, Sequence[BitMap64]] = dataclasses.field(default_factory=dict)
    """Rows that satisfied a condition of ours, by the number of the scan, as far as it was asked again."""


def relocate_rows(
    context: ConflictContext, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> RelocatedRows | None:
    """Where in `outputs` the rows of `sources` stand that ours deletes; None where that cannot be told.

    The outputs hold the rows of the sources and no others. So where all of them were in our snapshot, the
    conditions that found only rows that ours deletes find them again, and as many. Rows that came later may
    satisfy a condition too, and under `WriteSerializable` ours may stand before them.
    """
    wanted = sum(len(source.deleted) for source in sources)
    if not wanted and not any(source.deletes_uncounted_rows for source in sources):
        return RelocatedRows(deleted=[BitMap64() for _ in outputs])
    if any(source.deletes_uncounted_rows for source in sources):
        return None
    everything = [visible_rows(context, add) for add in outputs]
    if all(rows is not None for rows in everything) and sum(len(rows or ()) for rows in everything) == wanted:
        return RelocatedRows(deleted=[rows or BitMap64() for rows in everything])
    if any(source.new or source.may_hold_new_rows for source in sources):
        return _found_by_value(context, sources, outputs)
    deleted = [BitMap64() for _ in outputs]
    read: dict[int, Sequence[BitMap64]] = {}
    for number, scan in enumerate(context.ours.reads.scans):
        places = _places(context, number, scan, sources, outputs)
        if places is None:
            continue
        read[number] = places
        deleted = [known | rows for known, rows in zip(deleted, places, strict=True)]
        if sum(map(len, deleted)) == wanted:
            return RelocatedRows(deleted=deleted, read=read)
    return _found_by_value(context, sources, outputs)


def _found_by_value(
    context: ConflictContext, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> RelocatedRows | None:
    """The rows themselves, looked for by their values. Those that came later may be among the outputs, too."""
    if context.find_rows is None or context.read.base is None or context.time_is_up():
        return None
    known = [source.deleted | source.reads for source in sources]
    rows = [RowsOfFile(file=source.add, positions=each) for source, each in zip(sources, known, strict=True)]
    places = checked_positions(context.find_rows(context.read.base, rows, outputs), rows, outputs)
    if places is None:
        return None

    def now(some: Sequence[BitMap64]) -> list[BitMap64]:
        found = [BitMap64() for _ in outputs]
        for place, wanted, among in zip(places, some, known, strict=True):
            by_output = place.of(wanted, among=among, output_count=len(outputs))
            found = [one | other for one, other in zip(found, by_output, strict=True)]
        return found

    numbers = {number for source in sources for number in source.read} - set().union(
        *(source.unresolved_scans for source in sources)
    )
    return RelocatedRows(
        deleted=now([source.deleted for source in sources]),
        read={number: now([source.read.get(number, BitMap64()) for source in sources]) for number in numbers},
    )


def _places(
    context: ConflictContext, number: int, scan: Scan, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> list[BitMap64] | None:
    """Where the rows stand that the scan had found in `sources`, if ours deletes all of them."""
    if scan.reevaluate is None or context.time_is_up():
        return None
    satisfying = _satisfying(number, scan, sources)
    if satisfying is None or not any(satisfying):
        return None
    if not all(rows.issubset(source.deleted) for rows, source in zip(satisfying, sources, strict=True)):
        return None
    found = _asked(scan, outputs)
    return found if found is not None and sum(map(len, found)) == sum(map(len, satisfying)) else None


def _satisfying(number: int, scan: Scan, sources: Sequence[TracedFile]) -> list[BitMap64] | None:
    """The rows of `sources` that the scan had found."""
    if any(number in source.unresolved_scans for source in sources):
        return _asked(scan, [source.add for source in sources])
    return [source.read.get(number, BitMap64()) for source in sources]


def _asked(scan: Scan, files: Sequence[AddFile]) -> list[BitMap64] | None:
    assert scan.reevaluate is not None
    found = scan.reevaluate([RowsOfFile(file=add, positions=None) for add in files])
    places = [rows for rows in found if rows is not None]
    return places if len(places) == len(files) else None
