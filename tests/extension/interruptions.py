"""Races written down: what others do while a statement is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from anabranch.clock import Clock
from anabranch.spark.session.delta_session import DeltaSession


class _InterruptedClock:
    """The session's clock, whose first reading gives others their turn: statements read it once they have begun."""

    def __init__(self, clock: Clock, meanwhile: Callable[[], object]) -> None:
        self._clock = clock
        self._meanwhile: Callable[[], object] | None = meanwhile

    def now_ms(self) -> int:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self._clock.now_ms()

    def elapsed_ms(self) -> int:
        return self._clock.elapsed_ms()

    def sleep_ms(self, duration_ms: float) -> None:
        self._clock.sleep_ms(duration_ms)


@contextmanager
def meanwhile(spark: SparkSession, others: Callable[[], object]) -> Iterator[None]:
    """Within, `others` runs once, as soon as a statement has chosen its versions."""
    session = DeltaSession.of(spark)
    before = session.clock
    session.clock = _InterruptedClock(before, others)
    try:
        yield
    finally:
        session.clock = before
