"""Rules that look right and are wrong, to be put in the place of ours: judges that do not find them are of no use."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from unittest import mock

import msgspec
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction import bins, hiding_rows, invariants, row_following, row_rules
from anabranch.transaction.doubts import Doubt
from anabranch.transaction.followed_files import FollowedFile
from anabranch.transaction.race import Conflict, Race
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.row_following import Followed
from anabranch.transaction.row_moves import Moves
from anabranch.transaction.scanning_again import FoundAgain
from anabranch.transaction.winners import Winner
from concurrency.random_histories import (
    APPENDS_AND_COMPACTION,
    APPENDS_AND_READERS,
    CHANGES_AND_OPTIMIZE,
    EVERYTHING,
    MERGES_AND_COMPACTION,
    Mix,
)

Patch = tuple[object, str, object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrongRule:
    """What is wrong, and which histories are likely to show it."""

    name: str
    patches: Sequence[Patch]
    mix: Mix = EVERYTHING
    histories_max: int = 2_000
    verdict: str = ""
    """What a judge must say of it."""

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, rule in self.patches:
                stack.enter_context(mock.patch.object(owner, name, rule))
            yield


def _no_reads(self: FollowedFile, gone: BitMap64) -> BitMap64:
    return BitMap64()


def _no_conflict(race: Race, followed: Followed) -> tuple[()]:
    return ()


def _new_but_of_updates(race: Race, followed: Followed) -> Conflict | tuple[Winner, ...]:
    files = {
        path: dataclasses.replace(file, new=tuple(rows for rows in file.new if rows.origin.operation != "UPDATE"))
        for path, file in followed.files.items()
    }
    return RIGHT_ROWS_ADDED(race, dataclasses.replace(followed, files=files))


def _no_cycles(race: Race, ignored: object) -> bool:
    return False


def _scan_anything_again(race: Race, sources: Sequence[FollowedFile], outputs: Sequence[AddFile]) -> FoundAgain | None:
    for scan in race.ours.reads.scans:
        if scan.again is not None:
            found = scan.again([RowsOfFile(file=add, positions=None) for add in outputs])
            return FoundAgain(deleted=[rows or BitMap64() for rows in found])
    return None


def _nothing_read(race: Race, doubts: Sequence[Doubt]) -> None:
    return None


def _remove_by_path(file: AddFile, **facts: object) -> RemoveFile:
    return msgspec.structs.replace(RIGHT_REMOVAL(file, **facts), deletion_vector=None)  # type: ignore[arg-type]


def _no_complaints(*facts: object) -> Iterator[str]:
    return iter(())


def _moved_without_counting(self: Moves, positions: BitMap64, *, source: str, hidden: BitMap64) -> dict[str, BitMap64]:
    return RIGHT_MOVED(self, positions, source=source, hidden=BitMap64())


def _no_marks(race: Race, before: AddFile, now: AddFile, moves: Moves) -> dict[str, BitMap64]:
    return {}


def _moved_rows_are_old(
    race: Race, source: FollowedFile, moves: Moves, outputs: Mapping[str, FollowedFile]
) -> list[FollowedFile]:
    return RIGHT_MOVED_ROWS(race, dataclasses.replace(source, new=()), moves, outputs)


def _unchecked(file: AddFile, positions: BitMap64, hidden: BitMap64) -> bool:
    return False


RIGHT_ROWS_ADDED: Callable[[Race, Followed], Conflict | tuple[Winner, ...]] = row_rules.rows_added
RIGHT_REMOVAL = hiding_rows.removal
RIGHT_MOVED = Moves.moved
RIGHT_MOVED_ROWS = row_following.moved_rows

WRONG_RULES = (
    WrongRule(
        name="vectors are united because they are disjoint, and reads are not looked at",
        patches=[(FollowedFile, "reads_among", _no_reads), (row_rules, "rows_added", _no_conflict)],
    ),
    WrongRule(
        name="rows that an UPDATE wrote are not new",
        patches=[(row_rules, "rows_added", _new_but_of_updates)],
        verdict="a serial run has",
    ),
    WrongRule(
        name="WriteSerializable without Rule R",
        patches=[(row_rules, "closes_a_cycle", _no_cycles)],
        mix=APPENDS_AND_READERS,
        histories_max=6_000,
        verdict="no order",
    ),
    WrongRule(
        name="another engine's compaction is scanned again, whatever it swallowed",
        patches=[(row_following, "found_again", _scan_anything_again)],
        mix=APPENDS_AND_COMPACTION,
    ),
    WrongRule(
        name="what ours read in files that were moved without word is not looked for",
        patches=[(row_following, "first_row_read", _nothing_read)],
        mix=MERGES_AND_COMPACTION,
    ),
    WrongRule(
        name="a remove names the path and not the vector",
        patches=[(hiding_rows, "removal", _remove_by_path), (invariants, "_files_that_do_not_fit", _no_complaints)],
    ),
    WrongRule(
        name="rows are moved by position, hidden rows not counted",
        patches=[(Moves, "moved", _moved_without_counting), (hiding_rows, "_is_everything", _unchecked)],
        mix=CHANGES_AND_OPTIMIZE,
    ),
    WrongRule(name="OPTIMIZE forgets rows that were hidden meanwhile", patches=[(bins, "_new_marks", _no_marks)]),
    WrongRule(
        name="rows that an OPTIMIZE moved count as old",
        patches=[(row_following, "moved_rows", _moved_rows_are_old)],
        mix=CHANGES_AND_OPTIMIZE,
    ),
)
