"""Servers for clients of Spark Connect and of JDBC, in the driver of a session that knows Delta."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Self

from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.progress.progress_display import uninstall_display
from anabranch.server import connect_server, jdbc_server
from anabranch.server.access_rules import check_access
from anabranch.server.client_sessions import ClientSessions
from anabranch.server.connect_server import ConnectServer
from anabranch.server.jdbc_server import JdbcServer
from anabranch.server.logins import forget_sessions, limit_logins, read_users, require_logins, watch_sessions
from anabranch.server.warehouse_guard import lift_restriction, restrict_to_warehouse
from anabranch.sessions import enable
from anabranch.spark.gateway.jvm_sessions import is_connect, is_stopped

logger = logging.getLogger("anabranch.server")

DRAIN_SECONDS = 30.0
THIS_MACHINE = "127.0.0.1"
_SUBSTITUTE = "spark.sql.variable.substitute"
_POLL_SECONDS = 0.2
_IDLE_POLLS = 5


def serve(
    spark: SparkSession,
    *,
    connect: int | None = connect_server.PORT,
    jdbc: int | None = jdbc_server.PORT,
    host: str = THIS_MACHINE,
    warehouse_only: bool = False,
    users: str | None = None,
) -> Server:
    """Let clients of Spark Connect and of JDBC use the driver of `spark`. Returns the running server, to stop it.

    `connect` and `jdbc` are ports; 0 is any free port, None leaves that server out. `spark` is a classic session,
    which is enabled; each client gets a session of its own that knows Delta. With `warehouse_only` clients can name no
    file outside the folder of `spark.sql.warehouse.dir`, and run no functions of their own. `users` is a file of names
    and hashes of passwords for JDBC, as `anabranch serve --add-user` writes it. Raises `ServerOpenToOthersError` if
    other machines could connect to `host` without authentication, and `ServerNotStartedError`.
    """
    if is_connect(spark):
        problem = "only the driver of a classic session can serve"
        raise InvalidArgumentError(argument="spark", value=type(spark).__module__, problem=problem)
    if connect is None and jdbc is None:
        raise InvalidArgumentError(argument="connect, jdbc", value="None", problem="one of them is needed")
    hashes = None if users is None else read_users(users)
    check_access(
        host,
        dict(spark.sparkContext.getConf().getAll()),
        connect=connect is not None,
        jdbc=jdbc is not None,
        has_users=hashes is not None,
    )
    enable(spark)
    # The terminal of the server is not that of its clients.
    uninstall_display()
    login = None if hashes is None else require_logins(spark, hashes)
    if warehouse_only:
        restrict_to_warehouse(spark)
    _disable_substitution(spark, always=warehouse_only)

    def opened(server: Any) -> None:
        limit_logins(spark, server)
        if warehouse_only or hashes:
            watch_sessions(spark, server, has_logins=hashes is not None)

    # Connect is started last: its port is more likely in use, and then only JDBC must be stopped.
    jdbc_started = None if jdbc is None else JdbcServer(spark, host=host, port=jdbc, settings=login, opened=opened)
    try:
        connect_started = None if connect is None else ConnectServer(spark, host=host, port=connect)
    except BaseException:
        if warehouse_only:
            lift_restriction(spark)
        if jdbc_started is not None:
            jdbc_started.stop()
            forget_sessions()
        raise
    return Server(spark, connect=connect_started, jdbc=jdbc_started, warehouse_only=warehouse_only)


def _disable_substitution(spark: SparkSession, *, always: bool) -> None:
    """Leave `${env:NAME}` and `${system:name}` in clients' statements as text: they would show the server's values."""
    context: Any = spark.sparkContext._jsc
    settings = context.sc().conf()
    if always:
        settings.set(_SUBSTITUTE, "false")
    else:
        settings.setIfMissing(_SUBSTITUTE, "false")


class Server:
    """The servers of one driver. As a context manager it stops them at the end of the block."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        connect: ConnectServer | None,
        jdbc: JdbcServer | None,
        warehouse_only: bool = False,
    ) -> None:
        self.spark = spark
        self._warehouse_only = warehouse_only
        self._connect = connect
        self._jdbc = jdbc
        self._clients = ClientSessions(self._open_sessions)
        self._clients.begin()
        self._stopping = threading.Lock()
        self._stopped = threading.Event()

    @property
    def connect_url(self) -> str | None:
        """The URL for `SparkSession.builder.remote`; None without Connect."""
        return None if self._connect is None else self._connect.url

    @property
    def jdbc_url(self) -> str | None:
        """The URL for JDBC; None without it."""
        return None if self._jdbc is None else self._jdbc.url

    def running(self) -> int:
        """The number of clients' statements that have not finished."""
        return sum(server.running() for server in (self._connect, self._jdbc) if server is not None)

    def sessions(self) -> int:
        """The number of clients' open sessions."""
        return len(self._open_sessions())

    def _open_sessions(self) -> set[str]:
        servers = (self._connect, self._jdbc)
        return {session for server in servers if server is not None for session in server.sessions()}

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until `stop` is called or the driver ends, at most `seconds`.

        Returns whether clients are still served.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._stopped.wait(_POLL_SECONDS) and self.is_alive():
            if deadline is not None and time.monotonic() >= deadline:
                return True
        return False

    def is_alive(self) -> bool:
        """Whether the driver runs and the servers were not stopped."""
        return not self._stopped.is_set() and not is_stopped(self.spark)

    def stop(self, *, drain_seconds: float = DRAIN_SECONDS) -> bool:
        """Accept no new requests, wait at most `drain_seconds` for running statements, and close all sessions.

        Returns whether every statement finished; the others are cancelled. The Spark session stays open.
        """
        with self._stopping:
            if self._stopped.is_set():
                return True
            if self._connect is not None:
                self._connect.refuse_new()
            drained = self._drained(drain_seconds)
            for server in (self._connect, self._jdbc):
                if server is not None:
                    server.stop()
            self._clients.end()
            forget_sessions()
            if self._warehouse_only:
                lift_restriction(self.spark)
            self._stopped.set()
            return drained

    def _drained(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        idle = 0
        # Idle for a second, in which clients of JDBC fetch the results of finished statements.
        while idle < _IDLE_POLLS:
            idle = idle + 1 if self.running() == 0 else 0
            if idle == 0 and time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
