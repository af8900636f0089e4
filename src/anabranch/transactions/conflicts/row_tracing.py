"""Traces rows from the version that ours read to the newest, through all changes that winners made to their files.

A row is identified by file and position. It is deleted when a vector that hides it replaces one that does not, or when
its file is removed; it is moved when a winner that changes no row records its new position; it is new when its file is
new, or when a vector no longer hides it, as after RESTORE. All of this is decided by vectors and counts of rows, never
by what `commitInfo` claims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from anabranch.errors.commits import ConcurrentDeleteDeleteException, ConcurrentDeleteReadException, ConflictReason
from anabranch.protocol.actions import AddFile, RemoveFile, visible_row_count_of, with_row_count
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.file_conflicts import NARROW_CONDITION, partition_hint, partition_or_file
from anabranch.transactions.conflicts.rebase_report import select_example_rows
from anabranch.transactions.conflicts.relocate_rows import relocate_rows
from anabranch.transactions.conflicts.traced_files import (
    NewRows,
    TracedFile,
    load_vectors_of_winners,
    trace_file,
    trace_moved_rows,
)
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.conflicts.write_serializable import only_moves_rows
from anabranch.transactions.read_set import FileKey, RowsOfFile
from anabranch.transactions.rows.row_map import Moves, checked_moves, has_row_map


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnresolvedDelete:
    """Rows that a winner deleted, of which it is not known whether ours had read them.

    They are in files for which a scan did not record its rows, or which another engine's compaction has written. The
    conditions of the scans are evaluated for them: a row that satisfied one when ours read it still satisfies it,
    because it is the same row.
    """

    winner: Winner
    rows: RowsOfFile
    """The rows in their file as it was before the winner."""
    scans: frozenset[int]
    """The numbers of the scans that may have found some of the rows; each of them can be evaluated again."""


def unresolved_delete_conflict(
    context: ConflictContext, unresolved_deletes: Sequence[UnresolvedDelete]
) -> Conflict | None:
    """The conflict with the first deleted row that a scan of ours had found. Each scan is evaluated once.

    Where a condition cannot be evaluated, the first of all rows counts as found.
    """
    for number, scan in enumerate(context.ours.reads.scans):
        of_scan = [delete for delete in unresolved_deletes if number in delete.scans]
        if not of_scan:
            continue
        if context.time_is_up():
            return _delete_read_conflict(context, of_scan[0], reason=ConflictReason.ALLOTTED_TIME_EXCEEDED)
        assert scan.reevaluate is not None, "a scan of an unresolved delete can be evaluated again"
        matches = scan.reevaluate([delete.rows for delete in of_scan])
        for delete, rows in zip(of_scan, matches, strict=True):
            if rows is None:
                hint = partition_hint(delete.rows.file.partition_values)
                return _delete_read_conflict(context, delete, reason=hint)
            if rows:
                examples = select_example_rows([(delete.rows.file, rows)])
                reason = ConflictReason.ROW_LEVEL_CHANGES
                return _delete_read_conflict(context, delete, reason=reason, example_rows=examples)
    return None


def _delete_read_conflict(
    context: ConflictContext,
    delete: UnresolvedDelete,
    *,
    reason: ConflictReason,
    example_rows: tuple[RowsOfFile, ...] = (),
) -> Conflict:
    file = delete.rows.file
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=delete.winner,
        reason=reason,
        where=partition_or_file(context, file.path, file.partition_values),
        advice=NARROW_CONDITION,
        example_rows=example_rows,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedRows:
    """All rows that matter to ours after all winners: no row that ours read or deletes was deleted."""

    files: dict[str, TracedFile]
    """The live files that a winner has changed, by path."""
    untraced: tuple[NewRows, ...]
    """New rows that a later winner moved without recording their new positions, in their files before that."""
    moved_rows: Mapping[int, int]
    """The number of rows that ours deletes and that a winner moved with a row map, by its version."""
    relocated_rows: Mapping[int, int]
    """The number of rows that ours deletes and that a winner moved without a row map, by its version."""

    @property
    def new(self) -> list[NewRows]:
        """All rows that were added since ours read and were not deleted again, oldest first."""
        new = [*self.untraced, *(rows for file in self.files.values() for rows in file.new)]
        return sorted(new, key=lambda rows: rows.origin.version)


def trace_rows(context: ConflictContext) -> tuple[TracedRows, Conflict | None]:
    """Trace rows through the winners, oldest first, up to one that deleted or changed a row that ours read or deletes.

    With a conflict, the traced rows are those after that winner: added rows are reported before the conflict.
    """
    tracer = _RowTracer(context)
    for winner in context.winners:
        conflict = tracer.apply(winner)
        if conflict is not None:
            return tracer.traced(), conflict
    return tracer.traced(), unresolved_delete_conflict(context, tracer.unresolved_deletes)


class _RowTracer:
    """The mutable state of one call of `trace_rows`: the rows after the winners applied so far."""

    def __init__(self, context: ConflictContext) -> None:
        self.context = context
        self.files: dict[str, TracedFile] = {}
        self.untraced: list[NewRows] = []
        self.unresolved_deletes: list[UnresolvedDelete] = []
        self.moved_rows: dict[int, int] = {}
        self.relocated_rows: dict[int, int] = {}
        # One search for all winners, since finding files in the columns of a large table takes long.
        paths = {file.path for winner in context.winners for file in winner.files}
        self._rows_as_read = {key[0]: row for key, row in context.read.base_files.find(paths).items()}
        self._as_read = context.read.base_files.adds(self._rows_as_read)
        self._added: dict[FileKey, AddFile] = {}
        load_vectors_of_winners(context, self._as_read, self._rows_as_read)

    def traced(self) -> TracedRows:
        return TracedRows(
            files=self.files,
            untraced=tuple(self.untraced),
            moved_rows=self.moved_rows,
            relocated_rows=self.relocated_rows,
        )

    def apply(self, winner: Winner) -> Conflict | None:
        """Trace rows through one winner. Returns the conflict if it deleted a row that ours read or deletes."""
        if self.context.time_is_up():
            return _out_of_time_conflict(winner)
        self._load_as_read({file.path for file in winner.files})
        added = {add.path: add for add in winner.adds}
        changed = [add for path, add in added.items() if path in self.files and self.files[path].add.key != add.key]
        # A remove that names another vector than the live one removes nothing. See "Action Reconciliation".
        removed = [
            remove
            for remove in winner.removes
            if remove.path not in added and remove.path in self.files and self.files[remove.path].add.key == remove.key
        ]
        new = [add for path, add in added.items() if path not in self.files]
        self._apply_file_metadata(added)
        conflict = self._apply_vector_changes(changed, winner)
        if conflict is not None:
            self.files |= {add.path: _new_file(add, winner) for add in new if winner.changes_data}
            return conflict
        conflict = self._replace_files(removed, new, winner, only_moves=not changed)
        self._added |= {add.key: add for add in winner.adds}
        return conflict

    def _load_as_read(self, paths: set[str]) -> None:
        """Begin to trace the files of our snapshot with these paths, unless an earlier winner changed them."""
        for path in paths & self._as_read.keys():
            self.files[path] = trace_file(self.context, self._as_read.pop(path), self._rows_as_read[path])

    def _apply_file_metadata(self, added: dict[str, AddFile]) -> None:
        """Take over tags, statistics and row ids of logical files that were added again."""
        for path, add in added.items():
            file = self.files.get(path)
            if file is not None and file.add.key == add.key:
                self.files[path] = dataclasses.replace(file, add=with_row_count(add, file.add))

    def _apply_vector_changes(self, adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Apply new vectors of live files, which delete rows, and after RESTORE may make rows visible again.

        The vectors of a file without hidden and relevant rows need not be read.
        """
        files: list[TracedFile] = []
        for changed in adds:
            file = self.files[changed.path]
            add = with_row_count(changed, file.add)
            self.files[add.path] = dataclasses.replace(file, add=add)
            if _needs_vectors(file):
                files.append(file)
        adds = [self.files[file.add.path].add for file in files]
        before, after = self.context.vectors.hidden([file.add for file in files]), self.context.vectors.hidden(adds)
        deleted = [hidden - hidden_before for hidden_before, hidden in zip(before, after, strict=True)]
        restored = [hidden_before - hidden for hidden_before, hidden in zip(before, after, strict=True)]
        for file, add, deleted_rows, restored_rows in zip(files, adds, deleted, restored, strict=True):
            if restored_rows and _removes_unknown_rows(file):
                return _file_conflict(self.context, winner, [file], [])
            new = [_without_deleted(rows, add, deleted_rows) for rows in file.new]
            if restored_rows:
                new.append(NewRows(origin=winner, first_file=add, file=add, positions=restored_rows))
            if new:
                self.files[add.path] = dataclasses.replace(file, add=add, new=tuple(filter(_has_rows, new)))
        return self._deleted_rows_conflict(
            [(file, rows) for file, rows in zip(files, deleted, strict=True) if rows], winner
        )

    def _deleted_rows_conflict(self, deletes: Sequence[tuple[TracedFile, BitMap64]], winner: Winner) -> Conflict | None:
        """The conflict if ours read or deletes one of these rows, which the winner has deleted."""
        deleted_by_both = [(file.add, common) for file, rows in deletes if (common := file.deletes_among(rows))]
        read = [(file.add, common) for file, rows in deletes if (common := file.only_reads_among(rows))]
        not_repeatable = [file for file, _ in deletes if not self._can_reevaluate(file)]
        if read:
            return _row_conflict(self.context, winner, read, error=ConcurrentDeleteReadException)
        if deleted_by_both:
            return _row_conflict(self.context, winner, deleted_by_both, error=ConcurrentDeleteDeleteException)
        if not_repeatable:
            return _file_conflict(self.context, winner, [], not_repeatable)
        self.unresolved_deletes += [
            UnresolvedDelete(winner=winner, rows=RowsOfFile(file=file.add, positions=rows), scans=file.unresolved_scans)
            for file, rows in deletes
            if file.unresolved_scans
        ]
        return None

    def _can_reevaluate(self, file: TracedFile) -> bool:
        """Whether all scans whose rows in the file are not known can be evaluated again."""
        return all(self.context.ours.reads.scans[number].reevaluate is not None for number in file.unresolved_scans)

    def _replace_files(
        self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner, *, only_moves: bool
    ) -> Conflict | None:
        """Apply the removal of files and the addition of others.

        `only_moves` is False if the winner also changed vectors of files: then its rows are not traced to new files.
        """
        moves = self._row_map(removes, adds, winner) if only_moves else None
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
            # With a winner that claims to change no row the conflict is about the rows it removed, not those it added.
            self.files |= {add.path: _new_file(add, winner) for add in adds}
        return conflict

    def _removed_files_conflict(self, sources: Sequence[TracedFile], winner: Winner) -> Conflict | None:
        """The conflict if ours read or deletes rows of these files, which the winner has removed."""
        deletes = [source for source in sources if source.deleted or source.deletes_uncounted_rows]
        reads = [source for source in sources if source.reads or not self._can_reevaluate(source)]
        if deletes or reads:
            return _file_conflict(self.context, winner, deletes, reads)
        self.unresolved_deletes += [
            UnresolvedDelete(
                winner=winner, rows=RowsOfFile(file=source.add, positions=None), scans=source.unresolved_scans
            )
            for source in sources
            if source.unresolved_scans
        ]
        return None

    def _row_map(self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner) -> Moves | None:
        """The row map of the winner; None where it has none, or an invalid one."""
        if winner.changes_data or not removes or not all(map(has_row_map, removes)):
            return None
        return checked_moves(
            [(remove, visible_row_count_of(self.files[remove.path].add)) for remove in removes],
            adds,
            self.context.vectors.hidden(adds),
        )

    def _move(self, paths: Sequence[str], adds: Sequence[AddFile], moves: Moves) -> None:
        """Trace the rows of these files to the outputs, by the row map."""
        outputs = {add.path: TracedFile(add=add) for add in adds}
        for path in paths:
            for moved in trace_moved_rows(self.context, self.files.pop(path), moves, outputs):
                outputs[moved.add.path] = moved
        self.files |= outputs

    def _relocate(self, sources: Sequence[TracedFile], adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Trace rows that the winner moved without a row map: the rows that ours deletes are searched for.

        If they are not found, it is a conflict. Rows that ours only read are unchanged, since the winner changes no
        row; their new positions are resolved only if a later winner deletes rows of these files.
        """
        relocated = relocate_rows(self.context, sources, adds)
        if relocated is None:
            return self._removed_files_conflict(sources, winner)
        self.relocated_rows[winner.version] = sum(map(len, relocated.deleted))
        scans_with_rows = frozenset(number for source in sources for number, rows in source.read.items() if rows)
        unresolved = scans_with_rows.union(*(source.unresolved_scans for source in sources)) - relocated.read.keys()
        self.untraced += [rows for source in sources for rows in source.new]
        may_hold_new_rows = any(source.new or source.may_hold_new_rows for source in sources)
        for output, add in enumerate(adds):
            self.files[add.path] = TracedFile(
                add=add,
                deleted=relocated.deleted[output],
                read={number: rows[output] for number, rows in relocated.read.items()},
                unresolved_scans=unresolved,
                may_hold_new_rows=may_hold_new_rows,
            )
        return None


def _new_file(add: AddFile, winner: Winner) -> TracedFile:
    """A file whose rows are all new."""
    return TracedFile(add=add, new=(NewRows(origin=winner, first_file=add, file=add, positions=None),))


def _needs_vectors(file: TracedFile) -> bool:
    """Whether a new vector may delete relevant rows, or make hidden rows visible, which are new in any file."""
    return file.has_relevant_rows or bool(file.new) or file.add.deletion_vector is not None


def _removes_unknown_rows(file: TracedFile) -> bool:
    """Whether ours removes the whole file, so that it would also delete rows that it has not read."""
    return file.deletes_uncounted_rows


def _without_deleted(rows: NewRows, add: AddFile, deleted: BitMap64) -> NewRows:
    left = None if rows.positions is None else rows.positions - deleted
    return dataclasses.replace(rows, file=add, positions=left)


def _has_rows(rows: NewRows) -> bool:
    return rows.positions is None or bool(rows.positions)


def _row_conflict(
    context: ConflictContext,
    winner: Winner,
    rows: Sequence[tuple[AddFile, BitMap64]],
    *,
    error: type[ConcurrentDeleteDeleteException | ConcurrentDeleteReadException],
) -> Conflict:
    """The conflict over these rows, by their files before the winner."""
    (file, _), *_ = rows
    return Conflict(
        error=error,
        winner=winner,
        reason=ConflictReason.ROW_LEVEL_CHANGES,
        where=partition_or_file(context, file.path, file.partition_values),
        advice=NARROW_CONDITION,
        example_rows=select_example_rows(rows),
    )


def _file_conflict(
    context: ConflictContext, winner: Winner, deletes: Sequence[TracedFile], reads: Sequence[TracedFile]
) -> Conflict:
    """The conflict over files with rows that ours deletes, or else that ours read."""
    file, *_ = deletes or reads
    values = file.add.partition_values
    return Conflict(
        error=ConcurrentDeleteDeleteException if deletes else ConcurrentDeleteReadException,
        winner=winner,
        reason=partition_hint(values) if winner.changes_data else ConflictReason.UNMAPPED_REWRITE,
        where=partition_or_file(context, file.add.path, values),
        advice=NARROW_CONDITION,
        example_rows=select_example_rows(
            (traced.add, traced.deleted if deletes else traced.reads) for traced in deletes or reads
        ),
    )


def _out_of_time_conflict(winner: Winner) -> Conflict:
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=winner,
        reason=ConflictReason.ALLOTTED_TIME_EXCEEDED,
        advice="Run the operation again, or allow more time for the conflict checks.",
    )
