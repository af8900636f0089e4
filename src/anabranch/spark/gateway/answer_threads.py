"""Threads of answers in a process that is a client of Spark Connect, too.

There PySpark's functions make Columns of Connect: `pyspark.sql.utils.is_remote` asks the environment of the process.
Answers work on classic frames, so a function in its place says no on their threads. All of PySpark asks it at each
call, in 4.0 to 4.3.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyspark.sql.utils
from pyspark.sql import SparkSession

from anabranch.patches import patch, purposes, undo

T = TypeVar("T")

_NAME = "is_remote"
_PURPOSE = "threads of answers"


class _Thread(threading.local):
    answers: int = 0


_thread = _Thread()


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within, this thread works on classic frames."""
    _thread.answers += 1
    try:
        yield
    finally:
        _thread.answers -= 1


def is_answering() -> bool:
    """Whether this thread is within an answer."""
    return _thread.answers > 0


def carried(spark: SparkSession, work: Callable[[], T]) -> Callable[[], T]:
    """`work` for another thread: within an answer if this thread is within one."""
    if not _thread.answers:
        return work

    def carrying() -> T:
        with answering():
            # PySpark asks the active session what a type means, and makes one of Connect where the thread has none.
            spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
            return work()

    return carrying


def tell_threads_apart() -> None:
    """From now on PySpark's functions are classic ones in answers, and what the process says elsewhere."""
    if _PURPOSE in purposes():
        return
    for module in _modules_with(pyspark.sql.utils.is_remote):
        patch(_PURPOSE, module, _NAME, _outside_answers)


def tell_threads_alike() -> None:
    """As if `tell_threads_apart` had not been called."""
    ours = pyspark.sql.utils.is_remote
    undo(_PURPOSE)
    # Modules that were imported meanwhile took ours from others.
    for module in _modules_with(ours):
        setattr(module, _NAME, pyspark.sql.utils.is_remote)


def _modules_with(function: Callable[[], bool]) -> list[Any]:
    """Those of PySpark that have a name of their own for the function."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("pyspark.")]
    return [module for module in loaded if getattr(module, "__dict__", {}).get(_NAME) is function]


@functools.cache
def _outside_answers(is_remote: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: not _thread.answers and is_remote()
