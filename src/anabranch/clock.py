"""Time and chance, handed to whatever needs them, so that tests decide what time it is and what comes out."""

from __future__ import annotations

import random
import time
from typing import Protocol

_ALSO_ASLEEP: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""On Linux the first goes on while the machine sleeps, on macOS the second. Windows has neither, and needs none."""

# Time, handed to whatever needs it, so that tests decide what time it is.


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment in the past. Nobody sets it back, and it goes on while the machine sleeps."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms` have passed."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return (time.clock_gettime_ns(_ALSO_ASLEEP) if _ALSO_ASLEEP is not None else time.monotonic_ns()) // 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


# UUIDs from the random source that was handed in.


def random_uuid(source: random.Random) -> str:
    """A UUID of version 4, in lower case with dashes, as other writers of Delta spell theirs."""
    bits = source.getrandbits(128)
    versioned = bits & ~(0xF << 76) | (0x4 << 76)
    digits = f"{versioned & ~(0x3 << 62) | (0x2 << 62):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
