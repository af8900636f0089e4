"""What keeps tables from many small files: automatic compaction and optimized writes, on and off, against delta-spark.

    python -m benchmarks small_files [--appends 60] [--rounds 3]

Seconds, and the number of files that the table has in the end. The appends put one file each into the table, which is
compacted after the 50th; the write has 16 tasks, each with rows for all of 20 partitions. With `ANABRANCH_JARS` naming
the jars, as `scripts/test_jar.sh` sets it, and PySpark 4.2, delta-spark does the same in a process of its own.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks._comparison import Timings, compare, seconds_of

_APPENDS = "appends"
TASKS, PARTITIONS, ROWS = 16, 20, 400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    compare(
        parser,
        program="small_files",
        make_tables=make_tables,
        ours=lambda spark, folder, rounds: by(spark, folder, rounds, "anabranch"),
        theirs=lambda spark, folder, rounds: by(spark, folder, rounds, "delta-spark"),
    )


def make_tables(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> str:
    (folder / _APPENDS).write_text(str(arguments.appends))
    rows = spark.range(0, ROWS, 1, TASKS).selectExpr("id", f"pmod(hash(id), {PARTITIONS}) AS part", "id * 0.5D AS x")
    rows.write.parquet(str(folder / "rows"))
    return f"{arguments.appends} appends of 1,000 rows; {ROWS:,} rows of {TASKS} tasks into {PARTITIONS} partitions"


def by(spark: SparkSession, folder: Path, rounds: int, variant: str) -> Timings:
    appends = int((folder / _APPENDS).read_text())
    timings: Timings = {}
    for number in range(rounds + 1):
        for compacts in (False, True):
            append_often(
                spark, folder / "table", appends, compacts=compacts, into=timings if number else {}, by=variant
            )
        for optimizes in (False, True):
            write_once(spark, folder, optimizes=optimizes, into=timings if number else {}, by=variant)
    return timings


def append_often(spark: SparkSession, table: Path, appends: int, *, compacts: bool, into: Timings, by: str) -> None:
    rows = spark.range(0, 1000, 1, 1).selectExpr("id", "id * 0.5D AS x")

    def run() -> None:
        for _ in range(appends):
            rows.write.format("delta").mode("append").save(str(table))

    name = f"{appends} appends" + (", autoCompact" if compacts else "")
    spark.conf.set("spark.databricks.delta.autoCompact.enabled", str(compacts).lower())
    measure(spark, table, name, run, into, by)
    spark.conf.unset("spark.databricks.delta.autoCompact.enabled")


def write_once(spark: SparkSession, folder: Path, *, optimizes: bool, into: Timings, by: str) -> None:
    # As many tasks as files, each with rows for every partition.
    rows = spark.read.parquet(str(folder / "rows"))
    spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    table = folder / "table"

    def run() -> None:
        writer = rows.write.format("delta").partitionBy("part").option("optimizeWrite", str(optimizes).lower())
        writer.save(str(table))

    measure(spark, table, "partitioned write" + (", optimizeWrite" if optimizes else ""), run, into, by)


def measure(spark: SparkSession, table: Path, name: str, run: Callable[[], None], into: Timings, by: str) -> None:
    """Seconds and files of what makes a table, which goes again."""
    into.setdefault(name, {}).setdefault(by, []).append(seconds_of(run))
    files = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").first()
    assert files is not None
    into.setdefault(f"{name}: files", {}).setdefault(by, []).append(files["numFiles"])
    shutil.rmtree(table)


if __name__ == "__main__":
    main()
