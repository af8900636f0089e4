"""A Spark Connect server in the JVM of the client's own process, as PySpark starts it for `remote("local[*]")`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.session import SparkSession as ClassicSession

from anabranch.connect_messages.client_errors import raise_our_errors, raise_sparks_errors
from anabranch.spark.gateway.callback_endpoint import patch_is_remote, restore_is_remote
from anabranch.spark.gateway.python_errors import raised_as

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_STARTED_BY_PYSPARK = "SPARK_LOCAL_REMOTE"


def session_behind(client: SparkSession) -> SparkSession | None:
    """The classic session that the server has for a client's; None where the server is in another process."""
    driver = _driver()
    if driver is None:
        return None
    connect: Any = client
    behind = next((session for key, session in _served(driver) if key == connect.session_id), None)
    return None if behind is None else ClassicSession(driver.sparkContext, behind)


def sessions_of_server(behind: SparkSession) -> list[SparkSession]:
    """All classic sessions of this process's server, and the one that started it, except `behind`."""
    context = behind.sparkContext
    driver = _driver()
    served = [] if driver is None else [driver._jsparkSession, *(session for _, session in _served(driver))]
    return [ClassicSession(context, session) for session in served if not session.equals(behind._jsparkSession)]


def set_up() -> None:
    """Let Python handlers run as in a classic process, and clients raise our errors as they were raised there."""
    patch_is_remote()
    raise_our_errors(__name__, lambda _, message: raised_as(message))


def tear_down() -> None:
    """Undo `set_up`."""
    restore_is_remote()
    raise_sparks_errors(__name__)


def _driver() -> ClassicSession | None:
    """The session that started the server, which PySpark keeps in the process; None where there is none."""
    driver = ClassicSession._instantiatedSession
    if _STARTED_BY_PYSPARK not in os.environ or driver is None or driver._sc._jsc is None:
        return None
    return driver


def _served(driver: ClassicSession) -> Iterator[tuple[str, Any]]:
    """The server's Java sessions, with the ids that their clients have."""
    jvm: Any = driver._jvm
    service = jvm.java.lang.Class.forName(_SERVICE).getField("MODULE$").get(None)
    none = jvm.scala.Option.empty()
    opened = service.sessionManager().listActiveSessions()
    for index in range(opened.size()):
        info = opened.apply(index)
        try:
            holder = service.getOrCreateIsolatedSession(info.userId(), info.sessionId(), none)
        except Py4JJavaError:
            # The session was closed meanwhile.
            continue
        yield str(info.sessionId()), holder.session()
