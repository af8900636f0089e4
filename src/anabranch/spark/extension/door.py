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
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.spark.extension.answer_threads import answering
from anabranch.spark.extension.error_text import text_of_error
from anabranch.spark.extension.interrupts import Interrupts

_Error = TypeVar("_Error", bound=BaseException)

logger = logging.getLogger("anabranch.spark")

ERRORS_KEPT_MAX = 256
_OF_PROXIES = {"parse", "versions quoted", "refuse to stream changes"}
"""Questions of proxies. An exception that no interface names, as AnalysisException is, Java would wrap there."""
Answer = Callable[..., Any]


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


class _Raised:
    """Exceptions of Python on their way through the JVM: Spark calls us, and what we raise comes back as its own."""

    def __init__(self) -> None:
        self._errors: OrderedDict[int, BaseException] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def keep(self, error: BaseException) -> int:
        """The number under which the error is found again."""
        with self._lock:
            number = next(self._numbers)
            self._errors[number] = error
            while len(self._errors) > ERRORS_KEPT_MAX:
                self._errors.popitem(last=False)
        return number

    def numbered(self, number: int) -> BaseException | None:
        with self._lock:
            known = self._errors.get(number)
        return None if known is None else unraised(known)

    def told_in(self, text: str, kind: type[_Error]) -> _Error | None:
        """The newest of that kind whose message is in the text."""
        with self._lock:
            kept = [error for error in reversed(self._errors.values()) if isinstance(error, kind)]
        found = next((error for error in kept if _message(error) in text), None)
        return None if found is None else unraised(found)


_raised = _Raised()


def original_error(failure: BaseException) -> DeltaError | None:
    """The error of ours that `failure`, an exception of PySpark's, carries; None if it carries none."""
    return _raised.told_in(str(failure), DeltaError)


def raised_as(text: str) -> BaseException | None:
    """The newest exception of Python whose message is in `text`, that of an error of ours in the JVM."""
    return _raised.told_in(text, BaseException)


def throwable(classes: Any, error: BaseException, *, by_proxy: bool = False) -> Any:
    """What the JVM throws for an exception of Python; `classes` is our package there.

    `by_proxy` is whether a proxy throws it there.
    """
    logger.debug("Python raised while Spark asked", exc_info=error)
    kept = unraised(error)
    if isinstance(error, Exception) and not isinstance(error, PySparkException):
        # A mistake, of which somebody will want to know where it is.
        kept.add_note("Raised while Spark asked:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
    condition, sqlstate = getattr(error, "condition", ""), getattr(error, "sqlstate", "")
    text = text_of_error(error) if isinstance(error, DeltaError) else None
    facts = str(condition), str(sqlstate), _message(error), _raised.keep(kept), text
    if isinstance(error, DeltaConcurrentModificationException):
        return classes.DeltaError.of(type(error).__name__, *facts)
    # `DeltaError` is Java's UnsupportedOperationException, which goes first: clients get one of the two.
    if by_proxy or isinstance(error, UnsupportedOperationException) or not isinstance(error, AnalysisException):
        return classes.DeltaError(*facts)
    return classes.DeltaAnalysisError(*facts)


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
                answer = self._throwable(error, by_proxy=question in _OF_PROXIES)
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
        return _raised.numbered(int(told))

    def has_passed(self, throwable: Any) -> bool:
        """Whether an error of Spark's came out of an answer. It has been shortened then: see `DeltaError.java`."""
        return bool(self._jvm.delta.DeltaError.shortened(throwable))

    def _throwable(self, error: BaseException, *, by_proxy: bool) -> Any:
        """What the JVM throws: an error that came from it as it was, others under a number to be found again."""
        if isinstance(error, Py4JJavaError):
            return error.java_exception
        if not isinstance(error, DeltaError):
            known = original_error(error)
            error = error if known is None else known
        java = getattr(error, "_origin", None)
        if java is not None and not isinstance(error, DeltaError):
            return java
        return throwable(self._jvm.delta, error, by_proxy=by_proxy)

    class Java:
        implements = ("scala.Function10",)


def _message(error: BaseException) -> str:
    return error.message() if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}"


def _cancel_jobs() -> None:
    """All of the application's, as PySpark does on Ctrl-C. A context that was stopped has none."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.cancelAllJobs()
