"""Where questions of the JVM arrive: one method that finds who answers, and turns errors into the JVM's."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from anabranch.errors.base import DeltaError
from anabranch.spark.extension.answer_threads import answering
from anabranch.spark.extension.interrupts import Interrupts
from anabranch.spark.served.told_errors import told

# Errors of ours on their way through the JVM: Spark's planner calls us, and what we raise comes back as its own.


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


logger = logging.getLogger("anabranch.spark")

ERRORS_KEPT_MAX = 256
Answer = Callable[..., Any]


class Door:
    """Answers `delta.Python.ask`. Any thread may come in; an answer may ask the JVM in turn, on the same thread."""

    def __init__(
        self, jvm: Any, answer: Callable[[str], Answer], of_file: Callable[[str, str, str], DeltaError | None]
    ) -> None:
        """`answer` finds who answers a question. `of_file` tells our error from Spark's condition, the path of a data
        file, and a reason.
        """
        self._jvm = jvm
        self._answer = answer
        self._of_file = of_file
        self._raised: OrderedDict[int, BaseException] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._given = threading.local()
        self.interrupts = Interrupts(jvm._gateway_client, _cancel_jobs)

    def apply(self, question: str, count: int, *facts: Any) -> Any:
        """The method of `scala.Function10`, of which `count` facts count. An error goes back as a Throwable."""
        try:
            with answering(), self.interrupts.answering():
                answer = self._answer(question)(*facts[:count])
        except BaseException as error:
            # Whatever it is, the thread of the JVM must get an answer.
            with self.interrupts.ending():
                answer = self._throwable(error)
        # Of an object of the JVM's Py4J sends the name, and lets go of the object, which another thread then tells the
        # JVM. Where that comes first, the JVM finds null: so it is held, until this thread's next answer.
        self._given.answer = answer
        return answer

    def original(self, throwable: Any) -> BaseException | None:
        """The exception of Python for an error of the JVM; None where none of ours is at its root.

        None too for that of a stream: programs look for Spark's own, which has ours as its cause.
        """
        told = self._jvm.delta.DeltaError.told(throwable)
        if told is None:
            return None
        if "\0" in told:
            condition, path, reason = told.split("\0")
            return self._of_file(condition, path, reason)
        with self._lock:
            known = self._raised.get(int(told))
        return None if known is None else unraised(known)

    def raised_as(self, text: str) -> BaseException | None:
        """The newest exception of Python whose message is in `text`, that of an error of ours in the JVM."""
        with self._lock:
            found = next((each for each in reversed(self._raised.values()) if _message(each) in text), None)
        return None if found is None else unraised(found)

    def _throwable(self, error: BaseException) -> Any:
        """What the JVM throws: an error that came from it as it was, others under a number to be found again."""
        if isinstance(error, Py4JJavaError):
            return error.java_exception
        if not isinstance(error, DeltaError):
            known = original_error(error)
            error = error if known is None else known
        java = getattr(error, "_origin", None)
        if java is not None and not isinstance(error, DeltaError):
            return java
        logger.debug("Python raised while Spark asked", exc_info=error)
        kept = unraised(error)
        if isinstance(error, Exception) and not isinstance(error, PySparkException):
            # A mistake, of which somebody will want to know where it is.
            kept.add_note("Raised while Spark asked:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
        with self._lock:
            number = next(self._numbers)
            self._raised[number] = kept
            while len(self._raised) > ERRORS_KEPT_MAX:
                self._raised.popitem(last=False)
        condition, sqlstate = getattr(error, "condition", ""), getattr(error, "sqlstate", "")
        text = told(error) if isinstance(error, DeltaError) else None
        return self._jvm.delta.DeltaError(str(condition), str(sqlstate), _message(error), number, text)

    class Java:
        implements = ("scala.Function10",)


def _message(error: BaseException) -> str:
    return error.explain() if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}"


def _cancel_jobs() -> None:
    """All of the application's, as PySpark does on Ctrl-C. A context that was stopped has none."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.cancelAllJobs()
