"""Rows that went, of which it is not known whether ours had read them: the condition is asked of them.

They stand in files of which the rows that satisfied a condition were never told, or that another engine's
compaction has written. A row that satisfied a condition when we read satisfies it still, for it is the same row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.errors.conflicts import ConcurrentDeleteReadException, ConflictReason
from anabranch.transaction.example_rows import few_rows
from anabranch.transaction.file_rules import NARROWER, hint_of, place_of
from anabranch.transaction.race import Conflict, Race
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.winners import Winner


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doubt:
    """Rows that a winner took, as they stood before."""

    winner: Winner
    rows: RowsOfFile
    scans: frozenset[int]
    """The numbers of the scans that may have found some of them; each can be asked again."""


def first_row_read(race: Race, doubts: Sequence[Doubt]) -> Conflict | None:
    """The first row that a scan of ours had found; in doubt, the first of all. Each scan is asked once."""
    for number, scan in enumerate(race.ours.reads.scans):
        meant = [doubt for doubt in doubts if number in doubt.scans]
        if not meant:
            continue
        if race.time_is_up():
            return _read(race, meant[0], reason=ConflictReason.ALLOTTED_TIME_EXCEEDED)
        assert scan.again is not None, "doubts are about scans that can be asked again"
        found = scan.again([doubt.rows for doubt in meant])
        for doubt, satisfying in zip(meant, found, strict=True):
            if satisfying is None:
                return _read(race, doubt, reason=hint_of(doubt.rows.file.partition_values))
            if satisfying:
                examples = few_rows([(doubt.rows.file, satisfying)])
                return _read(race, doubt, reason=ConflictReason.ROW_LEVEL_CHANGES, example_rows=examples)
    return None


def _read(race: Race, doubt: Doubt, *, reason: ConflictReason, example_rows: tuple[RowsOfFile, ...] = ()) -> Conflict:
    file = doubt.rows.file
    return Conflict(
        error=ConcurrentDeleteReadException,
        winner=doubt.winner,
        reason=reason,
        where=place_of(race, file.path, file.partition_values),
        advice=NARROWER,
        example_rows=example_rows,
    )
