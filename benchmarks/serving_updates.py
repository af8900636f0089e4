"""Clients of a server that update rows of one table beside OPTIMIZE, no two of them the same row.

    ANABRANCH_JARS=… python -m benchmarks serving_updates [--seconds 20] [--rounds 3] [--clients 1 16 64]

Each client is a session of Spark Connect with rows of its own, all over the files, and updates one of them after the
other; another client compacts the table all the time. A statement that is refused for a conflict is run again until
the time is up. The server has 2 GB and two threads for tasks. With the jar, PySpark's own server with delta-spark is
measured as well, one after the other. At the end each update must be in the table once.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from benchmarks._comparison import JARS
from benchmarks._servers import FILES, ROWS, Started, anabranch_server, jar_server, jars, print_heading

WARM_UP_SECONDS = 10
Round = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 16, 64])
    parser.add_argument("--engines", nargs="*", default=["anabranch", "jar"], choices=["anabranch", "jar"])
    arguments = parser.parse_args()
    print_heading(rounds=arguments.rounds, seconds=arguments.seconds)
    print("| clients | server | updates/s (range) | run again, times | p50 ms | p99 ms | slowest ms | compactions |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="anabranch-benchmark-", ignore_cleanup_errors=True) as scratch:
        if "anabranch" in arguments.engines:
            with anabranch_server(Path(scratch)) as server:
                measure("anabranch", server, Path(scratch), arguments)
        if "jar" in arguments.engines and (paths := jars()) is not None:
            with jar_server(Path(scratch), paths) as server:
                measure("delta-spark", server, Path(scratch), arguments)
        elif "jar" in arguments.engines:
            print(f"\ndelta-spark: not run ({JARS} is not set)")


def measure(name: str, server: Started, scratch: Path, arguments: argparse.Namespace) -> None:
    """Print a line of figures for each number of clients."""
    for clients in arguments.clients:
        table = str(scratch / f"{name}-{clients}")
        updates(server, table, clients, WARM_UP_SECONDS)
        rounds = [
            updates(server, f"{table}-{number}", clients, arguments.seconds) for number in range(arguments.rounds)
        ]
        rates = [len(some["times"]) / some["seconds"] for some in rounds]
        times = sorted(itertools.chain(*(some["times"] for some in rounds)))
        shares = [f"{times[int(len(times) * share)] * 1000:,.0f}" if times else "-" for share in (0.5, 0.99, 0.9999)]
        print(
            f"| {clients} | {name} | {statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f}) | "
            f"{sum(some['again'] for some in rounds)} | {' | '.join(shares)} | "
            f"{sum(some['compactions'] for some in rounds)} |",
            flush=True,
        )


def updates(server: Started, table: str, clients: int, seconds: float) -> Round:
    """What so many clients did to a new table in that time; the last statement of each ends later."""
    first = _session(server)
    frame = first.range(0, ROWS, 1, FILES).selectExpr("id", "0 AS n", "concat('row ', id) AS word")
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(table)
    ended = threading.Event()
    with ThreadPoolExecutor(clients + 1) as pool:
        sessions = list(pool.map(lambda _: _session(server), range(clients)))
        compacting = pool.submit(_compact, first, table, ended)
        start = time.perf_counter()
        work = [
            pool.submit(_update, session, table, range(number, ROWS, clients), start + seconds)
            for number, session in enumerate(sessions)
        ]
        results = [some.result() for some in work]
        took = time.perf_counter() - start
        ended.set()
        compactions, refused = compacting.result()
    times = list(itertools.chain(*(times for times, _ in results)))
    [row] = first.sql(f"SELECT count(*) AS rows, count(DISTINCT id) AS ids, sum(n) AS n FROM delta.`{table}`").collect()
    assert (row.rows, row.ids, row.n) == (ROWS, ROWS, len(times)), f"{row} after {len(times)} updates"
    for session in (first, *sessions):
        session.stop()
    return {
        "times": times,
        "seconds": took,
        "again": sum(again for _, again in results) + refused,
        "compactions": compactions,
    }


def _update(session: SparkSession, table: str, own: range, end: float) -> tuple[list[float], int]:
    """Update one row after the other; how long each took, and how often one was run again."""
    times, again = list[float](), 0
    for number in itertools.count():
        start = time.perf_counter()
        if start >= end:
            return times, again
        row = own[number * 7919 % len(own)]
        while not _runs(session, f"UPDATE delta.`{table}` SET n = n + 1 WHERE id = {row}"):
            again += 1
            if time.perf_counter() >= end:
                return times, again
        times.append(time.perf_counter() - start)
    raise AssertionError


def _compact(session: SparkSession, table: str, ended: threading.Event) -> tuple[int, int]:
    """Compact the table until it has `ended`; how often that was done, and how often it was refused."""
    done = [_runs(session, f"OPTIMIZE delta.`{table}`") for _ in iter(ended.is_set, True)]
    return done.count(True), done.count(False)


def _runs(session: SparkSession, statement: str) -> bool:
    """Run it; False where it is refused for a conflict."""
    try:
        session.sql(statement).collect()
    except PySparkException as error:
        if "Concurrent" in str(error) or "CONCURRENT" in str(error):
            return False
        raise
    return True


def _session(server: Started) -> SparkSession:
    return SparkSession.builder.remote(f"sc://127.0.0.1:{server.connect}").create()


if __name__ == "__main__":
    main()
