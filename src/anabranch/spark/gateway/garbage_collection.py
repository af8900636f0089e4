"""Frees frames that Python no longer uses, whose plans, kept rows and broadcasts the JVM still has.

Py4J keeps each method of an object that was called, and the method keeps the object: only Python's collector frees
both. It may not run for dozens of statements, each of which may have broadcast rows.
"""

from __future__ import annotations

import gc
import time

_SHARE_MAX = 0.05
"""The part of a statement's time that a collection after it may take."""


class FrameGarbage:
    """Collects garbage after statements that take long."""

    def __init__(self) -> None:
        self.worth_ms = 1000.0
        """A statement that takes so many milliseconds is worth a collection."""

    def collect(self) -> None:
        """Collect now, and measure what it takes."""
        begin = time.perf_counter()
        gc.collect()
        self.worth_ms = (time.perf_counter() - begin) * 1000 / _SHARE_MAX


FRAME_GARBAGE = FrameGarbage()
