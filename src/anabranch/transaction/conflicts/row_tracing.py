"""Rows traced from the version we read to the newest, through everything that winners did to their files.

A row is told by file and position. It goes when a vector that hides it replaces one that does not, or when its
file goes; it moves when a winner that changes no row says where to; it is new when its file is new, or when a
vector ceases to hide it, as after RESTORE. What a file of a commit holds is taken from vectors and counts, never
from what the commit says of itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from anabranch.errors.commits import ConcurrentDeleteDeleteException, ConcurrentDeleteReadException, ConflictReason
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transaction.conflicts.file_conflicts import NARROW_THE_CONDITION, partition_hint, partition_or_file
from anabranch.transaction.conflicts.rebase_report import select_example_rows
from anabranch.transaction.conflicts.relocate_rows import relocate_rows
from anabranch.transaction.conflicts.traced_files import NewRows, TracedFile, trace_file, trace_moved_rows
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.conflicts.write_serializable import only_moves_rows
from anabranch.transaction.read_set import FileKey, RowsOfFile
from anabranch.transaction.rows.row_ids import visible_row_count_of, with_row_count
from anabranch.transaction.rows.row_map import Moves, checked_moves, has_row_map

# Rows that went, of which it is not known whether ours had read them: the condition is asked of them.
#
# They stand in files of which the rows that satisfied a condition were never told, or that another engine's
# compaction has written. A row that satisfied a condition when we read satisfies it still, for it is the same row.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnresolvedDelete:
    """Rows that a winner took, as they stood before."""

    winner: Winner
    rows: RowsOfFile
    scans: frozenset[int]
    """The numbers of the scans that may have found some of them; each can be asked again."""


def unresolved_delete_conflict(
    context: ConflictContext, unresolved_deletes: Sequence[UnresolvedDelete]
) -> Conflict | None:
    """The first row that a scan of ours had found; in doubt, the first of all. Each scan is asked once."""
    for number, scan in enumerate(context.ours.reads.scans):
        meant = [doubt for doubt in unresolved_deletes if number in doubt.scans]
        if not meant:
            continue
        if context.time_is_up():
            return _read(context, meant[0], reason=ConflictReason.ALLOTTED_TIME_EXCEEDED)
        assert scan.reevaluate is not None, "unresolved_deletes are about scans that can be asked again"
        found = scan.reevaluate([doubt.rows for doubt in meant])
        for doubt, satisfying in zip(meant, found, strict=True):
            if satisfying is None:
                return _read(context, doubt, reason=partition_hint(doubt.rows.file.partition_values))
            if satisfying:
                examples = select_example_rows([(doubt.rows.file, satisfying)])
                return _read(context, doubt, reason=ConflictReason.ROW_LEVEL_CHANGES, example_rows=examples)
    return None


def _read(
    context: ConflictContext,
    doubt: UnresolvedDelete,
    *,
    reason: ConflictReason,
    example_rows: tuple[RowsOfFile, ...] = (),
) -> Conflict:
    file = doubt.rows.file
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=doubt.winner,
        reason=reason,
        where=partition_or_file(context, file.path, file.partition_values),
        advice=NARROW_THE_CONDITION,
        example_rows=example_rows,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedRows:
    """Where everything stands that matters to ours, after all winners. No row that ours knows is gone."""

    files: dict[str, TracedFile]
    """Those that are live and that a winner has touched, by path."""
    untraced: tuple[NewRows, ...]
    """New rows that were moved without word of where to, as they stood before."""
    moved_rows: Mapping[int, int]
    """Rows that ours deletes and that a winner moved, saying where to, by its version."""
    relocated_rows: Mapping[int, int]
    """Rows that ours deletes and that a winner moved without word, by its version."""

    @property
    def new(self) -> list[NewRows]:
        """All rows that came since we read and are still there, oldest first."""
        found = [*self.untraced, *(rows for file in self.files.values() for rows in file.new)]
        return sorted(found, key=lambda rows: rows.origin.version)


def trace_rows(context: ConflictContext) -> tuple[TracedRows, Conflict | None]:
    """Go through the winners, oldest first, until one is found that took or changed a row that ours knows.

    With a conflict comes how things stood behind that winner: rows that it or an earlier one added are told first.
    """
    state = _State(context)
    for winner in context.winners:
        conflict = state.apply(winner)
        if conflict is not None:
            return state.traced(), conflict
    return state.traced(), unresolved_delete_conflict(context, state.unresolved_deletes)


class _State:
    """The table as the winners looked at so far left it; it lives no longer than `trace_rows` runs."""

    def __init__(self, context: ConflictContext) -> None:
        self.context = context
        self.files: dict[str, TracedFile] = {}
        self.untraced: list[NewRows] = []
        self.unresolved_deletes: list[UnresolvedDelete] = []
        self.moved_rows: dict[int, int] = {}
        self.relocated_rows: dict[int, int] = {}
        # Asked once for all winners: to find files in the columns of a large table takes its time.
        paths = {file.path for winner in context.winners for file in winner.files}
        self._rows_as_read = {key[0]: row for key, row in context.read.base_files.find(paths).items()}
        self._as_read = context.read.base_files.adds(self._rows_as_read)
        self._added: dict[FileKey, AddFile] = {}

    def traced(self) -> TracedRows:
        return TracedRows(
            files=self.files,
            untraced=tuple(self.untraced),
            moved_rows=self.moved_rows,
            relocated_rows=self.relocated_rows,
        )

    def apply(self, winner: Winner) -> Conflict | None:
        if self.context.time_is_up():
            return _out_of_time(winner)
        self._load_as_read({file.path for file in winner.files})
        came = {add.path: add for add in winner.adds}
        changed = [add for path, add in came.items() if path in self.files and self.files[path].add.key != add.key]
        # A remove that names another vector than the live one removes nothing. See "Action Reconciliation".
        removed = [
            remove
            for remove in winner.removes
            if remove.path not in came and remove.path in self.files and self.files[remove.path].add.key == remove.key
        ]
        fresh = [add for path, add in came.items() if path not in self.files]
        self._describe(came)
        conflict = self._apply_vector_changes(changed, winner)
        if conflict is not None:
            self.files |= {add.path: _brought(add, winner) for add in fresh if winner.changes_data}
            return conflict
        conflict = self._replace(removed, fresh, winner, only_moves=not changed)
        self._added |= {add.key: add for add in winner.adds}
        return conflict

    def _load_as_read(self, paths: set[str]) -> None:
        """Note how the files of these paths stood when we read, if nobody touched them before."""
        for path in paths & self._as_read.keys():
            self.files[path] = trace_file(self.context, self._as_read.pop(path), self._rows_as_read[path])

    def _describe(self, came: dict[str, AddFile]) -> None:
        """The same logical file again: tags, statistics or row ids were given to it."""
        for path, add in came.items():
            file = self.files.get(path)
            if file is not None and file.add.key == add.key:
                self.files[path] = dataclasses.replace(file, add=with_row_count(add, file.add))

    def _apply_vector_changes(self, adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Files that stay with another vector: some rows went, and after RESTORE some may be back.

        Of a file that hid nothing and has no row that matters, the vectors need not be read.
        """
        traced = [(self.files[add.path], with_row_count(add, self.files[add.path].add)) for add in adds]
        adds = [add for file, add in traced if _needs_vectors(file)]
        files = [self.files[add.path] for add in adds]
        self.files |= {add.path: dataclasses.replace(file, add=add) for file, add in traced}
        before, after = self.context.vectors.hidden([file.add for file in files]), self.context.vectors.hidden(adds)
        gone = [hidden - hidden_before for hidden_before, hidden in zip(before, after, strict=True)]
        back = [hidden_before - hidden for hidden_before, hidden in zip(before, after, strict=True)]
        for file, add, went, came in zip(files, adds, gone, back, strict=True):
            if came and _removes_unknown_rows(file):
                return _file_gone(self.context, winner, [file], [])
            new = [_grown(rows, add, went) for rows in file.new]
            if came:
                new.append(NewRows(origin=winner, first_file=add, file=add, positions=came))
            self.files[add.path] = dataclasses.replace(file, add=add, new=tuple(filter(_holds_rows, new)))
        return self._hidden_rows_conflict(
            [(file, rows) for file, rows in zip(files, gone, strict=True) if rows], winner
        )

    def _hidden_rows_conflict(self, touched: Sequence[tuple[TracedFile, BitMap64]], winner: Winner) -> Conflict | None:
        deletes = [(file.add, hit) for file, gone in touched if (hit := file.deletes_among(gone))]
        reads = [(file.add, hit) for file, gone in touched if (hit := file.only_reads_among(gone))]
        unasked = [file for file, _ in touched if not self._can_reevaluate(file)]
        if reads:
            return _rows_gone(self.context, winner, reads, error=ConcurrentDeleteReadException)
        if deletes:
            return _rows_gone(self.context, winner, deletes, error=ConcurrentDeleteDeleteException)
        if unasked:
            return _file_gone(self.context, winner, [], unasked)
        self.unresolved_deletes += [
            UnresolvedDelete(winner=winner, rows=RowsOfFile(file=file.add, positions=gone), scans=file.unresolved_scans)
            for file, gone in touched
            if file.unresolved_scans
        ]
        return None

    def _can_reevaluate(self, file: TracedFile) -> bool:
        """Whether it can still be found out which of its rows ours read."""
        return all(self.context.ours.reads.scans[number].reevaluate is not None for number in file.unresolved_scans)

    def _replace(
        self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner, *, only_moves: bool
    ) -> Conflict | None:
        """Files that went, and files that came."""
        moves = self._moves(removes, adds, winner) if only_moves else None
        if moves is not None:
            self.moved_rows[winner.version] = sum(len(self.files[remove.path].deleted) for remove in removes)
            self._move([remove.path for remove in removes], adds, moves)
            return None
        unmapped = only_moves and not any(map(has_row_map, removes))
        if unmapped and only_moves_rows(winner, self.context.read, added_before=self._added):
            return self._relocate([self.files.pop(remove.path) for remove in removes], adds, winner)
        sources = [self.files.pop(remove.path) for remove in removes]
        conflict = self._removed_files_conflict(sources, winner)
        if conflict is None or winner.changes_data:
            # Of a commit that claims to move rows it is told that they went, not that others came.
            self.files |= {add.path: _brought(add, winner) for add in adds}
        return conflict

    def _removed_files_conflict(self, sources: Sequence[TracedFile], winner: Winner) -> Conflict | None:
        """Files that took rows with them: a conflict if ours knows one of them."""
        deletes = [source for source in sources if source.deleted or source.deletes_uncounted_rows]
        reads = [source for source in sources if source.reads or not self._can_reevaluate(source)]
        if deletes or reads:
            return _file_gone(self.context, winner, deletes, reads)
        self.unresolved_deletes += [
            UnresolvedDelete(
                winner=winner, rows=RowsOfFile(file=source.add, positions=None), scans=source.unresolved_scans
            )
            for source in sources
            if source.unresolved_scans
        ]
        return None

    def _moves(self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner) -> Moves | None:
        if winner.changes_data or not removes or not all(map(has_row_map, removes)):
            return None
        return checked_moves(
            [(remove, visible_row_count_of(self.files[remove.path].add)) for remove in removes],
            adds,
            self.context.vectors.hidden(adds),
        )

    def _move(self, paths: Sequence[str], adds: Sequence[AddFile], moves: Moves) -> None:
        """Every row stands somewhere else, and it is known where."""
        outputs = {add.path: TracedFile(add=add) for add in adds}
        for path in paths:
            for moved in trace_moved_rows(self.context, self.files.pop(path), moves, outputs):
                outputs[moved.add.path] = moved
        self.files |= outputs

    def _relocate(self, sources: Sequence[TracedFile], adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Rows stand somewhere else, and nobody says where: ours looks for those that it deletes, or gives up.

        Those that it only read are as they were, for no row has changed. Which they are is found out when some go.
        """
        found = relocate_rows(self.context, sources, adds)
        if found is None:
            return self._removed_files_conflict(sources, winner)
        self.relocated_rows[winner.version] = sum(map(len, found.deleted))
        read = frozenset(number for source in sources for number, rows in source.read.items() if rows)
        unknown = read.union(*(source.unresolved_scans for source in sources)) - found.read.keys()
        self.untraced += [rows for source in sources for rows in source.new]
        mixed = any(source.new or source.may_hold_new_rows for source in sources)
        for place, add in enumerate(adds):
            self.files[add.path] = TracedFile(
                add=add,
                deleted=found.deleted[place],
                read={number: rows[place] for number, rows in found.read.items()},
                unresolved_scans=unknown,
                may_hold_new_rows=mixed,
            )
        return None


def _brought(add: AddFile, winner: Winner) -> TracedFile:
    """A file whose rows are all new."""
    return TracedFile(add=add, new=(NewRows(origin=winner, first_file=add, file=add, positions=None),))


def _needs_vectors(file: TracedFile) -> bool:
    """Whether another vector may take rows that matter, or bring rows back: those are new, whatever the file held."""
    return file.has_relevant_rows or bool(file.new) or file.add.deletion_vector is not None


def _removes_unknown_rows(file: TracedFile) -> bool:
    """Whether ours takes the file out whole, so that rows would go that it has not seen."""
    return file.deletes_uncounted_rows


def _grown(rows: NewRows, add: AddFile, gone: BitMap64) -> NewRows:
    left = None if rows.positions is None else rows.positions - gone
    return dataclasses.replace(rows, file=add, positions=left)


def _holds_rows(rows: NewRows) -> bool:
    return rows.positions is None or bool(rows.positions)


def _rows_gone(
    context: ConflictContext,
    winner: Winner,
    rows: Sequence[tuple[AddFile, BitMap64]],
    *,
    error: type[ConcurrentDeleteDeleteException | ConcurrentDeleteReadException],
) -> Conflict:
    """Rows, by files as they stood before the winner."""
    (file, _), *_ = rows
    return Conflict(
        error=error,
        winner=winner,
        reason=ConflictReason.ROW_LEVEL_CHANGES,
        where=partition_or_file(context, file.path, file.partition_values),
        advice=NARROW_THE_CONDITION,
        example_rows=select_example_rows(rows),
    )


def _file_gone(
    context: ConflictContext, winner: Winner, deletes: Sequence[TracedFile], reads: Sequence[TracedFile]
) -> Conflict:
    """Files that took rows with them that ours deletes, or read."""
    file, *_ = deletes or reads
    values = file.add.partition_values
    return Conflict(
        error=ConcurrentDeleteDeleteException if deletes else ConcurrentDeleteReadException,
        winner=winner,
        reason=partition_hint(values) if winner.changes_data else ConflictReason.UNMAPPED_REWRITE,
        where=partition_or_file(context, file.add.path, values),
        advice=NARROW_THE_CONDITION,
        example_rows=select_example_rows(
            (each.add, each.deleted if deletes else each.reads) for each in deletes or reads
        ),
    )


def _out_of_time(winner: Winner) -> Conflict:
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=winner,
        reason=ConflictReason.ALLOTTED_TIME_EXCEEDED,
        advice="Run the operation again, or allow more time for telling whether commits conflict.",
    )
