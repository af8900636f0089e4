"""A Spark Connect server in the JVM of the client's own process, as PySpark starts it for `remote("local[*]")`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.session import SparkSession as ClassicSession

from anabranch.spark.extension.answer_threads import tell_threads_alike, tell_threads_apart
from anabranch.spark.extension.door import Door

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_STARTED_BY_PYSPARK = "SPARK_LOCAL_REMOTE"
_CLIENT = "pyspark.sql.connect.client.core"
"""Where clients make exceptions of what the server tells. It needs grpc."""
_OUR_ERROR = "delta.DeltaError"


def session_behind(client: SparkSession) -> SparkSession | None:
    """The classic session that the server has for a client's; None where the server is elsewhere."""
    driver = _driver()
    if driver is None:
        return None
    asked: Any = client
    behind = next((each for key, each in _served(driver) if key == asked.session_id), None)
    return None if behind is None else ClassicSession(driver.sparkContext, behind)


def sessions_of_server(behind: SparkSession) -> list[SparkSession]:
    """All that the server of this process has, and the one that it was started with; `behind` is one of them."""
    context = behind.sparkContext
    driver = _driver()
    served = [] if driver is None else [driver._jsparkSession, *(each for _, each in _served(driver))]
    return [ClassicSession(context, each) for each in served if not each.equals(behind._jsparkSession)]


def begin(door: Door) -> None:
    """Answers find themselves in a classic process; the client's errors are ours again."""
    tell_threads_apart()
    core: Any = importlib.import_module(_CLIENT)
    convert: Any = core.convert_exception
    if hasattr(convert, "__wrapped__"):
        convert = convert.__wrapped__

    def convert_exception(info: Any, message: str, details: Any, *more: Any, **named: Any) -> Any:
        found = _original(door, info, message, details)
        return found or convert(info, message, details, *more, **named)

    convert_exception.__wrapped__ = convert  # type: ignore[attr-defined]
    core.convert_exception = convert_exception


def end() -> None:
    """As if `begin` had not been called."""
    tell_threads_alike()
    core: Any = sys.modules.get(_CLIENT)
    if core is not None:
        core.convert_exception = getattr(core.convert_exception, "__wrapped__", core.convert_exception)


def _driver() -> ClassicSession | None:
    """PySpark keeps it in the process, so that it lives."""
    driver = ClassicSession._instantiatedSession
    if _STARTED_BY_PYSPARK not in os.environ or driver is None or driver._sc._jsc is None:
        return None
    return driver


def _served(driver: ClassicSession) -> Iterator[tuple[str, Any]]:
    """Sessions by the ids that their clients have for them."""
    jvm: Any = driver._jvm
    service = jvm.java.lang.Class.forName(_SERVICE).getField("MODULE$").get(None)
    none = jvm.scala.Option.empty()
    opened = service.sessionManager().listActiveSessions()
    for place in range(opened.size()):
        told = opened.apply(place)
        try:
            held = service.getOrCreateIsolatedSession(told.userId(), told.sessionId(), none)
        except Py4JJavaError:
            # It was closed meanwhile.
            continue
        yield str(told.sessionId()), held.session()


def _original(door: Door, info: Any, message: str, details: Any) -> BaseException | None:
    """The exception of Python for an error that the server told; None where none of ours is at its root."""
    if details is None or not details.HasField("root_error_idx"):
        return door.raised_as(message) if _OUR_ERROR in info.metadata.get("classes", "") else None
    place: int | None = details.root_error_idx
    while place is not None:
        error = details.errors[place]
        if _OUR_ERROR in error.error_type_hierarchy:
            return door.raised_as(error.message)
        if any(each.endswith(".StreamingQueryException") for each in error.error_type_hierarchy):
            # Programs look for Spark's own.
            return None
        place = error.cause_idx if error.HasField("cause_idx") else None
    return None
