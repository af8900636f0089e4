"""Numbers of identity columns that a commit reserves for one statement, which then uses them.

The mark of a column in the log covers every number before it is used. So numbers are unique, whoever writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.schema.computed_columns import LONG_MAX, LONG_MIN, IdentityNumbering


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """`first`, `first + step`, … `last`."""

    first: int
    last: int
    step: int

    @classmethod
    def next_of(cls, numbering: IdentityNumbering, *, count: int) -> Self | None:
        """The first `count` numbers that no commit has used or reserved; None where a BIGINT does not hold them."""
        first = numbering.next_value
        last = first + (count - 1) * numbering.step
        fits = LONG_MIN <= first <= LONG_MAX and LONG_MIN <= last <= LONG_MAX
        return cls(first=first, last=last, step=numbering.step) if fits else None

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return (self.last - self.first) // self.step + 1

    def reaches(self, number: int) -> bool:
        """Whether it does not end before this number."""
        return number <= self.last if self.step > 0 else number >= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedNumbers:
    """Numbers that a commit has reserved for one statement."""

    version: int
    """The version of that commit."""
    ranges: Mapping[str, NumberRange]
    """By column."""

    @property
    def first_numbers(self) -> dict[str, int]:
        """The first number of each column."""
        return {name: numbers.first for name, numbers in self.ranges.items()}

    def hold(self, name: str, numbers: NumberRange) -> bool:
        """Whether all of these numbers of the column are reserved."""
        return name in self.ranges and self.ranges[name].reaches(numbers.last)


class ExecuteAgainError(Exception):
    """The numbers that a statement has generated are taken; it has to be executed again with reserved ones.

    Users never see it: whoever lets a transaction reserve numbers executes the statement again.
    """

    def __init__(self, reserved: ReservedNumbers, conflict: DeltaConcurrentModificationException) -> None:
        super().__init__(f"version {reserved.version} reserves numbers for another execution of the statement")
        self.reserved = reserved
        self.conflict = conflict
        """What would be raised if the statement were not executed again."""
