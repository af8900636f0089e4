"""The endpoint for callbacks of the JVM: one method, which calls the function and converts its errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from anabranch.errors.base import DeltaError
from anabranch.spark.gateway.callback_threads import in_callback
from anabranch.spark.gateway.interrupts import Interrupts
from anabranch.spark.gateway.python_errors import original_error, raised_under, throwable


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
