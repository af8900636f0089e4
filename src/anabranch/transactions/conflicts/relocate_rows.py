"""Finds rows that a commit moved without recording their new positions, as another engine's compaction does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transactions.conflicts.conflict_context import ConflictContext
from anabranch.transactions.conflicts.metadata_compatibility import same_schema_and_layout
from anabranch.transactions.conflicts.traced_files import TracedFile, visible_rows
from anabranch.transactions.read_set import RowsOfFile, Scan
from anabranch.transactions.rows.located_rows import checked_positions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelocatedRows:
    """The new positions of rows, with one entry for each output."""

    deleted: Sequence[BitMap64]
    """Rows that ours deletes."""
    read: Mapping[int, Sequence[BitMap64]] = dataclasses.field(default_factory=dict)
    """Rows that satisfied a condition of ours, by the number of the scan, for the scans that were evaluated again."""


def relocate_rows(
    context: ConflictContext, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> RelocatedRows | None:
    """The positions in `outputs` of the rows of `sources` that ours deletes; None where they cannot be found.

    The outputs have the rows of the sources and no others. So if all rows were in our snapshot, the conditions that
    only rows satisfied that ours deletes are satisfied by the same rows again, and by as many. Rows that were added
    later may satisfy a condition too, and under `WriteSerializable` ours may be ordered before them.
    """
    count = sum(len(source.deleted) for source in sources)
    if not count and not any(source.deletes_uncounted_rows for source in sources):
        return RelocatedRows(deleted=[BitMap64() for _ in outputs])
    if any(source.deletes_uncounted_rows for source in sources):
        return None
    all_rows = [visible_rows(context, add) for add in outputs]
    if all(rows is not None for rows in all_rows) and sum(len(rows or ()) for rows in all_rows) == count:
        return RelocatedRows(deleted=[rows or BitMap64() for rows in all_rows])
    if any(source.new or source.may_hold_new_rows for source in sources):
        return _relocate_by_value(context, sources, outputs)
    deleted = [BitMap64() for _ in outputs]
    read: dict[int, Sequence[BitMap64]] = {}
    for number, scan in enumerate(context.ours.reads.scans):
        positions = _relocate_by_scan(context, number, scan, sources, outputs)
        if positions is None:
            continue
        read[number] = positions
        deleted = [of_output | rows for of_output, rows in zip(deleted, positions, strict=True)]
        if sum(map(len, deleted)) == count:
            return RelocatedRows(deleted=deleted, read=read)
    return _relocate_by_value(context, sources, outputs)


def _relocate_by_value(
    context: ConflictContext, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> RelocatedRows | None:
    """Search for the rows by their values. The outputs may also have rows that were added later."""
    if context.find_rows is None or context.read.base is None or context.time_is_up():
        return None
    if context.latest.metadata is None or not same_schema_and_layout(
        context.read.base.metadata, context.latest.metadata
    ):
        # Rows that are equal in the columns that ours read may differ in a column that was added since.
        return None
    relevant = [source.deleted | source.reads for source in sources]
    rows = [
        RowsOfFile(file=source.add, positions=positions) for source, positions in zip(sources, relevant, strict=True)
    ]
    located = checked_positions(context.find_rows(context.read.base, rows, outputs), rows, outputs)
    if located is None:
        return None

    def relocated(rows_by_source: Sequence[BitMap64]) -> list[BitMap64]:
        by_output = [BitMap64() for _ in outputs]
        for positions, rows_of_source, among in zip(located, rows_by_source, relevant, strict=True):
            of_source = positions.of(rows_of_source, among=among, output_count=len(outputs))
            by_output = [one | other for one, other in zip(by_output, of_source, strict=True)]
        return by_output

    numbers = {number for source in sources for number in source.read} - set().union(
        *(source.unresolved_scans for source in sources)
    )
    return RelocatedRows(
        deleted=relocated([source.deleted for source in sources]),
        read={number: relocated([source.read.get(number, BitMap64()) for source in sources]) for number in numbers},
    )


def _relocate_by_scan(
    context: ConflictContext, number: int, scan: Scan, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> list[BitMap64] | None:
    """The positions in `outputs` of the rows that the scan had found in `sources`.

    None where ours does not delete all of these rows, or the condition cannot be evaluated again.
    """
    if scan.reevaluate is None or context.time_is_up():
        return None
    in_sources = _rows_of_scan(number, scan, sources)
    if in_sources is None or not any(in_sources):
        return None
    if not all(rows.issubset(source.deleted) for rows, source in zip(in_sources, sources, strict=True)):
        return None
    in_outputs = _evaluated(scan, outputs)
    has_all = in_outputs is not None and sum(map(len, in_outputs)) == sum(map(len, in_sources))
    return in_outputs if has_all else None


def _rows_of_scan(number: int, scan: Scan, sources: Sequence[TracedFile]) -> list[BitMap64] | None:
    """The rows of `sources` that the scan had found."""
    if any(number in source.unresolved_scans for source in sources):
        return _evaluated(scan, [source.add for source in sources])
    return [source.read.get(number, BitMap64()) for source in sources]


def _evaluated(scan: Scan, files: Sequence[AddFile]) -> list[BitMap64] | None:
    """The rows of each file that satisfy the scan's condition; None where it cannot be evaluated for one of them."""
    assert scan.reevaluate is not None
    by_file = scan.reevaluate([RowsOfFile(file=add, positions=None) for add in files])
    evaluated = [rows for rows in by_file if rows is not None]
    return evaluated if len(evaluated) == len(files) else None
