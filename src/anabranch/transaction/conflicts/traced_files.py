"""Files of the table, with the rows in them that matter to one commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transaction.conflicts.conflict_context import ConflictContext
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.read_set import FileKey, Scan
from anabranch.transaction.rows.row_ids import row_count, with_row_count
from anabranch.transaction.rows.row_map import Moves


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewRows:
    """Rows that came since we read."""

    origin: Winner
    """Who brought them."""
    first_file: AddFile
    """The file in which they came, whose statistics are the narrowest that they ever had."""
    file: AddFile
    """A file in which they can be read."""
    positions: BitMap64 | None
    """Where in it; None for all rows that it shows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedFile:
    """One file that a winner has touched, as it stands after the winners looked at so far."""

    add: AddFile
    deleted: BitMap64 = dataclasses.field(default_factory=BitMap64)
    """Rows that ours deletes."""
    read: Mapping[int, BitMap64] = dataclasses.field(default_factory=dict)
    """Rows that satisfied a condition of ours, by the number of the scan."""
    deletes_uncounted_rows: bool = False
    """Ours deletes all its rows, and how many there are is not known."""
    unresolved_scans: frozenset[int] = frozenset()
    """Scans of ours that may have found rows in it, and which of them is not known."""
    new: tuple[NewRows, ...] = ()
    may_hold_new_rows: bool = False
    """It may hold more rows that came since we read, and which they are is not known."""

    @property
    def has_relevant_rows(self) -> bool:
        """Whether rows that ours knows stand in it."""
        return (
            self.deletes_uncounted_rows or bool(self.unresolved_scans) or bool(self.deleted) or any(self.read.values())
        )

    @property
    def reads(self) -> BitMap64:
        """Rows that satisfied a condition of ours, as far as it is known which."""
        return BitMap64.union(*self.read.values()) if self.read else BitMap64()

    def deletes_among(self, gone: BitMap64) -> BitMap64:
        """Those of the rows that ours deletes."""
        return gone if self.deletes_uncounted_rows else self.deleted & gone

    def only_reads_among(self, gone: BitMap64) -> BitMap64:
        """Those of the rows that ours read and leaves alone, as far as it is known which."""
        return (self.reads & gone) - self.deletes_among(gone)


def trace_file(context: ConflictContext, add: AddFile, row: int) -> TracedFile:
    """A file of our snapshot, at `row` of its file table, with the rows in it that ours knows."""
    key = add.key
    ours = context.ours
    # Who hides rows of a file counts them first; the log need not have said how many there are.
    add = with_row_count(add, ours.removed_files[key]) if key in ours.removed_files else add
    deletes_all = key in ours.deleted_rows and ours.deleted_rows[key] is None
    scans = dict(enumerate(ours.reads.scans))
    untold = {number for number, scan in scans.items() if scan.rows is None and scan_reads_file(scan, key, row)}
    # What can be asked again is asked of the rows that go, once any do.
    all_count = {number for number in untold if scans[number].reevaluate is None}
    every = visible_rows(context, add) if deletes_all or all_count else None
    read = {number: scan.rows.get(key, BitMap64()) for number, scan in scans.items() if scan.rows}
    return TracedFile(
        add=add,
        deleted=(every or BitMap64()) if deletes_all else ours.deleted_rows.get(key) or BitMap64(),
        deletes_uncounted_rows=deletes_all and every is None,
        read=read if every is None else read | dict.fromkeys(all_count, every),
        unresolved_scans=frozenset(untold if every is None else untold - all_count),
    )


def scan_reads_file(scan: Scan, key: FileKey, row: int) -> bool:
    """Whether the scan looked into this file of our snapshot."""
    if scan.files is None or scan.reads_everything:
        return True
    return key in scan.files if isinstance(scan.files, frozenset) else bool(scan.files[row])


def visible_rows(context: ConflictContext, add: AddFile) -> BitMap64 | None:
    """The rows that a file shows; None where its statistics do not say how many it has."""
    rows = row_count(add.stats)
    (hidden,) = context.vectors.hidden([add])
    return None if rows is None else all_positions(rows) - hidden


def all_positions(count: int) -> BitMap64:
    """The first `count` positions."""
    every = BitMap64()
    every.add_range(0, count)
    return every


def trace_moved_rows(
    context: ConflictContext, source: TracedFile, moves: Moves, outputs: Mapping[str, TracedFile]
) -> list[TracedFile]:
    """The outputs to which rows of `source` went, with those of its rows that matter."""
    path = source.add.path
    found = dict(outputs)
    if not source.has_relevant_rows and not source.new and not source.may_hold_new_rows:
        return []
    (hidden,) = context.vectors.hidden([source.add])

    def moved(rows: BitMap64) -> dict[str, BitMap64]:
        return moves.moved(rows, source=path, hidden=hidden) if rows else {}

    for target, rows in moved(source.deleted).items():
        found[target] = dataclasses.replace(found[target], deleted=found[target].deleted | rows)
    for number, read in source.read.items():
        for target, rows in moved(read).items():
            known = found[target].read
            joined = {**known, number: known.get(number, BitMap64()) | rows}
            found[target] = dataclasses.replace(found[target], read=joined)
    for new in source.new:
        positions = new.positions if new.positions is not None else visible_rows(context, source.add)
        assert positions is not None, "moves are known only of files whose rows are counted"
        for target, rows in moved(positions).items():
            here = dataclasses.replace(new, file=found[target].add, positions=rows)
            found[target] = dataclasses.replace(found[target], new=(*found[target].new, here))
    for run in moves.runs[path] if source.unresolved_scans or source.may_hold_new_rows else ():
        file = found[run.path]
        joined_unknown, mixed = (
            file.unresolved_scans | source.unresolved_scans,
            file.may_hold_new_rows or source.may_hold_new_rows,
        )
        found[run.path] = dataclasses.replace(file, unresolved_scans=joined_unknown, may_hold_new_rows=mixed)
    return [file for target, file in found.items() if file is not outputs[target]]
