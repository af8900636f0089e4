"""OPTIMIZE of many small files, ZORDER BY and clustering, against plain Parquet on the same Spark and against
the jar of delta-spark.

    python -m benchmarks optimize [--files 1000] [--rows 2000000] [--rounds 5]

Every round works on a fresh copy of one table. With `ANABRANCH_JARS` naming the jars, as `scripts/test_jar.sh` sets
it, and PySpark 4.2, the same copies are optimized by delta-spark in a process of its own. "Row order unchecked" does
without the check that rows come in the order that the commit tells of.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.optimize.optimize_command import optimize, optimize_job
from anabranch.commands.optimize.rewrite_bins import rewrite_request
from anabranch.commands.table_access import table_at
from anabranch.spark.session.delta_session import DeltaSession
from benchmarks._comparison import Timings, compare, merged, on_copies, seconds_of

ZORDER_COLUMNS = ["k", "other"]
ZORDER_FILES = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    compare(parser, program="optimize", make_tables=make_tables, ours=by_anabranch_and_plain, theirs=by_delta)


def make_tables(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> str:
    files: int = arguments.files
    rows: int = arguments.rows
    for name, count in (("many", files), ("zorder", ZORDER_FILES), ("clustered", ZORDER_FILES)):
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
        writer = frame.write.format("delta")
        (writer.clusterBy(*ZORDER_COLUMNS) if name == "clustered" else writer).save(str(folder / name))
    return f"{rows:,} rows: {files} files to put together, {ZORDER_FILES} files to order, twice"


def rounds_of(folder: Path, name: str, rounds: int, run: Callable[[str], object]) -> list[float]:
    """Seconds of `run` on copies of a table."""
    return on_copies(folder / name, rounds, lambda path: seconds_of(lambda: run(path)))


def by_anabranch_and_plain(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    return merged(by_anabranch(spark, folder, rounds), by_plain(spark, folder, rounds))


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
        "clustering": {"anabranch": rounds_of(folder, "clustered", rounds, compact)},
        **row_order_check(delta, folder, rounds),
    }


def row_order_check(delta: DeltaSession, folder: Path, rounds: int) -> Timings:
    """The one bin of the table, written again and again: by all cores, by one, and without the check; in turns."""
    table = table_at(delta, str(folder / "zorder"))
    snapshot = table.latest()
    plan = optimize_job(table).plan(snapshot)
    (planned,) = plan.bins
    request = rewrite_request(table, snapshot, plan, planned)
    requests = {
        "anabranch": request,
        "one task": dataclasses.replace(request, tasks_max=1),
        "one task, row order unchecked": dataclasses.replace(request, tasks_max=1, row_counts=None),
    }
    seconds: dict[str, list[float]] = {name: [] for name in requests}
    for number in range(2 * rounds + 1):
        for name, request in requests.items():
            start = time.perf_counter()
            written = delta.engine.rewrite(request).written
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


def by_delta(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    by = ", ".join(ZORDER_COLUMNS)

    def run(clause: str) -> Callable[[str], object]:
        return lambda path: spark.sql(f"OPTIMIZE delta.`{path}`{clause}").collect()

    return {
        "OPTIMIZE": {"delta-spark": rounds_of(folder, "many", rounds, run(""))},
        "ZORDER BY": {"delta-spark": rounds_of(folder, "zorder", rounds, run(f" ZORDER BY ({by})"))},
        "clustering": {"delta-spark": rounds_of(folder, "clustered", rounds, run(""))},
    }


if __name__ == "__main__":
    main()
