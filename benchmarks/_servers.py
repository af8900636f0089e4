"""Servers of Spark Connect that a benchmark asks: `anabranch serve`, and PySpark's own with delta-spark's jar."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from benchmarks._comparison import DELTA, JARS

ROWS = 100_000
FILES = 8
MEMORY = "2g"
READY_SECONDS = 180
SETTINGS = {
    "spark.driver.memory": MEMORY,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass
class Started:
    """A server that answers."""

    process: subprocess.Popen[str]
    connect: int
    jdbc: int | None
    seconds: float

    def megabytes(self) -> float:
        """Of the process and all below it, in memory."""
        listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout
        rows = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
        tree = {self.process.pid}
        while len(grown := tree | {pid for pid, parent, _ in rows if parent in tree}) > len(tree):
            tree = grown
        return sum(rss for pid, _, rss in rows if pid in tree) / 1024


def jars() -> str | None:
    """The jars of delta-spark, as absolute paths since servers run in a folder of their own; None if not set."""
    names = [name for name in os.environ.get(JARS, "").split(",") if name]
    return ",".join(str(Path(name).absolute()) for name in names) or None


def print_heading(*, rounds: int, seconds: float) -> None:
    """Say on what is measured, and how often: a table of `ROWS` rows in `FILES` files."""
    versions = f"Python {platform.python_version()}, PySpark {pyspark.__version__}"
    print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}; servers with {MEMORY}, local[2]")
    print(f"{ROWS:,} rows in {FILES} files; {rounds} rounds of {seconds:g} s for each number\n")


@contextlib.contextmanager
def anabranch_server(scratch: Path) -> Iterator[Started]:
    """`anabranch serve` for both kinds of clients."""
    command = [sys.executable, "-m", "anabranch", "serve", "--connect", "0", "--jdbc", "0", "--json"]
    command += ["--warehouse", str(scratch / "ours"), "--master", "local[2]"]
    with _running([*command, *_conf(SETTINGS)], scratch / "ours.log") as (process, start):
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        connect, jdbc = (int(ready[protocol].rpartition(":")[2]) for protocol in ("connect", "jdbc"))
        yield Started(process, connect, jdbc, time.perf_counter() - start)


@contextlib.contextmanager
def jar_server(scratch: Path, paths: str) -> Iterator[Started]:
    """PySpark's Connect server with these jars, which are separated by commas."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        **SETTINGS,
        **DELTA,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": str(scratch / "theirs"),
        # Not --jars: the threads of Spark Connect would not find them.
        "spark.driver.extraClassPath": paths.replace(",", os.pathsep),
    }
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        CONNECT,
        "--master",
        "local[2]",
        "--jars",
        paths,
        *_conf(settings),
        "spark-internal",
    ]
    with _running(command, scratch / "theirs.log", SPARK_HOME=str(home)) as (process, start):
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.perf_counter() - start > READY_SECONDS:
                raise RuntimeError((scratch / "theirs.log").read_text()[-3000:])
            time.sleep(0.05)
        yield Started(process, port, None, time.perf_counter() - start)


@contextlib.contextmanager
def _running(command: list[str], log: Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], float]]:
    with log.open("w") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=log.parent, env=os.environ | environment
        )
        try:
            yield process, start
        finally:
            process.terminate()
            process.communicate(timeout=READY_SECONDS)


def _conf(settings: dict[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
