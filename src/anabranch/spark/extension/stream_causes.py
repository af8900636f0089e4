"""The cause of a stream's failure: PySpark stores it, but raises its exception without a cause."""

from __future__ import annotations

from typing import Any

from anabranch.patches import patch

_STORED: Any = vars(BaseException)["__cause__"]


def _cause(failure: Any) -> BaseException | None:
    return _STORED.__get__(failure) or getattr(failure, "_cause", None)


def _set_cause(failure: Any, cause: BaseException | None) -> None:
    _STORED.__set__(failure, cause)


def show_causes(purpose: str, exceptions: Any) -> None:
    """Makes `_cause` of that module's `StreamingQueryException` its cause.

    `patches.undo(purpose)` ends it.
    """
    patch(purpose, exceptions.StreamingQueryException, "__cause__", lambda _: property(_cause, _set_cause))
