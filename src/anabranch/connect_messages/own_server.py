"""A Spark Connect server in the JVM of the client's own process, as PySpark starts it for `remote("local[*]")`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.session import SparkSession as ClassicSession

from anabranch.connect_messages.client_errors import raise_our_errors, raise_sparks_errors
from anabranch.spark.gateway.answer_threads import patch_is_remote, restore_is_remote
from anabranch.spark.gateway.python_errors import raised_as

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_STARTED_BY_PYSPARK = "SPARK_LOCAL_REMOTE"


def session_behind(client: SparkSession) -> SparkSession | None:
    """The classic session that the server has for a client's; None where the server is elsewhere."""
    driver = _driver()
    if driver is None:
        return None
    connect: Any = client
    behind = next((session for key, session in _served(driver) if key == connect.session_id), None)
    return None if behind is None else ClassicSession(driver.sparkContext, behind)


def sessions_of_server(behind: SparkSession) -> list[SparkSession]:
    """All that the server of this process has, and the one that it was started with; `behind` is one of them."""
    context = behind.sparkContext
    driver = _driver()
    served = [] if driver is None else [driver._jsparkSession, *(session for _, session in _served(driver))]
    return [ClassicSession(context, session) for session in served if not session.equals(behind._jsparkSession)]


def begin() -> None:
    """Handlers run as in a classic process, and the client raises our errors as they were raised."""
    patch_is_remote()
    raise_our_errors(__name__, lambda _, message: raised_as(message))


def end() -> None:
    """As if `begin` had not been called."""
    restore_is_remote()
    raise_sparks_errors(__name__)


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
    for index in range(opened.size()):
        facts = opened.apply(index)
        try:
            held = service.getOrCreateIsolatedSession(facts.userId(), facts.sessionId(), none)
        except Py4JJavaError:
            # It was closed meanwhile.
            continue
        yield str(facts.sessionId()), held.session()
