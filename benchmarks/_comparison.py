"""anabranch beside delta-spark's jar: each in a process of its own, on the same files, in one table of figures."""

from __future__ import annotations

import argparse
import contextlib
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
from typing import TypeVar

import pyspark
from pyspark.sql import SparkSession

import anabranch

T = TypeVar("T")
Timings = dict[str, dict[str, list[float]]]
"""Seconds of the rounds, by work and variant."""
ROOT = Path(__file__).parents[1]
JARS = "ANABRANCH_JARS"
_BY_DELTA = "--by-delta"
_TIMINGS = "@timings "
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def compare(
    parser: argparse.ArgumentParser,
    *,
    program: str,
    make_tables: Callable[[SparkSession, Path, argparse.Namespace], str],
    ours: Callable[[SparkSession, Path, int], Timings],
    theirs: Callable[[SparkSession, Path, int], Timings],
) -> None:
    """Measure both on tables made in a scratch folder, and print the figures.

    The parser knows `--rounds`. `make_tables` says what it made; `ours` and `theirs` take a session, the folder and
    the rounds.
    """
    parser.add_argument(_BY_DELTA, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_delta is not None:
        spark = session({"spark.jars": os.environ[JARS], **DELTA})
        print(_TIMINGS + json.dumps(theirs(spark, Path(arguments.by_delta), arguments.rounds)))
        return
    with _scratch() as folder:
        spark = anabranch.enable(session({}))
        made = make_tables(spark, folder, arguments)
        versions = f"Python {platform.python_version()}, PySpark {pyspark.__version__}"
        print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}; driver memory 3g, local[2]")
        print(f"{made}; {arguments.rounds} rounds\n")
        timings = ours(spark, folder, arguments.rounds)
        spark.stop()
        report(merged(timings, _by_delta(program, folder, arguments.rounds)))


def session(extra: dict[str, str]) -> SparkSession:
    """A session on two cores, the same for all that are compared."""
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


def on_copies(table: Path, rounds: int, run: Callable[[str], T]) -> list[T]:
    """What `run` gives for fresh copies of the table; the first, which warms up, does not count."""
    results = []
    for number in range(rounds + 1):
        copy = table.with_name(f"{table.name}-copy")
        shutil.copytree(table, copy)
        result = run(str(copy))
        if number:
            results.append(result)
        shutil.rmtree(copy)
    return results


def seconds_of(run: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def merged(*parts: Timings) -> Timings:
    """One table of figures made of several."""
    timings: Timings = {}
    for work, variants in itertools.chain.from_iterable(part.items() for part in parts):
        timings.setdefault(work, {}).update(variants)
    return timings


def report(timings: Timings) -> None:
    """Print the figures, seconds unless the work says otherwise, with the ratio of each to anabranch's."""
    print("| work | variant | median | least | most | to anabranch |\n|---|---|---|---|---|---|")
    for work, variants in timings.items():
        ours = statistics.median(variants["anabranch"])
        for variant, seconds in variants.items():
            median = statistics.median(seconds)
            figures = f"{median:.3f} | {min(seconds):.3f} | {max(seconds):.3f} | {median / ours:.2f}"
            print(f"| {work} | {variant} | {figures} |")


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="anabranch-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _by_delta(program: str, folder: Path, rounds: int) -> Timings:
    """The jar's figures, from a process whose classpath it is on; none where there is no jar."""
    if not os.environ.get(JARS):
        print(f"delta-spark: not run ({JARS} is not set)\n")
        return {}
    command = [sys.executable, "-m", "benchmarks", program, _BY_DELTA, str(folder), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    line = next((line for line in done.stdout.splitlines() if line.startswith(_TIMINGS)), None)
    if line is None:
        print(f"delta-spark: failed: {done.stderr[-2000:]}\n")
        return {}
    timings: Timings = json.loads(line.removeprefix(_TIMINGS))
    return timings
