"""Spark's own server for Hive's protocol, which JDBC, ODBC and BI tools speak, in the JVM of a running session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from anabranch.errors.environment import ServerNotStartedError
from anabranch.server.addresses import address_of, free_port, root_cause

NAME = "JDBC"
PORT = 10000
"""The port of `jdbc:hive2://host`."""

_HOST = "hive.server2.thrift.bind.host"
_PORT = "hive.server2.thrift.port"
_VARIABLES = ("HIVE_SERVER2_THRIFT_BIND_HOST", "HIVE_SERVER2_THRIFT_PORT")
"""Variables of the environment that override Hive's settings."""
_INCREMENTAL = "spark.sql.thriftServer.incrementalCollect"
"""Whether the driver holds one partition of a result at a time. Otherwise it holds the whole result before the first
row is fetched; no setting of Spark bounds that, as `spark.driver.maxResultSize` counts compressed bytes."""
_STATEMENT = "SparkExecuteStatementOperation"
_RUNNING_STATES = {"INITIALIZED", "PENDING", "RUNNING"}
"""Hive's names for the states of a statement that has not finished."""


class JdbcServer:
    """The JDBC server of a driver, from its start to its stop."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        host: str,
        port: int,
        settings: Mapping[str, str] | None = None,
        opened: Callable[[Any], None] | None = None,
    ) -> None:
        """Start it; port 0 is any free port. Raises `ServerNotStartedError`.

        `settings` are Hive's. `opened` is called with Spark's server before clients learn its address.
        """
        self.host = host
        self.port = port or free_port(host)
        self._jvm: Any = spark._jvm
        jvm: Any = self._jvm
        for variable in _VARIABLES:
            if jvm.java.lang.System.getenv(variable) is not None:
                self._refuse(f"the environment has {variable}, which overrides this address", "Unset it")
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        for key, value in {**(settings or {}), _HOST: host.strip("[]"), _PORT: str(self.port)}.items():
            hadoop.set(key, value)
        # Sessions of clients begin with the application's settings.
        spark.sparkContext._jsc.sc().conf().setIfMissing(_INCREMENTAL, "true")
        jvm.anabranch.JarsLoader.keepOpen(spark._jsparkSession)
        servers = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        try:
            # Hive keeps its settings per thread: on one that has used a metastore, the server would start with the
            # settings of that time, and listen on every address. The second argument keeps a port in use from ending
            # the JVM.
            with ThreadPoolExecutor(1, thread_name_prefix="anabranch-jdbc") as thread:
                self._server = thread.submit(servers.startWithSparkSession, spark._jsparkSession, False).result()
        except Py4JJavaError as error:
            self._refuse(root_cause(error), "Name another port, or 0 for any that is free")
        self._tracker = spark.sparkContext._jsc.statusTracker()
        self._check_address()
        if opened is not None:
            opened(self._server)
        self._operations = self._service("SparkSQLCLIService").getSessionManager().getOperationManager()

    @property
    def url(self) -> str:
        """The URL for JDBC."""
        return f"jdbc:hive2://{address_of(self.host, self.port)}"

    def running(self) -> int:
        """The number of statements that have not finished."""
        # A copy, as operations begin and end in the meantime.
        operations = self._jvm.java.util.HashMap(self._operations.handleToOperation()).values()
        jobs = set(self._tracker.getActiveJobIds())
        return sum(self._runs(operation, jobs) for operation in operations)

    def _runs(self, operation: Any, jobs: set[int]) -> bool:
        return str(operation.getStatus().getState()) in _RUNNING_STATES or self._fetches(operation, jobs)

    def _fetches(self, operation: Any, jobs: set[int]) -> bool:
        """Whether a job computes rows that a client fetches from a statement in Hive's state FINISHED."""
        if not jobs or operation.getClass().getSimpleName() != _STATEMENT:
            return False
        return not jobs.isdisjoint(self._tracker.getJobIdsForGroup(operation.statementId()))

    def sessions(self) -> set[str]:
        """The ids of clients' open sessions."""
        contexts = self._jvm.java.util.HashMap(self._operations.sessionToContexts())
        return {str(session.sessionUUID()) for session in contexts.values()}

    def stop(self) -> None:
        """Close every session. Statements that still run are cancelled."""
        self._server.stop()

    def _check_address(self) -> None:
        """Stop the server if it listens on another address than the requested one."""
        service = self._service("ThriftBinaryCLIService")
        address = str(service.getServerIPAddress().getHostAddress())
        requested = str(self._jvm.java.net.InetAddress.getByName(self.host.strip("[]")).getHostAddress())
        if (address, int(service.getPortNumber())) != (requested, self.port):
            self._server.stop()
            self._refuse(f"Hive's settings have it listen on {address}", "Remove hive.server2.thrift.* from them")

    def _service(self, name: str) -> Any:
        services = self._server.getServices()
        return next(service for service in services if service.getClass().getSimpleName() == name)

    def _refuse(self, problem: str, way_out: str) -> NoReturn:
        address = address_of(self.host, self.port)
        raise ServerNotStartedError(server=NAME, address=address, problem=problem, way_out=way_out) from None
