"""Time, handed to whatever needs it, so that tests decide what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Return after `duration_ms` have passed."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)
