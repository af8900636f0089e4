"""Streams from tables: many rows in few batches, and small batches one after the other, beside delta-spark's jar.

    python -m benchmarks stream [--rows 10000000] [--commits 50] [--rounds 5]

With `ANABRANCH_JARS` naming the jars, as `scripts/test_jar.sh` sets it, and PySpark 4.2, the jar reads the same tables
in a process of its own. Rows go nowhere (`noop`), so that what is measured is the source and Spark itself.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks._comparison import Timings, compare, seconds_of

ROWS_FILES = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    compare(parser, program="stream", make_tables=make_tables, ours=by_anabranch, theirs=by_delta)


def make_tables(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> str:
    rows: int = arguments.rows
    columns = ["id", "pmod(hash(id), 100000) AS k", "concat('name-', id % 100000) AS name", "id * 0.5D AS price"]
    frame = spark.range(0, rows, 1, ROWS_FILES).selectExpr(*columns)
    frame.write.format("delta").save(str(folder / "rows"))
    for number in range(arguments.commits):
        frame = spark.range(number * 100, number * 100 + 100, 1, 1).selectExpr(*columns)
        frame.write.format("delta").mode("append").save(str(folder / "commits"))
    return f"{rows:,} rows in {ROWS_FILES} files; {arguments.commits} commits of 100 rows, a batch each"


def by_anabranch(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    return _read(spark, folder, rounds, "anabranch")


def by_delta(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    return _read(spark, folder, rounds, "delta-spark")


def _read(spark: SparkSession, folder: Path, rounds: int, variant: str) -> Timings:
    checkpoints = (str(folder / f"checkpoint-{variant}-{number}") for number in itertools.count())

    def run(table: str, **options: int) -> float:
        stream = spark.readStream.format("delta").options(**options).load(str(folder / table))
        writer = stream.writeStream.format("noop").option("checkpointLocation", next(checkpoints))
        return seconds_of(lambda: writer.trigger(availableNow=True).start().awaitTermination())

    works = {
        "many rows, 16 files a batch": lambda: run("rows", maxFilesPerTrigger=16),
        "a small commit a batch": lambda: run("commits", maxFilesPerTrigger=1, startingVersion=0),
    }
    # The first run warms up and does not count.
    return {work: {variant: [measure() for _ in range(rounds + 1)][1:]} for work, measure in works.items()}


if __name__ == "__main__":
    main()
