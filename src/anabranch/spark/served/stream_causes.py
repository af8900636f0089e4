"""What made a stream fail: PySpark knows it, and raises its exception so that no cause shows."""

from __future__ import annotations

from typing import Any

_STORED: Any = vars(BaseException)["__cause__"]
_CAUSE = "__cause__"


def _cause(failure: Any) -> BaseException | None:
    return _STORED.__get__(failure) or getattr(failure, "_cause", None)


def _set_cause(failure: Any, cause: BaseException | None) -> None:
    _STORED.__set__(failure, cause)


def show_causes(exceptions: Any) -> None:
    """Let `StreamingQueryException` of that module of PySpark's have what is in `_cause` for its cause."""
    exceptions.StreamingQueryException.__cause__ = property(_cause, _set_cause)


def hide_causes(exceptions: Any) -> None:
    """As if `show_causes` had not been called."""
    if _CAUSE in vars(exceptions.StreamingQueryException):
        del exceptions.StreamingQueryException.__cause__
