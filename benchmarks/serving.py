"""A server for many clients: small reads of a Delta table, beside PySpark's own Connect server with delta-spark's jar.

    ANABRANCH_JARS=… python -m benchmarks serving [--seconds 10] [--rounds 3] [--clients 1 8 32]

Both servers run at once, each with 2 GB and two threads for tasks, and clients ask them in turn. A client is a session
of its own; those of one measurement are threads of one process. Without the jar the server of ours is measured alone.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks._comparison import JARS, ROOT
from benchmarks._servers import FILES, ROWS, Started, anabranch_server, jar_server, jars, print_heading

Ask = Callable[[str], Any]
Measured = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--client", nargs=4, metavar=("PROTOCOL", "PORT", "TABLE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client is not None:
        protocol, port, table, count = arguments.client
        print(json.dumps(figures_of_clients(protocol, int(port), table, int(count), arguments.seconds)))
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-benchmark-", ignore_cleanup_errors=True) as scratch:
        measure(Path(scratch), arguments)


def measure(scratch: Path, arguments: argparse.Namespace) -> None:
    """Start the servers, ask them in turn, and print the figures."""
    print_heading(rounds=arguments.rounds, seconds=arguments.seconds)
    with contextlib.ExitStack() as running:
        ours = running.enter_context(anabranch_server(scratch))
        ways = {"anabranch": (ours, "connect", ours.connect), "anabranch, JDBC": (ours, "jdbc", ours.jdbc)}
        if (paths := jars()) is not None:
            theirs = running.enter_context(jar_server(scratch, paths))
            ways["jar"] = (theirs, "connect", theirs.connect)
        else:
            print(f"delta-spark: not run ({JARS} is not set)\n")
        table = str(scratch / "table")
        _make(ours, table)
        firsts = {name: _client(way, table, 1, 0)["first"] for name, way in ways.items()}
        timings: dict[tuple[str, int], list[Measured]] = {}
        for number in range(arguments.rounds + 1):
            for count in arguments.clients:
                for name, way in ways.items():
                    seconds = arguments.seconds if number else min(arguments.seconds, 5)
                    figures = _client(way, table, count, seconds)
                    # The first round warms up.
                    if number:
                        timings.setdefault((name, count), []).append(figures)
        _report(ways, firsts, timings)


def _report(ways: dict[str, Any], firsts: dict[str, float], timings: dict[tuple[str, int], list[Measured]]) -> None:
    print(
        "| server | seconds until ready | first statement of all, s | first of a session, ms | memory at the end, MB |"
    )
    print("|---|---|---|---|---|")
    for name, (server, _, _) in ways.items():
        later = statistics.median(figures["first"] for figures in timings[name, 1])
        print(f"| {name} | {server.seconds:.1f} | {firsts[name]:.2f} | {later * 1000:.0f} | {server.megabytes():.0f} |")
    print("\n| clients | server | statements/s (range) | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for (name, count), rounds in sorted(timings.items(), key=lambda item: item[0][1]):
        rates = [figures["rate"] for figures in rounds]
        middle, late = (statistics.median(figures[key] for figures in rounds) * 1000 for key in ("p50", "p99"))
        spread = f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"
        print(f"| {count} | {name} | {spread} | {middle:.0f} | {late:.0f} |")


def figures_of_clients(protocol: str, port: int, table: str, count: int, seconds: float) -> Measured:
    """What `count` clients measured that asked for single rows for so long."""
    with ThreadPoolExecutor(count) as pool:
        clients = list(pool.map(lambda number: _session(protocol, port, table, number), range(count)))
        end = time.perf_counter() + seconds

        def ask_on(number: int) -> list[float]:
            ask, times = clients[number][0], []
            while time.perf_counter() < end:
                start = time.perf_counter()
                ask(_query(table, (number * 7919 + len(times) * 31) % ROWS))
                times.append(time.perf_counter() - start)
            return times

        start = time.perf_counter()
        times = sorted(itertools.chain.from_iterable(pool.map(ask_on, range(count))))
        took = time.perf_counter() - start
    figures: Measured = {"first": statistics.median(first for _, first in clients)}
    if times:
        figures |= {"rate": len(times) / took, "p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}
    return figures


def _session(protocol: str, port: int, table: str, number: int) -> tuple[Ask, float]:
    """What asks a statement in a new session, and how long its first one took, with the session."""
    start = time.perf_counter()
    if protocol == "connect":
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415

        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()

        def ask(statement: str) -> Any:
            return session.sql(statement).collect()
    else:
        from pyhive import hive  # noqa: PLC0415

        cursor = hive.connect(host="127.0.0.1", port=port).cursor()

        def ask(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

    assert len(ask(_query(table, number))) == 1
    return ask, time.perf_counter() - start


def _query(table: str, row: int) -> str:
    return f"SELECT word, n FROM delta.`{table}` WHERE id = {row}"


def _client(way: tuple[Started, str, int], table: str, count: int, seconds: float) -> Measured:
    """The figures of a process of clients."""
    _, protocol, port = way
    command = [sys.executable, "-m", "benchmarks", "serving", "--seconds", str(seconds), "--client"]
    done = subprocess.run(
        [*command, protocol, str(port), table, str(count)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        raise RuntimeError("\n".join(line for line in done.stderr.splitlines() if not line.startswith("\tat "))[-3000:])
    figures: Measured = json.loads(done.stdout.splitlines()[-1])
    return figures


def _make(server: Started, table: str) -> None:
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415

    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.connect}").create()
    frame = spark.range(0, ROWS, 1, FILES).selectExpr("id", "id % 7 AS n", "concat('row ', id) AS word")
    frame.write.format("delta").save(table)
    spark.stop()


if __name__ == "__main__":
    main()
