"""Rows followed from the version we read to the newest, through everything that winners did to their files.

A row is told by file and position. It goes when a vector that hides it replaces one that does not, or when its
file goes; it moves when a winner that changes no row says where to; it is new when its file is new, or when a
vector ceases to hide it, as after RESTORE. What a file of a commit holds is taken from vectors and counts, never
from what the commit says of itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from pyroaring import BitMap64

from anabranch.errors.conflicts import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
)
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.file_rules import NARROWER, hint_of, place_of
from anabranch.transaction.followed_files import FollowedFile, NewRows, as_read
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
    """The table as the winners looked at so far left it; no longer than `follow` runs."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.files: dict[str, FollowedFile] = {}
        self.out_of_sight: list[NewRows] = []
        self._gone: set[str] = set()
        self._added: dict[FileKey, AddFile] = {}

    def apply(self, winner: Winner) -> Conflict | None:
        if self.race.time_is_up():
            return _out_of_time(winner)
        self._take_up({file.path for file in winner.files})
        came = {add.path: add for add in winner.adds}
        staying = [came[path] for path in came if path in self.files]
        removed = [remove for remove in winner.removes if remove.path not in came and remove.path in self.files]
        fresh = [add for add in winner.adds if add.path not in self.files]
        conflict = self._regrow(staying, winner)
        if conflict is None and (removed or fresh):
            conflict = self._replace(removed, fresh, winner, also_changed=any(map(self._changed, staying)))
        self._added |= {add.key: add for add in winner.adds}
        return conflict

    def _take_up(self, paths: set[str]) -> None:
        """Note how the files of these paths stood when we read, if they are touched for the first time."""
        unseen = paths - self.files.keys() - self._gone
        rows = self.race.read.base_files.find(unseen)
        adds = [self.race.read.base_files.adds(unseen)[key[0]] for key in rows] if rows else []
        hidden = self.race.vectors.hidden(adds)
        for add, row, vector in zip(adds, rows.values(), hidden, strict=True):
            self.files[add.path] = as_read(self.race, add, row, vector)
