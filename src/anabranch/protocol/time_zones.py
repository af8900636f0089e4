"""Time zones as values: which moment clocks mean that show a certain time.

The rules come from whoever decides about rows: from Spark's JVM where Spark does. Its data and Python's differ
(`Europe/Oslo` before 1970, zones that changed since one of the two was released), and some names only one of them
knows. All times are in microseconds: a moment since 1970-01-01 in UTC, a local time since clocks showed 1970-01-01.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

_CYCLE = 146_097 * 86_400_000_000
"""After 400 years the calendar repeats, days of the week with it."""


class TimeZone(Protocol):
    """Clocks of one place."""

    def moment_of(self, local: int) -> int:
        """The moment at which clocks show `local`; the first of two. A time that clocks skip comes later by as much."""

    def shows_once(self, local: int) -> bool:
        """Whether there is one moment at which clocks show `local`."""

    def local_of(self, moment: int) -> int:
        """What clocks show at a moment."""


Zones = Callable[[str], TimeZone | None]
"""The time zone of a name or an offset as Spark takes them; None where there is no such zone."""


@dataclasses.dataclass(frozen=True, slots=True)
class FixedOffset:
    """Clocks that are never changed."""

    offset: int
    """How far they are ahead of UTC."""

    def moment_of(self, local: int) -> int:
        return local - self.offset

    def shows_once(self, local: int) -> bool:
        del local
        return True

    def local_of(self, moment: int) -> int:
        return moment + self.offset


UTC = FixedOffset(0)


@dataclasses.dataclass(frozen=True, slots=True)
class ZoneRules:
    """Clocks that were changed at certain moments.

    1. `changes` ascend, and `offsets` has one more: how far clocks are ahead of UTC before, between and after them.
    2. From `last` on the rules are those of the 400 years before it.
    """

    changes: Sequence[int]
    offsets: Sequence[int]
    last: int

    def moment_of(self, local: int) -> int:
        shift = self._shift(local)
        return local - self.offsets[self._before(local - shift)]

    def shows_once(self, local: int) -> bool:
        near = local - self._shift(local)
        index = self._before(near)
        if index == len(self.changes):
            return True
        return near < self.changes[index] + min(self.offsets[index], self.offsets[index + 1])

    def local_of(self, moment: int) -> int:
        near = moment - self._shift(moment)
        return moment + self.offsets[bisect.bisect_right(self.changes, near)]

    def _before(self, local: int) -> int:
        """How many changes are over for clocks that show `local`, the one in which they show it twice or never not."""
        return bisect.bisect_right(
            range(len(self.changes)),
            local,
            key=lambda index: self.changes[index] + max(self.offsets[index], self.offsets[index + 1]),
        )

    def _shift(self, time: int) -> int:
        return 0 if time < self.last else ((time - self.last) // _CYCLE + 1) * _CYCLE
