"""Rows followed from the version we read to the newest, through everything that winners did to their files.

A row is told by file and position. It goes when a vector that hides it replaces one that does not, or when its
file goes; it moves when a winner that changes no row says where to; it is new when its file is new, or when a
vector ceases to hide it, as after RESTORE. What a file of a commit holds is taken from vectors and counts, never
from what the commit says of itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import islice

from pyroaring import BitMap64

from anabranch.errors.conflicts import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
)
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.file_rules import NARROWER, hint_of, place_of
from anabranch.transaction.followed_files import FollowedFile, NewRows, as_read, moved_rows
from anabranch.transaction.race import Conflict, Race
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.rearrangements import only_rearranges
from anabranch.transaction.row_ids import shown_rows
from anabranch.transaction.row_moves import Moves, checked_moves, has_word
from anabranch.transaction.scanning_again import found_again
from anabranch.transaction.winners import Winner

EXAMPLES_MAX = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Followed:
    """Where everything stands that matters to ours, after all winners. No row that ours knows is gone."""

    files: dict[str, FollowedFile]
    """Those that are live and that a winner has touched, by path."""
    out_of_sight: tuple[NewRows, ...]
    """New rows that were moved without word of where to, as they stood before."""

    @property
    def new(self) -> list[NewRows]:
        """All rows that came since we read and are still there, oldest first."""
        found = [*self.out_of_sight, *(rows for file in self.files.values() for rows in file.new)]
        return sorted(found, key=lambda rows: rows.origin.version)


def follow(race: Race) -> Followed | Conflict:
    """Go through the winners, oldest first, until one is found that took or changed a row that ours knows."""
    state = _State(race)
    for winner in race.winners:
        conflict = state.apply(winner)
        if conflict is not None:
            return conflict
    return Followed(files=state.files, out_of_sight=tuple(state.out_of_sight))


class _State:
    """The table as the winners looked at so far left it; it lives no longer than `follow` runs."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.files: dict[str, FollowedFile] = {}
        self.out_of_sight: list[NewRows] = []
        # Asked once for all winners: to find files in the columns of a large table takes its time.
        paths = {file.path for winner in race.winners for file in winner.files}
        self._rows_as_read = {key[0]: row for key, row in race.read.base_files.find(paths).items()}
        self._as_read = race.read.base_files.adds(self._rows_as_read)
        self._added: dict[FileKey, AddFile] = {}

    def apply(self, winner: Winner) -> Conflict | None:
        if self.race.time_is_up():
            return _out_of_time(winner)
        self._take_up({file.path for file in winner.files})
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
        conflict = self._regrow(changed, winner) or self._replace(removed, fresh, winner, only_moves=not changed)
        self._added |= {add.key: add for add in winner.adds}
        return conflict

    def _take_up(self, paths: set[str]) -> None:
        """Note how the files of these paths stood when we read, if nobody touched them before."""
        for path in paths & self._as_read.keys():
            self.files[path] = as_read(self.race, self._as_read.pop(path), self._rows_as_read[path])

    def _describe(self, came: dict[str, AddFile]) -> None:
        """The same logical file again: tags, statistics or row ids were given to it."""
        for path, add in came.items():
            file = self.files.get(path)
            if file is not None and file.add.key == add.key:
                self.files[path] = dataclasses.replace(file, add=add)

    def _regrow(self, adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Files that stay with another vector: some rows went, and after RESTORE some may be back.

        Of a file that hid nothing and has no row that matters, the vectors need not be read.
        """
        followed = [(self.files[add.path], add) for add in adds]
        adds = [add for file, add in followed if file.matters or file.new or file.add.deletion_vector is not None]
        files = [self.files[add.path] for add in adds]
        self.files |= {add.path: dataclasses.replace(file, add=add) for file, add in followed}
        before, after = self.race.vectors.hidden([file.add for file in files]), self.race.vectors.hidden(adds)
        gone = [hidden - hidden_before for hidden_before, hidden in zip(before, after, strict=True)]
        back = [hidden_before - hidden for hidden_before, hidden in zip(before, after, strict=True)]
        for file, add, went, came in zip(files, adds, gone, back, strict=True):
            new = [_grown(rows, add, went) for rows in file.new]
            if came:
                new.append(NewRows(origin=winner, first=add, file=add, positions=came))
            self.files[add.path] = dataclasses.replace(file, add=add, new=tuple(filter(_holds_rows, new)))
        return self._first_hit(zip(files, gone, strict=True), winner)

    def _first_hit(self, touched: Iterable[tuple[FollowedFile, BitMap64]], winner: Winner) -> Conflict | None:
        hits = [(file, file.deletes_among(gone), file.reads_among(gone)) for file, gone in touched]
        for file, deletes, _ in hits:
            if deletes:
                return _rows_gone(self.race, winner, file, deletes, error=ConcurrentDeleteDeleteException)
        for file, _, reads in hits:
            if reads:
                return _rows_gone(self.race, winner, file, reads, error=ConcurrentDeleteReadException)
        return None

    def _replace(
        self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner, *, only_moves: bool
    ) -> Conflict | None:
        """Files that went, and files that came."""
        moves = self._moves(removes, adds, winner) if only_moves else None
        if moves is not None:
            self._move([remove.path for remove in removes], adds, moves)
            return None
        unmapped = only_moves and not any(map(has_word, removes))
        if unmapped and only_rearranges(winner, self.race.read, added_before=self._added):
            return self._lose_sight([self.files.pop(remove.path) for remove in removes], adds, winner)
        sources = [self.files.pop(remove.path) for remove in removes]
        for add in adds:
            self.files[add.path] = FollowedFile(
                add=add, new=(NewRows(origin=winner, first=add, file=add, positions=None),)
            )
        return _files_gone(self.race, winner, sources)

    def _moves(self, removes: Sequence[RemoveFile], adds: Sequence[AddFile], winner: Winner) -> Moves | None:
        if winner.changes_data or not removes or not all(map(has_word, removes)):
            return None
        return checked_moves(
            [(remove, _rows_shown(self.files[remove.path].add)) for remove in removes],
            adds,
            self.race.vectors.hidden(adds),
        )

    def _move(self, paths: Sequence[str], adds: Sequence[AddFile], moves: Moves) -> None:
        """Every row stands somewhere else, and it is known where."""
        outputs = {add.path: FollowedFile(add=add) for add in adds}
        for path in paths:
            for moved in moved_rows(self.race, self.files.pop(path), moves, outputs):
                outputs[moved.add.path] = moved
        self.files |= outputs

    def _lose_sight(self, sources: Sequence[FollowedFile], adds: Sequence[AddFile], winner: Winner) -> Conflict | None:
        """Rows stand somewhere else, and nobody says where: ours looks for those that it deletes, or gives up."""
        found: Sequence[BitMap64] = [BitMap64() for _ in adds]
        if any(source.deleted or source.any_deleted for source in sources):
            again = found_again(self.race, sources, adds)
            if again is None:
                return _files_gone(self.race, winner, [source for source in sources if source.matters])
            found = again
        any_read = any(source.any_read or any(source.read.values()) for source in sources)
        self.out_of_sight += [rows for source in sources for rows in source.new]
        for add, deleted in zip(adds, found, strict=True):
            self.files[add.path] = FollowedFile(add=add, deleted=deleted, any_read=any_read)
        return None


def _grown(rows: NewRows, add: AddFile, gone: BitMap64) -> NewRows:
    left = None if rows.positions is None else rows.positions - gone
    return dataclasses.replace(rows, file=add, positions=left)


def _holds_rows(rows: NewRows) -> bool:
    return rows.positions is None or bool(rows.positions)


def _rows_shown(add: AddFile) -> int | None:
    return shown_rows(add.stats, add.deletion_vector.cardinality if add.deletion_vector else 0)


def _rows_gone(
    race: Race,
    winner: Winner,
    file: FollowedFile,
    rows: BitMap64,
    *,
    error: type[ConcurrentDeleteDeleteException | ConcurrentDeleteReadException],
) -> Conflict:
    return Conflict(
        error=error,
        winner=winner,
        reason=ConflictReason.ROW_LEVEL_CHANGES,
        where=place_of(race, file.add.path, file.add.partition_values),
        advice=NARROWER,
        example_keys=tuple(f"row {position} of {file.add.path}" for position in islice(rows, EXAMPLES_MAX)),
    )


def _files_gone(race: Race, winner: Winner, sources: Iterable[FollowedFile]) -> Conflict | None:
    """The first file that took rows with it that ours knows."""
    lost = [source for source in sources if source.matters]
    if not lost:
        return None
    deletes = [source for source in lost if source.deleted or source.any_deleted]
    file = (deletes or lost)[0]
    values = file.add.partition_values
    return Conflict(
        error=ConcurrentDeleteDeleteException if deletes else ConcurrentDeleteReadException,
        winner=winner,
        reason=hint_of(values) if winner.changes_data else ConflictReason.UNMAPPED_REWRITE,
        where=place_of(race, file.add.path, values),
        advice=NARROWER,
    )


def _out_of_time(winner: Winner) -> Conflict:
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=winner,
        reason=ConflictReason.ALLOTTED_TIME_EXCEEDED,
        advice="Run the operation again, or allow more time for telling whether commits conflict.",
    )
