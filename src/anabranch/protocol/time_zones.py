"""Time zones as values: conversions between local times and moments in UTC.

The rules come from the engine that evaluates conditions: from Spark's JVM where Spark does. Its data and Python's
differ (`Europe/Oslo` before 1970, zones that changed since one of the two was released), and some names are known to
only one of them. All times are in microseconds: a moment since 1970-01-01 in UTC, a local time since 1970-01-01 there.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

_CYCLE = 146_097 * 86_400_000_000
"""The calendar repeats after 400 years, including days of the week."""


class TimeZone(Protocol):
    """The conversions of one time zone."""

    def to_utc(self, local: int) -> int:
        """The moment of a local time, the first of two. A time that is skipped is moved forward by the gap."""

    def is_unambiguous(self, local: int) -> bool:
        """Whether exactly one moment has this local time."""

    def to_local(self, moment: int) -> int:
        """The local time at a moment."""


Zones = Callable[[str], TimeZone | None]
"""A function from a name or an offset, as Spark accepts them, to the time zone; None where there is no such zone."""


@dataclasses.dataclass(frozen=True, slots=True)
class FixedOffset:
    """A time zone with one offset from UTC."""

    offset: int
    """The offset, positive east of Greenwich."""

    def to_utc(self, local: int) -> int:
        return local - self.offset

    def is_unambiguous(self, local: int) -> bool:
        del local
        return True

    def to_local(self, moment: int) -> int:
        return moment + self.offset


UTC = FixedOffset(0)


@dataclasses.dataclass(frozen=True, slots=True)
class ZoneRules:
    """A time zone whose offset changes at certain moments.

    1. `changes` ascend, and `offsets` has one element more: the offsets from UTC before, between and after them.
    2. From `last` on, the rules of the 400 years before it repeat.
    """

    changes: Sequence[int]
    offsets: Sequence[int]
    last: int

    def to_utc(self, local: int) -> int:
        shift = self._shift(local)
        return local - self.offsets[self._before(local - shift)]

    def is_unambiguous(self, local: int) -> bool:
        near = local - self._shift(local)
        index = self._before(near)
        if index == len(self.changes):
            return True
        return near < self.changes[index] + min(self.offsets[index], self.offsets[index + 1])

    def to_local(self, moment: int) -> int:
        near = moment - self._shift(moment)
        return moment + self.offsets[bisect.bisect_right(self.changes, near)]

    def _before(self, local: int) -> int:
        """How many changes precede a local time, without the one that makes it occur twice or never."""
        return bisect.bisect_right(
            range(len(self.changes)),
            local,
            key=lambda index: self.changes[index] + max(self.offsets[index], self.offsets[index + 1]),
        )

    def _shift(self, time: int) -> int:
        return 0 if time < self.last else ((time - self.last) // _CYCLE + 1) * _CYCLE
