"""`anabranch serve`: a driver that only serves clients, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any

import typer

from anabranch.cli.output import reporting
from anabranch.cli.shared_arguments import Debug
from anabranch.text_format import harmless_json, plain

CONNECT_PORT, JDBC_PORT = 15002, 10000
_POLL_SECONDS = 0.5


def _port(server: str, port: int, other: str) -> Any:
    text = f"Port for {server}; 0 for any free port. \\[default: {port} without {other}]"
    return typer.Option(metavar="PORT", min=0, max=65535, help=text, show_default=False)


ConnectPort = Annotated[int | None, _port("Spark Connect", CONNECT_PORT, "--jdbc")]
JdbcPort = Annotated[int | None, _port("JDBC", JDBC_PORT, "--connect")]
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on. If other machines can reach it, Spark Connect needs a token and JDBC a login.",
    ),
]
Warehouse = Annotated[str, typer.Option(metavar="DIR", help="Folder for tables and the metastore.")]
Master = Annotated[str, typer.Option(metavar="URL", help="Spark's master: where tasks run.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A setting of Spark. May be repeated."),
]
WarehouseOnly = Annotated[
    bool,
    typer.Option(
        "--warehouse-only", metavar="", help="Refuse paths outside --warehouse to clients, and functions of their own."
    ),
]
Users = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="File with the users of JDBC, one name:hash on each line; --add-user writes it."),
]
AddUser = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Prompt for a password, add NAME to the file of --users, and exit."),
]
Drain = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, help="When the server stops, how long running statements may take to finish."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", metavar="", help="Check whether servers answer at these ports, and exit.")
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--json",
        metavar="",
        help="Print a JSON document on a line of its own when clients can connect, and when the server has stopped.",
    ),
]


def serve(
    connect: ConnectPort = None,
    jdbc: JdbcPort = None,
    host: Host = "127.0.0.1",
    warehouse: Warehouse = "spark-warehouse",
    master: Master = "local[*]",
    conf: Settings = None,
    warehouse_only: WarehouseOnly = False,
    users: Users = None,
    add_user: AddUser = None,
    drain: Drain = 30.0,
    check: Check = False,
    as_json: JsonLines = False,
    debug: Debug = False,
) -> None:
    """Serve Delta tables to clients of Spark Connect and to programs that speak JDBC.

    It starts one driver with Spark's own servers, whose sessions know Delta from their first statement, and prints a
    line when clients can connect. On SIGTERM or Ctrl-C it accepts no new clients, waits for running statements, and
    stops. The exit code is 0 if all statements finished, and 1 if some were cancelled, the driver was lost, or the
    start failed.
    """
    if connect is None and jdbc is None:
        connect, jdbc = CONNECT_PORT, JDBC_PORT
    with reporting(as_json=as_json, debug=debug):
        if check:
            _check(host, connect, jdbc, as_json=as_json)
            return
        if add_user is not None:
            _add_user(users, add_user)
            return
        drained = _serve(
            _Output(as_json),
            {"connect": connect, "jdbc": jdbc, "host": host, "warehouse_only": warehouse_only, "users": users},
            {"warehouse": warehouse, "master": master, "host": host},
            conf or [],
            drain_seconds=drain,
        )
        if not drained:
            raise typer.Exit(1)


class _Output:
    """Prints one line for each event."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def line(self, text: str, **facts: Any) -> None:
        line = harmless_json(json.dumps(facts, ensure_ascii=False)) if self._as_json else plain(text)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


class _Signals:
    """Records SIGTERM and SIGINT, and ends the process at the second one."""

    def __init__(self) -> None:
        self.first: str | None = None
        self.count = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        self.count += 1
        self.first = self.first or signal.Signals(number).name
        if self.count > 1:
            # The user does not want to wait. Spark's JVM ends with this process, and commits are atomic.
            os._exit(1)


def _serve(
    out: _Output, servers: dict[str, Any], driver: dict[str, Any], conf: Sequence[str], *, drain_seconds: float
) -> bool:
    """Serve until a signal or the end of the driver. Returns whether all statements of clients finished."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - `--help` and `--check` need no Spark

    from anabranch.server.access_rules import check_access  # noqa: PLC0415 - as above
    from anabranch.server.driver_session import driver_session  # noqa: PLC0415 - as above
    from anabranch.server.logins import read_users  # noqa: PLC0415 - as above
    from anabranch.server.running_server import serve as start  # noqa: PLC0415 - as above

    settings = dict(_parsed(setting) for setting in conf)
    users = None if servers["users"] is None else read_users(servers["users"])
    started = {name: servers[name] is not None for name in ("connect", "jdbc")}
    check_access(servers["host"], settings, **started, has_users=users is not None)
    spark = driver_session(**driver, user_settings=settings)
    try:
        server = start(spark, **servers)
        signals = _Signals()
        warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
        urls = [url for url in (server.connect_url, server.jdbc_url) if url is not None]
        out.line(
            f"Ready: {' '.join(urls)} (warehouse {warehouse}, process {os.getpid()})",
            state="ready",
            connect=server.connect_url,
            jdbc=server.jdbc_url,
            warehouse=warehouse,
            process=os.getpid(),
        )
        while signals.first is None and server.wait(_POLL_SECONDS):
            pass
        if signals.first is None:
            out.line("Stopped: the driver was lost", state="stopped", reason="driver lost", drained=False)
            return False
        out.line(f"Stopping: {signals.first}", state="stopping", reason=signals.first)
        drained = server.stop(drain_seconds=drain_seconds)
        ending = (
            "all statements finished"
            if drained
            else f"statements that were still running after {drain_seconds:g} s were cancelled"
        )
        out.line(f"Stopped: {ending}", state="stopped", reason=signals.first, drained=drained)
        return drained
    finally:
        with contextlib.suppress(Py4JError, OSError):
            # Fails if the driver was lost; then there is no session to stop.
            spark.stop()


def _add_user(users: str | None, name: str) -> None:
    from anabranch.errors.arguments import InvalidArgumentError  # noqa: PLC0415 - as above
    from anabranch.server.logins import add_user  # noqa: PLC0415 - as above

    if users is None:
        raise InvalidArgumentError(argument="--add-user", value=name, problem="name the file by --users")
    # A program that adds a user writes the password to standard input.
    password = getpass.getpass(f"Password of {name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    add_user(users, name, password)


def _parsed(setting: str) -> tuple[str, str]:
    from anabranch.errors.arguments import InvalidArgumentError  # noqa: PLC0415 - slow to import, and `--help` does not need it

    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise InvalidArgumentError(argument="--conf", value=setting, problem="it must be KEY=VALUE")
    return key, value


def _check(host: str, connect: int | None, jdbc: int | None, *, as_json: bool) -> None:
    from anabranch.server.health_check import check_connect_answers, check_jdbc_answers  # noqa: PLC0415 - as above

    if connect is not None:
        check_connect_answers(host, connect)
    if jdbc is not None:
        check_jdbc_answers(host, jdbc)
    _Output(as_json).line("Healthy", state="healthy")
