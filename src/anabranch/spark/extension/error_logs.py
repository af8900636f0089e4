"""PySpark's log of an error with a query's context: a line of JSON with the whole stack of the JVM."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from anabranch.patches import patch


class _Thread(threading.local):
    silent: bool = False


_thread = _Thread()


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """A block in which exceptions that this thread makes from the JVM's errors are not logged."""
    before, _thread.silent = _thread.silent, True
    try:
        yield
    finally:
        _thread.silent = before


def silence_logs_of_callbacks(purpose: str, exceptions: Any) -> None:
    """Makes the exceptions of that module of PySpark's respect `unlogged`. `patches.undo(purpose)` ends it."""

    def silenced(log: Any) -> Any:
        return lambda failure: None if _thread.silent or log is None else log(failure)

    patch(purpose, exceptions.CapturedException, "_log_exception", silenced)
