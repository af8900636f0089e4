"""A server in a separate process, as `anabranch serve` starts it, and clients of both protocols."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS = 240
STOPPED_SECONDS = 120


@dataclass
class Served:
    """A server that is ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]

    @property
    def connect_url(self) -> str:
        return str(self.ready["connect"])

    @property
    def jdbc_port(self) -> int:
        return int(self.ready["jdbc"].rpartition(":")[2])

    @property
    def connect_port(self) -> int:
        return int(self.connect_url.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, list[dict[str, Any]]]:
        """Send the signal. Returns the exit code and the lines of output until the end."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=STOPPED_SECONDS)
        return self.process.returncode, [json.loads(line) for line in said.splitlines()]

    def jvm(self) -> int:
        """The process of the driver's JVM."""
        outcome = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "java"], capture_output=True, text=True, check=True
        )
        return int(outcome.stdout.split()[0])


def start_server(warehouse: Path, *arguments: str, log: Path | None = None) -> Served:
    """Start a server of both protocols on free ports."""
    # Programs of clients have this file without the folder that the module is in.
    from new_processes import outside_this_session

    command = [sys.executable, "-m", "anabranch", "serve", "--connect", "0", "--jdbc", "0", "--json"]
    command += ["--warehouse", str(warehouse), "--master", "local[4]"]
    command += ["-c", "spark.sql.shuffle.partitions=2", "-c", "spark.sql.session.timeZone=UTC", *arguments]
    log = log or warehouse.parent / "serve.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=outside_this_session(),
            start_new_session=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line or json.loads(line).get("state") != "ready":
        process.kill()
        raise AssertionError(f"{line}\n{log.read_text()[-4000:]}")
    return Served(process, json.loads(line))


@contextlib.contextmanager
def served(warehouse: Path, *arguments: str) -> Iterator[Served]:
    server = start_server(warehouse, *arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.stop()
            server.process.kill()


def connect_client(server: Served) -> Any:
    """A new session. Its class is Connect's own, so that it can share a process with classic sessions."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(server.connect_url).create()


def jdbc_client(server: Served) -> Any:
    from pyhive import hive

    return hive.connect(host="127.0.0.1", port=server.jdbc_port)


def beeline(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Hive's own client, which ships with PySpark."""
    import pyspark

    jars = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    command = [java, "-cp", jars, "org.apache.hive.beeline.BeeLine", "-u", url, "--outputformat=csv2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


class Client:
    """The operations that clients of both protocols have."""

    protocol: str

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def run(self, statement: str) -> None:
        """Return when the statement has finished, without fetching rows."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ConnectClient(Client):
    protocol = "connect"

    def __init__(self, server: Served) -> None:
        from pyspark.sql.connect.session import SparkSession

        self._before = getattr(SparkSession._active_session, "session", None), SparkSession._default_session
        self.session = connect_client(server)
        # Functions as `udf` ask the active session, which may be left from a test whose server has ended.
        SparkSession._active_session.session = SparkSession._default_session = self.session
        # By default PySpark tries for ten minutes to reach a server that has ended, also to end its session.
        self.session.client.set_retry_policies([])

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def run(self, statement: str) -> None:
        self.session.sql(statement)

    def cancel(self) -> None:
        self.session.interruptAll()

    def close(self) -> None:
        from pyspark.sql.connect.session import SparkSession

        self.session.stop()
        # A program that opened this one beside its own session goes on with that.
        SparkSession._active_session.session, SparkSession._default_session = self._before


class JdbcClient(Client):
    protocol = "jdbc"

    def __init__(self, server: Served) -> None:
        self.connection = jdbc_client(server)
        self.cursor = self.connection.cursor()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(statement)
        return list(self.cursor.fetchall()) if self.cursor.description else []

    def run(self, statement: str) -> None:
        self.cursor.execute(statement)

    def close(self) -> None:
        from pyhive.exc import OperationalError

        try:
            self.connection.close()
        except OperationalError as error:
            # Hive loads all of its functions when the first session is closed in a JVM whose metastore it may have to
            # forget, and PySpark comes without a class of one of them. The session is closed all the same.
            if "LlapSigner" not in str(error):
                raise


PROTOCOLS: dict[str, type[Client]] = {"connect": ConnectClient, "jdbc": JdbcClient}


@contextlib.contextmanager
def client(server: Served, protocol: str) -> Iterator[Client]:
    made = PROTOCOLS[protocol](server)  # type: ignore[call-arg]
    try:
        yield made
    finally:
        made.close()


def until(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.2)


def waiting(mark: str) -> str:
    """A query of one row, `v`, that says in a property of the driver that it began, and ends when `release` is called."""
    began = f"reflect('java.lang.System', 'setProperty', '{mark}', 'began')"
    go = f"reflect('java.lang.System', 'getProperty', '{mark}.go') = 'go'"
    step = f"CASE WHEN {go} THEN 'x' ELSE reflect('java.lang.Thread', 'sleep', 250L) END"
    return f"(SELECT max(each) AS v FROM (SELECT concat({began}, {step}) AS each FROM range(0, 480, 1, 1)))"


def has_begun(by: Client, mark: str) -> bool:
    return by.rows(f"SELECT reflect('java.lang.System', 'getProperty', '{mark}')") == [("began",)]


def release(by: Client, mark: str) -> None:
    by.rows(f"SELECT reflect('java.lang.System', 'setProperty', '{mark}.go', 'go')")
