"""The clock and random UUIDs. Functions receive their source as an argument, so that tests control them."""

from __future__ import annotations

import random
import time
from typing import Protocol

_SLEEP_INCLUSIVE_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""The clock that runs on while the machine sleeps: on Linux the first, on macOS the second. Windows has neither, and
`time.monotonic` does the same there."""


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment in the past. They never decrease, and they run on while the machine sleeps."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms`."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return (
            time.clock_gettime_ns(_SLEEP_INCLUSIVE_CLOCK) if _SLEEP_INCLUSIVE_CLOCK is not None else time.monotonic_ns()
        ) // 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


def random_uuid(source: random.Random) -> str:
    """A random UUID of version 4, in lower case with dashes, as other writers of Delta have them."""
    bits = source.getrandbits(128)
    versioned = bits & ~(0xF << 76) | (0x4 << 76)
    digits = f"{versioned & ~(0x3 << 62) | (0x2 << 62):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
