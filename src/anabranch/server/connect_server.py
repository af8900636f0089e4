"""Spark's own Connect server, in the JVM of a session that runs."""

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
"""What `sc://host` means without a port."""

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_HOST = "spark.connect.grpc.binding.address"
_PORT = "spark.connect.grpc.binding.port"
_AT_WORK = {"Pending", "Started", "Analyzed", "ReadyForExecution"}
"""What Spark calls the states of a statement that has not come to its end."""


class ConnectServer:
    """It listens from the beginning."""

    def __init__(self, spark: SparkSession, *, host: str, port: int) -> None:
        """Port 0 is any that is free. Raises `ServerNotStartedError`."""
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
            _refuse(host, port, "this driver has one", "Stop that one first")
        _answer(spark)
        try:
            self._service.start(context)
        except Py4JJavaError as error:
            _refuse(host, port, root_cause(error), "Name another port, or 0 for any that is free")
        self.port = int(self._service.localPort())

    @property
    def url(self) -> str:
        """What `SparkSession.builder.remote` takes."""
        return f"sc://{address_of(self.host, self.port)}"

    def refuse_new(self) -> None:
        """From now on nobody comes in, and statements that run go on."""
        self._service.server().shutdown()

    def running(self) -> int:
        """Statements that have not come to their end."""
        active = self._service.listActiveExecutions()
        if active.isLeft():
            return 0
        executions = active.toOption().get()
        states = [str(executions.apply(each).status()) for each in range(executions.size())]
        return sum(state in _AT_WORK for state in states)

    def sessions(self) -> set[str]:
        """The sessions of clients that are open, by identity."""
        active = self._service.sessionManager().listActiveSessions()
        return {str(active.apply(each).serverSessionId()) for each in range(active.size())}

    def stop(self) -> None:
        """Closes every session; what still runs is cancelled."""
        stop_answering(self._spark)
        self._service.stop(self._none, self._none)


def _answer(spark: SparkSession) -> None:
    """Messages of `DeltaTable` are not answered where this Spark lacks jars that the classes need."""
    try:
        answer_messages(spark)
    except ExtensionNotLoadedError as error:
        logger.warning("Clients' DeltaTable is not answered: %s", error)


def _refuse(host: str, port: int, problem: str, way_out: str) -> None:
    raise ServerNotStartedError(server=NAME, address=address_of(host, port), problem=problem, way_out=way_out)
