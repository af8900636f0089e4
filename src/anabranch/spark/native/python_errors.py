"""Errors of ours on their way through the JVM: Spark's planner calls us, and what we raise comes back as its own."""

from __future__ import annotations

import threading
from collections import OrderedDict

from anabranch.errors.base import DeltaError

_KEPT_MAX = 64
_recent: OrderedDict[str, DeltaError] = OrderedDict()
_lock = threading.Lock()


def remember(error: DeltaError) -> str:
    """The text under which the JVM raises `error`."""
    text = str(error)
    with _lock:
        _recent[text] = error
        _recent.move_to_end(text)
        while len(_recent) > _KEPT_MAX:
            _recent.popitem(last=False)
    return text


def original_error(raised: BaseException) -> DeltaError | None:
    """The error of ours that `raised`, an exception of PySpark's, carries; None if it carries none."""
    text = str(raised)
    with _lock:
        return next((error for message, error in reversed(_recent.items()) if message in text), None)
