"""OPTIMIZE of many small files, and ZORDER BY, against plain Parquet on the same Spark and against delta-spark's jar.

    python -m benchmarks optimize [--files 1000] [--rows 2000000] [--rounds 5]

Every round works on a fresh copy of one table. With `ANABRANCH_JARS` naming the jars, as `scripts/test_jar.sh` sets
it, and PySpark 4.2, the same copies are optimized by delta-spark in a process of its own. "Row order unchecked" does
without the check that rows come in the order that the commit tells of.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

import anabranch
from anabranch.commands.optimize import optimize, optimize_work
from anabranch.commands.rewritten_bins import scan_of
from anabranch.commands.table_access import table_at
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.engine import RewriteRequest

ZORDER_COLUMNS = ["k", "other"]
ZORDER_FILES = 16
_BY_DELTA = "--by-delta"
_TIMINGS = "@timings "
Timings = dict[str, dict[str, list[float]]]
"""Seconds of the rounds, by work and variant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(_BY_DELTA, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_delta is not None:
        print(_TIMINGS + json.dumps(by_delta(Path(arguments.by_delta), arguments.rounds)))
        return
    folder = Path(tempfile.mkdtemp(prefix="anabranch-benchmark-"))
    try:
        spark = anabranch.enable(session({}))
        make_tables(spark, folder, files=arguments.files, rows=arguments.rows)
        versions = f"Python {platform.python_version()}, PySpark {pyspark.__version__}"
        print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}; driver memory 3g, local[2]")
        print(f"{arguments.rows:,} rows: {arguments.files} files to put together, {ZORDER_FILES} files to order\n")
        found = merged(by_anabranch(spark, folder, arguments.rounds), by_plain(spark, folder, arguments.rounds))
        spark.stop()
        if os.environ.get("ANABRANCH_JARS"):
            found = merged(found, in_a_process_of_its_own(folder, arguments.rounds))
        else:
            print("delta-spark: not run (ANABRANCH_JARS is not set)\n")
        report(found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def session(extra: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "4",
        **extra,
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, folder: Path, *, files: int, rows: int) -> None:
    for name, count in (("many", files), ("zorder", ZORDER_FILES)):
        frame = spark.range(0, rows, 1, count).selectExpr(
            "id",
            "pmod(hash(id), 100000) AS k",
            "concat('name-', id % 100000) AS name",
            "id * 0.5D AS price",
            "cast(id % 50 AS decimal(12,2)) AS amount",
            "date_add(DATE'2020-01-01', cast(id % 1000 AS int)) AS day",
            "timestamp_micros(id * 1000000) AS at",
            "pmod(hash(id, 1), 100000) AS other",
        )
        frame.write.format("delta").save(str(folder / name))


def rounds_of(folder: Path, name: str, rounds: int, run: Callable[[str], object]) -> list[float]:
    """Seconds of `run` on copies of a table; the first, which warms up, does not count."""
    seconds = []
    for number in range(rounds + 1):
        copy = folder / f"{name}-copy"
        shutil.copytree(folder / name, copy)
        start = time.perf_counter()
        run(str(copy))
        if number:
            seconds.append(time.perf_counter() - start)
        shutil.rmtree(copy)
    return seconds


def by_anabranch(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    delta = DeltaSession.of(spark)

    def compact(path: str) -> None:
        optimize(table_at(delta, path))
        delta.forget(path)

    def order(path: str) -> None:
        optimize(table_at(delta, path), zorder_by=ZORDER_COLUMNS)
        delta.forget(path)

    return {
        "OPTIMIZE": {"anabranch": rounds_of(folder, "many", rounds, compact)},
        "ZORDER BY": {"anabranch": rounds_of(folder, "zorder", rounds, order)},
        **row_order_check(delta, folder, rounds),
    }


def row_order_check(delta: DeltaSession, folder: Path, rounds: int) -> Timings:
    """The one bin of the table, written again and again, with and without the check; in turns."""
    table = table_at(delta, str(folder / "zorder"))
    snapshot = table.latest()
    plan = optimize_work(table).plan(snapshot)
    (planned,) = plan.bins
    counts = {"anabranch": plan.files.row_counts(planned.files), "row order unchecked": None}
    seconds: dict[str, list[float]] = {name: [] for name in counts}
    for number in range(2 * rounds + 1):
        for name, told in counts.items():
            scan = scan_of(table, snapshot, planned)
            start = time.perf_counter()
            written = delta.engine.rewrite(
                RewriteRequest(scan=scan, row_counts=told, properties=snapshot.properties)
            ).written
            if number:
                seconds[name].append(time.perf_counter() - start)
            for add in written.adds:
                os.unlink(f"{table.path}/{add.path}")
    return {"one bin": seconds}


def by_plain(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    """What a user without a table would do. There is no log to write, and nothing is durable."""

    def rewritten(frame: Callable[[DataFrame], DataFrame]) -> Callable[[str], None]:
        return lambda path: frame(spark.read.parquet(path)).write.mode("overwrite").parquet(f"{path}/new")

    return {
        "OPTIMIZE": {"plain": rounds_of(folder, "many", rounds, rewritten(lambda frame: frame.coalesce(1)))},
        "ZORDER BY": {
            "plain": rounds_of(
                folder, "zorder", rounds, rewritten(lambda frame: frame.repartition(1).sortWithinPartitions("k"))
            )
        },
    }


def by_delta(folder: Path, rounds: int) -> Timings:
    spark = session(
        {
            "spark.jars": os.environ["ANABRANCH_JARS"],
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    )
    by = ", ".join(ZORDER_COLUMNS)

    def run(clause: str) -> Callable[[str], object]:
        return lambda path: spark.sql(f"OPTIMIZE delta.`{path}`{clause}").collect()

    return {
        "OPTIMIZE": {"delta-spark": rounds_of(folder, "many", rounds, run(""))},
        "ZORDER BY": {"delta-spark": rounds_of(folder, "zorder", rounds, run(f" ZORDER BY ({by})"))},
    }


def in_a_process_of_its_own(folder: Path, rounds: int) -> Timings:
    command = [sys.executable, __file__, _BY_DELTA, str(folder), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith(_TIMINGS)), None)
    if line is None:
        print(f"delta-spark: failed: {done.stderr[-2000:]}\n")
        return {}
    found: Timings = json.loads(line.removeprefix(_TIMINGS))
    return found


def merged(*parts: Timings) -> Timings:
    found: Timings = {}
    for work, variants in itertools.chain.from_iterable(part.items() for part in parts):
        found.setdefault(work, {}).update(variants)
    return found


def report(found: Timings) -> None:
    print("| work | variant | median s | fastest | slowest | to anabranch |\n|---|---|---|---|---|---|")
    for work, variant, seconds, ours in _lines(found):
        median = statistics.median(seconds)
        ratio = f"{median / statistics.median(ours):.2f}"
        print(f"| {work} | {variant} | {median:.3f} | {min(seconds):.3f} | {max(seconds):.3f} | {ratio} |")


def _lines(found: Timings) -> Iterator[tuple[str, str, list[float], list[float]]]:
    for work, variants in found.items():
        for variant, seconds in variants.items():
            yield work, variant, seconds, variants["anabranch"]


if __name__ == "__main__":
    main()
