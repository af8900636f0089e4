"""Errors of ours on their way through the JVM: Spark's planner calls us, and what we raise comes back as its own."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from typing import TypeVar

from anabranch.errors.base import DeltaError

_Error = TypeVar("_Error", bound=BaseException)

_KEPT_MAX = 64
_recent: OrderedDict[str, DeltaError] = OrderedDict()
_lock = threading.Lock()


def remember(error: DeltaError) -> str:
    """The text under which the JVM raises `error`."""
    text = str(error)
    with _lock:
        _recent[text] = unraised(error)
        _recent.move_to_end(text)
        while len(_recent) > _KEPT_MAX:
            _recent.popitem(last=False)
    return text


def original_error(raised: BaseException) -> DeltaError | None:
    """The error of ours that `raised`, an exception of PySpark's, carries; None if it carries none."""
    text = str(raised)
    with _lock:
        found = next((error for message, error in reversed(_recent.items()) if message in text), None)
    return None if found is None else unraised(found)


def unraised(error: _Error) -> _Error:
    """The same error as nobody has raised it yet, with neither traceback nor cause.

    Errors wait here until somebody asks for them. By its traceback a raised one holds the frames below it and, as
    callers of these, those of the user's program, with all that is in their variables.
    """
    kind = type(error)
    try:
        if kind.__module__ == "builtins":
            return copy.copy(error)
        # Not by its constructor, whose arguments nobody knows.
        made = kind.__new__(kind, *error.args)
        vars(made).update(vars(error))
    except TypeError:
        return error
    return made
