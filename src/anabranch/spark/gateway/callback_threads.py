"""Threads of callbacks in a process that is also a client of Spark Connect.

There PySpark's functions make Columns of Connect: `pyspark.sql.utils.is_remote` reads the environment of the process.
Callbacks work on classic frames, so a function that replaces it returns False on their threads. All of PySpark calls it
each time, in 4.0 to 4.3.

In any process PySpark tells the JVM for each call of a Column's method which line of the program made it, by ten calls,
so that an error can show the line. Lines of ours are of no use to a reader, so no callback records them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyspark.errors.utils
import pyspark.sql.utils
from pyspark.sql import SparkSession

from anabranch.patches import patch, purposes, undo

T = TypeVar("T")

_NAME = "is_remote"
_PURPOSE = "threads of callbacks"


class _Thread(threading.local):
    callbacks: int = 0


_thread = _Thread()


@contextlib.contextmanager
def in_callback() -> Iterator[None]:
    """A block in which this thread works on classic frames."""
    _thread.callbacks += 1
    try:
        yield
    finally:
        _thread.callbacks -= 1


def is_in_callback() -> bool:
    """Whether this thread runs a callback."""
    return _thread.callbacks > 0


def as_part_of_callback(spark: SparkSession, work: Callable[[], T]) -> Callable[[], T]:
    """`work` to run on another thread, as part of the callback if this thread runs one."""
    if not _thread.callbacks:
        return work

    def work_of_callback() -> T:
        with in_callback():
            # PySpark resolves types by the active session, and makes one of Connect where the thread has none.
            spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
            return work()

    return work_of_callback


def patch_is_remote() -> None:
    """Makes PySpark's functions classic in callbacks; elsewhere they stay as the environment of the process says."""
    if _PURPOSE in purposes():
        return
    for module in _modules_with(pyspark.sql.utils.is_remote):
        patch(_PURPOSE, module, _NAME, _outside_callbacks)


def restore_is_remote() -> None:
    """Undoes `patch_is_remote`."""
    ours = pyspark.sql.utils.is_remote
    undo(_PURPOSE)
    # Modules that were imported since then have our function from other modules.
    for module in _modules_with(ours):
        setattr(module, _NAME, pyspark.sql.utils.is_remote)


def record_no_origins(purpose: str) -> None:
    """Makes PySpark record no lines of code of ours. `patches.undo(purpose)` ends it."""
    patch(purpose, pyspark.errors.utils, "is_debugging_enabled", _outside_callbacks)


def _modules_with(function: Callable[[], bool]) -> list[Any]:
    """The modules of PySpark that have the function under its name."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("pyspark.")]
    return [module for module in loaded if getattr(module, "__dict__", {}).get(_NAME) is function]


@functools.cache
def _outside_callbacks(condition: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: not _thread.callbacks and condition()
