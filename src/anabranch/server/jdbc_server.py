"""Spark's own server for Hive's protocol, which JDBC, ODBC and BI tools speak, in the JVM of a session that runs."""

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
"""What `jdbc:hive2://host` means without a port."""

_HOST = "hive.server2.thrift.bind.host"
_PORT = "hive.server2.thrift.port"
_VARIABLES = ("HIVE_SERVER2_THRIFT_BIND_HOST", "HIVE_SERVER2_THRIFT_PORT")
"""Of the environment; Hive takes them before its settings."""
_INCREMENTAL = "spark.sql.thriftServer.incrementalCollect"
"""Whether a result is held one partition at a time. Else it is in the driver as a whole before its first row, however
large; no setting of Spark's bounds that, as `spark.driver.maxResultSize` counts compressed bytes."""
_STATEMENT = "SparkExecuteStatementOperation"
_AT_WORK = {"INITIALIZED", "PENDING", "RUNNING"}
"""What Hive calls the states of a statement that has not come to its end."""


class JdbcServer:
    """It listens from the beginning."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        host: str,
        port: int,
        settings: Mapping[str, str] | None = None,
        opened: Callable[[Any], None] | None = None,
    ) -> None:
        """Port 0 is any that is free. `settings` are Hive's. `opened` gets Spark's server before its address is known
        to anybody. Raises `ServerNotStartedError`.
        """
        self.host = host
        self.port = port or free_port(host)
        self._jvm: Any = spark._jvm
        jvm: Any = self._jvm
        for variable in _VARIABLES:
            if jvm.java.lang.System.getenv(variable) is not None:
                self._refuse(f"the environment has {variable}, which goes before what is asked for", "Unset it")
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        for key, value in {**(settings or {}), _HOST: host.strip("[]"), _PORT: str(self.port)}.items():
            hadoop.set(key, value)
        # Sessions of clients begin with the application's settings.
        spark.sparkContext._jsc.sc().conf().setIfMissing(_INCREMENTAL, "true")
        jvm.delta.JarsLoader.keepOpen(spark._jsparkSession)
        servers = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        try:
            # Hive keeps its settings for a thread: one that has asked a metastore would start with those of then, which
            # listen on every address. Without the second argument a port that is taken would end the JVM.
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
        """What JDBC takes."""
        return f"jdbc:hive2://{address_of(self.host, self.port)}"

    def running(self) -> int:
        """Statements that have not come to their end."""
        # A copy, as others come and go.
        operations = self._jvm.java.util.HashMap(self._operations.handleToOperation()).values()
        jobs = set(self._tracker.getActiveJobIds())
        return sum(str(each.getStatus().getState()) in _AT_WORK or self._fetches(each, jobs) for each in operations)

    def _fetches(self, operation: Any, jobs: set[int]) -> bool:
        """Whether one of the jobs computes rows of a statement that Hive calls finished, as its client fetches them."""
        if not jobs or operation.getClass().getSimpleName() != _STATEMENT:
            return False
        return not jobs.isdisjoint(self._tracker.getJobIdsForGroup(operation.statementId()))

    def sessions(self) -> set[str]:
        """The sessions of clients that are open, by identity."""
        contexts = self._jvm.java.util.HashMap(self._operations.sessionToContexts())
        return {str(each.sessionUUID()) for each in contexts.values()}

    def stop(self) -> None:
        """Closes every session; what still runs is cancelled."""
        self._server.stop()

    def _check_address(self) -> None:
        """What listens elsewhere than asked for is stopped."""
        listens = self._service("ThriftBinaryCLIService")
        address = str(listens.getServerIPAddress().getHostAddress())
        asked = str(self._jvm.java.net.InetAddress.getByName(self.host.strip("[]")).getHostAddress())
        if (address, int(listens.getPortNumber())) != (asked, self.port):
            self._server.stop()
            self._refuse(f"Hive's settings have it listen on {address}", "Remove hive.server2.thrift.* from them")

    def _service(self, name: str) -> Any:
        return next(each for each in self._server.getServices() if each.getClass().getSimpleName() == name)

    def _refuse(self, problem: str, way_out: str) -> NoReturn:
        address = address_of(self.host, self.port)
        raise ServerNotStartedError(server=NAME, address=address, problem=problem, way_out=way_out) from None
