"""The endpoint for callbacks of the JVM: one method, which calls the function and converts its errors.

In a process that is also a client of Spark Connect, PySpark's functions make Columns of Connect:
`pyspark.sql.utils.is_remote` reads the environment of the process. Callbacks work on classic frames, so a function that
replaces it returns False on their threads. All of PySpark calls it each time, in 4.0 to 4.3.

In any process PySpark tells the JVM for each call of a Column's method which line of the program made it, by ten calls,
so that an error can show the line. Lines of ours are of no use to a reader, so no callback records them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyspark.errors.utils
import pyspark.sql.utils
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.patches import patch, purposes, undo
from anabranch.spark.gateway.interrupts import Interrupts
from anabranch.spark.gateway.python_errors import original_error, raised_under, throwable

T = TypeVar("T")

_IS_REMOTE = "is_remote"
_PURPOSE = "threads of callbacks"


class _Thread(threading.local):
    callbacks: int = 0


_thread = _Thread()


@contextlib.contextmanager
def in_callback() -> Iterator[None]:
    """A block in which this thread works on classic frames."""
    _thread.callbacks += 1
    try:
        yield
    finally:
        _thread.callbacks -= 1


def is_in_callback() -> bool:
    """Whether this thread runs a callback."""
    return _thread.callbacks > 0


def as_part_of_callback(spark: SparkSession, work: Callable[[], T]) -> Callable[[], T]:
    """`work` to run on another thread, as part of the callback if this thread runs one."""
    if not _thread.callbacks:
        return work

    def work_of_callback() -> T:
        with in_callback():
            # PySpark resolves types by the active session, and makes one of Connect where the thread has none.
            spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
            return work()

    return work_of_callback


def patch_is_remote() -> None:
    """Makes PySpark's functions classic in callbacks; elsewhere they stay as the environment of the process says."""
    if _PURPOSE in purposes():
        return
    for module in _modules_with(pyspark.sql.utils.is_remote):
        patch(_PURPOSE, module, _IS_REMOTE, _outside_callbacks)


def restore_is_remote() -> None:
    """Undoes `patch_is_remote`."""
    ours = pyspark.sql.utils.is_remote
    undo(_PURPOSE)
    # Modules that were imported since then have our function from other modules.
    for module in _modules_with(ours):
        setattr(module, _IS_REMOTE, pyspark.sql.utils.is_remote)


def record_no_origins(purpose: str) -> None:
    """Makes PySpark record no lines of code of ours. `patches.undo(purpose)` ends it."""
    patch(purpose, pyspark.errors.utils, "is_debugging_enabled", _outside_callbacks)


def _modules_with(function: Callable[[], bool]) -> list[Any]:
    """The modules of PySpark that have the function under its name."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("pyspark.")]
    return [module for module in loaded if getattr(module, "__dict__", {}).get(_IS_REMOTE) is function]


@functools.cache
def _outside_callbacks(condition: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: not _thread.callbacks and condition()


class CallbackEndpoint:
    """Receives the calls of `PythonEndpoint.java`, on any thread. A callback may call the JVM, on the same thread."""

    def __init__(
        self,
        jvm: Any,
        function_of: Callable[[str], Callable[..., Any]],
        of_file: Callable[[str, str, str], DeltaError | None],
    ) -> None:
        """`function_of` returns the function for the name of a callback. `of_file` makes our error from Spark's
        condition, the path of a data file, and a reason.
        """
        self._jvm = jvm
        self._function_of = function_of
        self._of_file = of_file
        self._sent = threading.local()
        self.interrupts = Interrupts(jvm._gateway_client, _cancel_jobs)

    def apply(self, callback: str, count: int, *arguments: Any) -> Any:
        """The method of `scala.Function10`. The callback has the first `count` arguments. An error returns as a
        Throwable.
        """
        try:
            with in_callback(), self.interrupts.answering():
                result = self._function_of(callback)(*arguments[:count])
        except BaseException as error:
            # The thread of the JVM waits for a result, and must get one for any exception.
            with self.interrupts.ending():
                result = self._throwable(error)
        # For an object of the JVM's Py4J sends its name and drops the object; another thread then releases it in the
        # JVM. If that comes first, the JVM finds null: so the result is held until this thread's next one.
        self._sent.result = result
        return result

    def original(self, throwable: Any) -> BaseException | None:
        """The exception of Python for an error of the JVM; None where the root of the error is none of ours.

        None also for the error of a stream: programs expect Spark's own exception, which has ours as its cause.
        """
        origin = self._jvm.delta.DeltaError.origin(throwable)
        if origin is None:
            return None
        if "\0" in origin:
            condition, path, reason = origin.split("\0")
            return self._of_file(condition, path, reason)
        return raised_under(int(origin))

    def has_passed(self, throwable: Any) -> bool:
        """Whether an error of Spark's came out of a callback. It has been shortened then: see `DeltaError.java`."""
        return bool(self._jvm.delta.DeltaError.shortened(throwable))

    def _throwable(self, error: BaseException) -> Any:
        """The Throwable for the JVM: an error that came from it unchanged, others under a number to find them by."""
        if isinstance(error, Py4JJavaError):
            return error.java_exception
        if not isinstance(error, DeltaError):
            original = original_error(error)
            error = error if original is None else original
        java = getattr(error, "_origin", None)
        if java is not None and not isinstance(error, DeltaError):
            return java
        return throwable(self._jvm.delta, error)

    class Java:
        implements = ("scala.Function10",)


def _cancel_jobs() -> None:
    """Cancels all jobs of the application, as PySpark does on Ctrl-C. A context that was stopped has none."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.cancelAllJobs()
