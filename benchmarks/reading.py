"""Scans, hidden rows, opening, planning: this checkout beside delta-spark's jar, Parquet and another checkout.

    python -m benchmarks reading [--rows 6000000] [--files 1000 100000] [--rounds 7] [--before CHECKOUT]

Every variant is a process of its own, all alive at once; each round asks them in turn, beginning with another one each
time, so that what else the machine does meets all alike. With `ANABRANCH_JARS` naming the jars, as
`scripts/test_jar.sh` sets it, and PySpark 4.2, one of them is delta-spark. `--before` names another checkout of this
project, for instance that of a release. Rows:

- scans of a table much like `lineitem` of TPC-H, without and with 1 % of the rows of every file hidden;
- the first query on a table with many files that is new to a warm session, and, with `--sessions`, to a new one;
- the same query planned again, and one with another condition (no file is read: all are skipped);
- what is small: counting a table of one file, appending a row to it, inserting ten VALUES, deleting one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from benchmarks._comparison import JARS, ROOT, Timings, report

FILES = 16
TEN_ROWS = ", ".join(f"({id_})" for id_ in range(1_000, 1_010))
_SECONDS = "@seconds "
_FAILED = "@failed "
_SCANS: dict[str, Callable[[DataFrame], object]] = {
    "all columns": lambda f: f.write.format("noop").mode("overwrite").save(),
    "one column": lambda f: f.selectExpr("sum(l_quantity)").collect(),
    "filtered": lambda f: f.where("l_suppkey = 7 AND l_shipdate < '1994-01-01'").selectExpr("sum(l_tax)").collect(),
    "TPC-H 1": lambda f: (
        f.where("l_shipdate <= '1998-09-02'")
        .groupBy("l_returnflag", "l_linestatus")
        .agg({"l_quantity": "sum", "l_extendedprice": "sum", "l_discount": "avg", "*": "count"})
        .collect()
    ),
}


class Worker:
    """One variant in its process."""

    def __init__(self, variant: str, checkout: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "reading.py"), "--work", variant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(ROOT)])},
        )
        self._answer()

    def seconds(self, work: str, path: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([work, path]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> float:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_FAILED):
                print(line.removeprefix(_FAILED).rstrip())
            if line.startswith(_SECONDS):
                return float(line.removeprefix(_SECONDS))
        raise RuntimeError("the process ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--files", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--sessions", type=int, default=0, help="rounds with a new session each")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        _work(arguments.work)
        return
    checkouts = {"anabranch": ROOT}
    if arguments.before:
        checkouts["before"] = arguments.before
    if os.environ.get(JARS):
        checkouts["delta-spark"] = ROOT
    folder = Path(tempfile.mkdtemp(prefix="anabranch-benchmark-"))
    try:
        _make(folder, arguments.rows, arguments.files)
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, PySpark {pyspark.__version__}, local[2], driver memory 3g"
        )
        print(f"{arguments.rows:,} rows in {FILES} files; {arguments.rounds} rounds; load {os.getloadavg()[0]:.1f}\n")
        report(_measured(checkouts, folder, arguments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(checkouts: dict[str, Path], folder: Path, arguments: argparse.Namespace) -> Timings:
    workers = {name: Worker(name, checkout) for name, checkout in checkouts.items()}
    timings: Timings = {}
    plain = f"{folder}/lineitem"
    for query in _SCANS:
        _alternate(timings, f"scan, {query}", workers, f"scan {query}", {"": plain, "Parquet": plain}, arguments.rounds)
        _alternate(
            timings, f"1 % hidden, {query}", workers, f"scan {query}", {"": f"{folder}/hidden"}, arguments.rounds
        )
    for count in arguments.files:
        log = f"{folder}/log-{count}"
        _alternate(timings, f"{count:,} files, new table", workers, "new", {"": log}, arguments.rounds)
        for work in ("same", "another"):
            label = f"{count:,} files, {work} condition"
            _alternate(timings, label, workers, work, {"": log}, arguments.rounds)
    for work in ("count", "append", "insert", "delete"):
        _alternate(timings, f"one small table, {work}", workers, work, {"": str(folder)}, 3 * arguments.rounds)
    for worker in workers.values():
        worker.close()
    for count in arguments.files:
        for _ in range(arguments.sessions):
            for name, checkout in checkouts.items():
                worker = Worker(name, checkout)
                seconds = worker.seconds("new", f"{folder}/log-{count}")
                timings.setdefault(f"{count:,} files, new session", {}).setdefault(name, []).append(seconds)
                worker.close()
    return timings


def _alternate(
    timings: Timings, label: str, workers: dict[str, Worker], work: str, paths: dict[str, str], rounds: int
) -> None:
    """Rounds in turn. The first two warm up and do not count."""
    turns = list(workers.items())
    for number in range(rounds + 2):
        for name, worker in turns[number % len(turns) :] + turns[: number % len(turns)]:
            for kind, path in paths.items():
                if kind and name != "anabranch":
                    continue
                seconds = worker.seconds(f"{kind} {work}".strip(), path)
                if number > 1 and not math.isnan(seconds):
                    timings.setdefault(label, {}).setdefault(kind or name, []).append(seconds)


def _make(folder: Path, rows: int, files: list[int]) -> None:
    """Made by a process of its own, so that no variant knows the tables."""
    command = [sys.executable, str(ROOT / "benchmarks" / "reading.py"), "--work", "make"]
    request = json.dumps([json.dumps([rows, files]), str(folder)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    subprocess.run(command, input=request, text=True, check=True, stdout=subprocess.DEVNULL, env=environment)


def _work(variant: str) -> None:
    """Do what comes in, one piece a line, and say how long each took."""
    from benchmarks._comparison import DELTA, session  # noqa: PLC0415

    if variant == "delta-spark":
        vectors = {"spark.databricks.delta.properties.defaults.enableDeletionVectors": "true"}
        spark = session({"spark.jars": os.environ[JARS], **DELTA, **vectors})
    else:
        import anabranch  # noqa: PLC0415

        spark = anabranch.enable(session({}))
    spark.range(10).count()
    print(_SECONDS + "0", flush=True)
    for line in sys.stdin:
        work, path = json.loads(line)
        if variant == "make":
            _tables(spark, Path(path), *json.loads(work))
            continue
        run = _prepared(spark, variant, work, path)
        start = time.perf_counter()
        try:
            run()
            seconds = time.perf_counter() - start
        except Exception as error:
            print(_FAILED + f"{variant}, {work}: {error}".replace("\n", " ")[:300], flush=True)
            seconds = math.nan
        print(f"{_SECONDS}{seconds}", flush=True)


_numbers: Iterator[int] = iter(range(1_000_000))


def _prepared(spark: SparkSession, variant: str, work: str, path: str) -> Callable[[], object]:
    """What is timed; what comes before is done here."""
    if "scan " in work:
        kind, query = work.split("scan ")
        frame = spark.read.format("parquet" if kind else "delta").load(path)
        return lambda: _SCANS[query](frame)
    number = next(_numbers)
    if work in ("new", "same", "another"):
        root, condition = path, "id = -1" if work == "same" else f"id = {-2 - number}"
        if work == "new":
            root = f"{path}-{variant}-{os.getpid()}-{number}"
            shutil.copytree(path, root)
        return lambda: spark.read.format("delta").load(root).where(condition).count()
    root = f"{path}/small-{variant}-{os.getpid()}"
    if not Path(root).exists():
        spark.range(100, numPartitions=1).write.format("delta").save(root)
    return {
        "count": lambda: spark.read.format("delta").load(root).count(),
        "append": lambda: spark.range(1, numPartitions=1).write.format("delta").mode("append").save(root),
        "insert": lambda: spark.sql(f"INSERT INTO delta.`{root}` VALUES {TEN_ROWS}"),
        "delete": lambda: spark.sql(f"DELETE FROM delta.`{root}` WHERE id = {number % 100}"),
    }[work]


def _tables(spark: SparkSession, folder: Path, rows: int, files: list[int]) -> None:
    from benchmarks._lineitem import make_lineitem  # noqa: PLC0415
    from benchmarks.open_table import make_log  # noqa: PLC0415

    make_lineitem(spark, folder / "lineitem", rows)
    shutil.copytree(folder / "lineitem", folder / "hidden")
    spark.sql(f"DELETE FROM delta.`{folder}/hidden` WHERE pmod(hash(l_orderkey, l_linenumber, 9), 100) = 0")
    for count in files:
        make_log(folder / f"log-{count}", files=count, commits=0)


if __name__ == "__main__":
    main()
