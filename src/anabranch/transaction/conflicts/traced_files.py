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
    first: AddFile
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
    any_deleted: bool = False
    """Ours deletes all its rows, and how many there are is not known."""
    unknown: frozenset[int] = frozenset()
    """Scans of ours that may have found rows in it, and which of them is not known."""
    new: tuple[NewRows, ...] = ()
    mixed: bool = False
    """It may hold more rows that came since we read, and which they are is not known."""

    @property
    def matters(self) -> bool:
        """Whether rows that ours knows stand in it."""
        return self.any_deleted or bool(self.unknown) or bool(self.deleted) or any(self.read.values())

    @property
    def reads(self) -> BitMap64:
        """Rows that satisfied a condition of ours, as far as it is known which."""
        return BitMap64.union(*self.read.values()) if self.read else BitMap64()

    def deletes_among(self, gone: BitMap64) -> BitMap64:
        """Those of the rows that ours deletes."""
        return gone if self.any_deleted else self.deleted & gone

    def only_reads_among(self, gone: BitMap64) -> BitMap64:
        """Those of the rows that ours read and leaves alone, as far as it is known which."""
        return (self.reads & gone) - self.deletes_among(gone)


def as_read(context: ConflictContext, add: AddFile, row: int) -> TracedFile:
    """A file of our snapshot, at `row` of its file table, with the rows in it that ours knows."""
    key = add.key
    ours = context.ours
    # Who hides rows of a file counts them first; the log need not have said how many there are.
    add = with_row_count(add, ours.removed_files[key]) if key in ours.removed_files else add
    deletes_all = key in ours.deleted_rows and ours.deleted_rows[key] is None
    scans = dict(enumerate(ours.reads.scans))
    untold = {number for number, scan in scans.items() if scan.rows is None and opened(scan, key, row)}
    # What can be asked again is asked of the rows that go, once any do.
    all_count = {number for number in untold if scans[number].again is None}
    every = shown(context, add) if deletes_all or all_count else None
    read = {number: scan.rows.get(key, BitMap64()) for number, scan in scans.items() if scan.rows}
    return TracedFile(
        add=add,
        deleted=(every or BitMap64()) if deletes_all else ours.deleted_rows.get(key) or BitMap64(),
        any_deleted=deletes_all and every is None,
        read=read if every is None else read | dict.fromkeys(all_count, every),
        unknown=frozenset(untold if every is None else untold - all_count),
    )


def opened(scan: Scan, key: FileKey, row: int) -> bool:
    """Whether the scan looked into this file of our snapshot."""
    if scan.files is None or scan.reads_everything:
        return True
    return key in scan.files if isinstance(scan.files, frozenset) else bool(scan.files[row])


def shown(context: ConflictContext, add: AddFile) -> BitMap64 | None:
    """The rows that a file shows; None where its statistics do not say how many it has."""
    rows = row_count(add.stats)
    (hidden,) = context.vectors.hidden([add])
    return None if rows is None else every_row(rows) - hidden


def every_row(count: int) -> BitMap64:
    """The first `count` positions."""
    every = BitMap64()
    every.add_range(0, count)
    return every


def moved_rows(
    context: ConflictContext, source: TracedFile, moves: Moves, outputs: Mapping[str, TracedFile]
) -> list[TracedFile]:
    """The outputs to which rows of `source` went, with those of its rows that matter."""
    path = source.add.path
    found = dict(outputs)
    if not source.matters and not source.new and not source.mixed:
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
        positions = new.positions if new.positions is not None else shown(context, source.add)
        assert positions is not None, "moves are known only of files whose rows are counted"
        for target, rows in moved(positions).items():
            here = dataclasses.replace(new, file=found[target].add, positions=rows)
            found[target] = dataclasses.replace(found[target], new=(*found[target].new, here))
    for run in moves.runs[path] if source.unknown or source.mixed else ():
        file = found[run.path]
        joined_unknown, mixed = file.unknown | source.unknown, file.mixed or source.mixed
        found[run.path] = dataclasses.replace(file, unknown=joined_unknown, mixed=mixed)
    return [file for target, file in found.items() if file is not outputs[target]]
