"""Files of the table, with the rows in them that are relevant to one commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile, row_count, with_row_count
from anabranch.transactions.conflicts.conflict_context import ConflictContext
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.read_set import FileKey, Scan
from anabranch.transactions.rows.row_map import Moves


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewRows:
    """Rows that were added since ours read."""

    origin: Winner
    """The winner that added them."""
    first_file: AddFile
    """The file in which they were added, whose statistics are the narrowest of all files they have been in."""
    file: AddFile
    """A file in which they can be read."""
    positions: BitMap64 | None
    """Their positions in `file`; None for all its visible rows."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for the same rows, in the same files."""
        positions = None if self.positions is None else self.positions.serialize()
        return self.origin.version, self.first_file.path, self.file.key, positions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedFile:
    """One file that a winner has changed, after the winners that have been applied so far."""

    add: AddFile
    deleted: BitMap64 = dataclasses.field(default_factory=BitMap64)
    """Rows that ours deletes."""
    read: Mapping[int, BitMap64] = dataclasses.field(default_factory=dict)
    """Rows that satisfied a condition of ours, by the number of the scan."""
    deletes_uncounted_rows: bool = False
    """Ours deletes all rows of the file, and their number is not known."""
    unresolved_scans: frozenset[int] = frozenset()
    """The numbers of our scans that may have found rows in the file, where these rows are not known."""
    new: tuple[NewRows, ...] = ()
    """Rows in the file that were added since ours read."""
    may_hold_new_rows: bool = False
    """Whether the file may have further rows that were added since ours read, where these rows are not known."""

    @property
    def has_relevant_rows(self) -> bool:
        """Whether the file has, or may have, rows that ours read or deletes."""
        return (
            self.deletes_uncounted_rows or bool(self.unresolved_scans) or bool(self.deleted) or any(self.read.values())
        )

    @property
    def reads(self) -> BitMap64:
        """The rows that satisfied a condition of ours, as far as they are known."""
        return BitMap64.union(*self.read.values()) if self.read else BitMap64()

    def deletes_among(self, rows: BitMap64) -> BitMap64:
        """The rows among `rows` that ours deletes."""
        return rows if self.deletes_uncounted_rows else self.deleted & rows

    def only_reads_among(self, rows: BitMap64) -> BitMap64:
        """The rows among `rows` that ours read and does not delete, as far as they are known."""
        return (self.reads & rows) - self.deletes_among(rows)


def trace_file(context: ConflictContext, add: AddFile, row: int) -> TracedFile:
    """A file of our snapshot, at `row` of its file table, with its rows that ours read or deletes."""
    key = add.key
    ours = context.ours
    add = as_read_by_ours(context, add)
    deletes_all = key in ours.deleted_rows and ours.deleted_rows[key] is None
    scans = dict(enumerate(ours.reads.scans))
    unresolved = {number for number, scan in scans.items() if scan.rows is None and scan_reads_file(scan, key, row)}
    # The other unresolved scans are evaluated again if a winner deletes rows of the file.
    not_repeatable = {number for number in unresolved if scans[number].reevaluate is None}
    all_rows = visible_rows(context, add) if deletes_all or not_repeatable else None
    read = {number: scan.rows.get(key, BitMap64()) for number, scan in scans.items() if scan.rows}
    return TracedFile(
        add=add,
        deleted=(all_rows or BitMap64()) if deletes_all else ours.deleted_rows.get(key) or BitMap64(),
        deletes_uncounted_rows=deletes_all and all_rows is None,
        read=read if all_rows is None else read | dict.fromkeys(not_repeatable, all_rows),
        unresolved_scans=frozenset(unresolved if all_rows is None else unresolved - not_repeatable),
    )


def as_read_by_ours(context: ConflictContext, add: AddFile) -> AddFile:
    """A file of our snapshot with its row count, which the log need not have: ours has counted where it hides rows."""
    removed = context.ours.removed_files.get(add.key)
    return add if removed is None else with_row_count(add, removed)


def load_vectors_of_winners(
    context: ConflictContext, as_read: Mapping[str, AddFile], rows_as_read: Mapping[str, int]
) -> None:
    """Read the vectors of all winners' versions of files that ours has read, in one pass.

    Read winner by winner, each is a request that waits for the one before. Vectors that tracing does not need are not
    read. `as_read` are files of our snapshot that winners changed, and `rows_as_read` their rows in its file table.
    """
    if len(context.winners) < 2:
        return
    versions = {path: [as_read_by_ours(context, add)] for path, add in as_read.items()}
    for winner in context.winners:
        for add in winner.adds:
            if add.path in versions:
                versions[add.path].append(with_row_count(add, versions[add.path][-1]))
    needed: list[AddFile] = []
    for path, (first, *later) in versions.items():
        # The first vector of a file whose rows do not matter to ours is not read.
        if later and (
            len(later) > 1 or first.deletion_vector is not None or _is_relevant(context, first.key, rows_as_read[path])
        ):
            needed += [first, *later]
    context.vectors.hidden(needed)


def _is_relevant(context: ConflictContext, key: FileKey, row: int) -> bool:
    """Whether ours deletes or may have read rows of this file of our snapshot."""
    ours = context.ours
    return key in ours.deleted_rows or any(
        scan_reads_file(scan, key, row) if scan.rows is None else key in scan.rows for scan in ours.reads.scans
    )


def scan_reads_file(scan: Scan, key: FileKey, row: int) -> bool:
    """Whether the scan opened this file of our snapshot."""
    if scan.files is None or scan.reads_everything:
        return True
    return key in scan.files if isinstance(scan.files, frozenset) else bool(scan.files[row])


def visible_rows(context: ConflictContext, add: AddFile) -> BitMap64 | None:
    """The visible rows of a file; None where its statistics do not have its row count."""
    rows = row_count(add.stats)
    (hidden,) = context.vectors.hidden([add])
    return None if rows is None else all_positions(rows) - hidden


def all_positions(count: int) -> BitMap64:
    """The first `count` positions."""
    positions = BitMap64()
    positions.add_range(0, count)
    return positions


def trace_moved_rows(
    context: ConflictContext, source: TracedFile, moves: Moves, outputs: Mapping[str, TracedFile]
) -> list[TracedFile]:
    """The outputs that have relevant rows of `source`, with these rows added."""
    path = source.add.path
    traced = dict(outputs)
    if not source.has_relevant_rows and not source.new and not source.may_hold_new_rows:
        return []
    (hidden,) = context.vectors.hidden([source.add])

    def moved(rows: BitMap64) -> dict[str, BitMap64]:
        return moves.moved(rows, source=path, hidden=hidden) if rows else {}

    for target, rows in moved(source.deleted).items():
        traced[target] = dataclasses.replace(traced[target], deleted=traced[target].deleted | rows)
    for number, read in source.read.items():
        for target, rows in moved(read).items():
            of_target = traced[target].read
            merged = {**of_target, number: of_target.get(number, BitMap64()) | rows}
            traced[target] = dataclasses.replace(traced[target], read=merged)
    for new in source.new:
        positions = new.positions if new.positions is not None else visible_rows(context, source.add)
        assert positions is not None, "files in a row map have a row count"
        for target, rows in moved(positions).items():
            moved_new = dataclasses.replace(new, file=traced[target].add, positions=rows)
            traced[target] = dataclasses.replace(traced[target], new=(*traced[target].new, moved_new))
    for run in moves.runs[path] if source.unresolved_scans or source.may_hold_new_rows else ():
        file = traced[run.path]
        traced[run.path] = dataclasses.replace(
            file,
            unresolved_scans=file.unresolved_scans | source.unresolved_scans,
            may_hold_new_rows=file.may_hold_new_rows or source.may_hold_new_rows,
        )
    return [file for target, file in traced.items() if file is not outputs[target]]
