"""Spark's own Connect server, in the JVM of a running session."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from anabranch.connect_messages.message_plugin import answer_messages, stop_answering
from anabranch.errors.environment import ExtensionNotLoadedError, ServerNotStartedError
from anabranch.server.addresses import address_of, root_cause

logger = logging.getLogger("anabranch.server")

NAME = "Spark Connect"
PORT = 15002
"""The port of `sc://host`."""

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_HOST = "spark.connect.grpc.binding.address"
_PORT = "spark.connect.grpc.binding.port"
_RUNNING_STATES = {"Pending", "Started", "Analyzed", "ReadyForExecution"}
"""Spark's names for the states of a statement that has not finished."""


class ConnectServer:
    """The Connect server of a driver, from its start to its stop."""

    def __init__(self, spark: SparkSession, *, host: str, port: int) -> None:
        """Start it; port 0 is any free port. Raises `ServerNotStartedError`."""
        self.host = host
        self._spark = spark
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext._jsc.sc()
        settings = context.conf()
        settings.set(_HOST, host)
        settings.set(_PORT, str(port))
        self._none = jvm.scala.Option.empty()
        self._service = jvm.java.lang.Class.forName(f"{_SERVICE}$").getField("MODULE$").get(None)
        if self._service.started() and not self._service.stopped():
            _refuse(host, port, "this driver already has one", "Stop that one first")
        _answer(spark)
        try:
            self._service.start(context)
        except Py4JJavaError as error:
            _refuse(host, port, root_cause(error), "Name another port, or 0 for any that is free")
        self.port = int(self._service.localPort())

    @property
    def url(self) -> str:
        """The URL for `SparkSession.builder.remote`."""
        return f"sc://{address_of(self.host, self.port)}"

    def refuse_new(self) -> None:
        """Accept no new requests. Running statements continue."""
        self._service.server().shutdown()

    def running(self) -> int:
        """The number of statements that have not finished."""
        active = self._service.listActiveExecutions()
        if active.isLeft():
            return 0
        executions = active.toOption().get()
        states = [str(executions.apply(index).status()) for index in range(executions.size())]
        return sum(state in _RUNNING_STATES for state in states)

    def sessions(self) -> set[str]:
        """The ids of clients' open sessions."""
        active = self._service.sessionManager().listActiveSessions()
        return {str(active.apply(index).serverSessionId()) for index in range(active.size())}

    def stop(self) -> None:
        """Close every session. Statements that still run are cancelled."""
        stop_answering(self._spark)
        self._service.stop(self._none, self._none)


def _answer(spark: SparkSession) -> None:
    """Answer messages of `DeltaTable`, unless this Spark lacks jars that the classes need."""
    try:
        answer_messages(spark)
    except ExtensionNotLoadedError as error:
        logger.warning("Clients cannot use DeltaTable over Spark Connect: %s", error)


def _refuse(host: str, port: int, problem: str, way_out: str) -> None:
    raise ServerNotStartedError(server=NAME, address=address_of(host, port), problem=problem, way_out=way_out)
