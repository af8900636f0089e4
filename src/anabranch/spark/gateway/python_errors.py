"""Exceptions of Python on their way through the JVM: Spark calls us, and our exception comes back as one of Spark's."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
import traceback
from collections import OrderedDict
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.spark.gateway.error_text import text_of_error

_Error = TypeVar("_Error", bound=BaseException)

logger = logging.getLogger("anabranch.spark")

ERRORS_KEPT_MAX = 256


def unraised(error: _Error) -> _Error:
    """A copy of the error without traceback and cause, as if it had not been raised.

    Errors wait here until PySpark converts them back. The traceback of a raised error holds the frames below it and
    those of its callers, the user's program among them, with everything in their variables.
    """
    kind = type(error)
    try:
        if kind.__module__ == "builtins":
            return copy.copy(error)
        # The arguments of its constructor are not known here, so the constructor is not called.
        made = kind.__new__(kind, *error.args)
        vars(made).update(vars(error))
    except TypeError:
        return error
    return made


class _RaisedErrors:
    """The last exceptions that callbacks raised, by number and by message."""

    def __init__(self) -> None:
        self._errors: OrderedDict[int, BaseException] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def keep(self, error: BaseException) -> int:
        """Keeps the error; `numbered` returns it for this number."""
        with self._lock:
            number = next(self._numbers)
            self._errors[number] = error
            while len(self._errors) > ERRORS_KEPT_MAX:
                self._errors.popitem(last=False)
        return number

    def numbered(self, number: int) -> BaseException | None:
        """The error of that number; None where it is no longer kept."""
        with self._lock:
            error = self._errors.get(number)
        return None if error is None else unraised(error)

    def named_in(self, text: str, kind: type[_Error]) -> _Error | None:
        """The newest error of that kind whose message is in the text."""
        with self._lock:
            errors = [error for error in reversed(self._errors.values()) if isinstance(error, kind)]
        match = next((error for error in errors if _message(error) in text), None)
        return None if match is None else unraised(match)


_raised = _RaisedErrors()


def original_error(failure: BaseException) -> DeltaError | None:
    """The error of ours that `failure`, an exception of PySpark's, carries; None if it carries none."""
    return _raised.named_in(str(failure), DeltaError)


def raised_as(text: str) -> BaseException | None:
    """The newest exception of Python whose message is in `text`, the message of an error of ours in the JVM."""
    return _raised.named_in(text, BaseException)


def raised_under(number: int) -> BaseException | None:
    """The exception of Python that the JVM knows by this number; None where it is no longer kept."""
    return _raised.numbered(number)


def throwable(classes: Any, error: BaseException) -> Any:
    """The Throwable that the JVM throws for an exception of Python. `classes` is the package of our errors there."""
    logger.debug("Python raised an exception while it answered Spark", exc_info=error)
    kept = unraised(error)
    if isinstance(error, Exception) and not isinstance(error, PySparkException):
        # It is a mistake in code, whose author needs to see where it is.
        kept.add_note(
            "Raised while Python answered Spark:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip()
        )
    condition, sqlstate = getattr(error, "condition", ""), getattr(error, "sqlstate", "")
    text = text_of_error(error) if isinstance(error, DeltaError) else None
    arguments = str(condition), str(sqlstate), _message(error), _raised.keep(kept), text
    if isinstance(error, DeltaConcurrentModificationException):
        return classes.DeltaError.of(type(error).__name__, *arguments)
    # `DeltaError` is Java's UnsupportedOperationException, which goes first: clients get one of the two.
    if isinstance(error, UnsupportedOperationException) or not isinstance(error, AnalysisException):
        return classes.DeltaError(*arguments)
    return classes.DeltaAnalysisError(*arguments)


def _message(error: BaseException) -> str:
    return error.message() if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}"
