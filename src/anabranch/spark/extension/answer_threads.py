"""Threads of answers in a process that is a client of Spark Connect, too.

There PySpark's functions make Columns of Connect: `pyspark.sql.utils.is_remote` asks the environment of the process.
Answers work on classic frames, so a function in its place says no on their threads. All of PySpark asks it at each
call, in 4.0 to 4.3.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyspark.sql.utils
from pyspark.sql import SparkSession

T = TypeVar("T")

_NAME = "is_remote"


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
    if pyspark.sql.utils.is_remote is not _is_remote:
        _asked.append(pyspark.sql.utils.is_remote)
        _replace(_asked[-1], _is_remote)


def tell_threads_alike() -> None:
    """As if `tell_threads_apart` had not been called."""
    if pyspark.sql.utils.is_remote is _is_remote:
        _replace(_is_remote, _asked[-1])


_asked: list[Callable[[], bool]] = []
"""PySpark's own function, at the end. Whoever has ours may go on calling it."""


def _is_remote() -> bool:
    return not _thread.answers and _asked[-1]()


def _replace(before: Any, after: Any) -> None:
    """In every module that has a name of its own for it; those imported later take it from the first."""
    for name, module in list(sys.modules.items()):
        if name.startswith("pyspark.") and getattr(module, "__dict__", {}).get(_NAME) is before:
            setattr(module, _NAME, after)
