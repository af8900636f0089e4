"""MERGE: upserts in a row, and the shapes that are special, against delta-spark's jar on the same files.

    python -m benchmarks merge [--rows 6000000] [--rounds 3]

The table is much like `lineitem` of TPC-H. Each upsert changes 3 % of its rows and adds 1 %. Every round works on a
fresh copy of one table. With `ANABRANCH_JARS` naming the jars, as `scripts/test_jar.sh` sets it, and PySpark 4.2, the
same copies are merged by delta-spark in a process of its own.
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
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

import anabranch
from anabranch.tables import DeltaMergeBuilder, DeltaTable

FILES = 16
UPSERTS = 10
_BY_DELTA = "--by-delta"
_TIMINGS = "@timings "
_COLUMNS = (
    "id DIV 4 AS l_orderkey",
    "CAST(IF(id % 4 = 3, 4, id % 4) AS INT) AS l_linenumber",
    "pmod(hash(id), 200000) AS l_partkey",
    "pmod(hash(id, 1), 10000) AS l_suppkey",
    "CAST(id % 50 AS DECIMAL(12,2)) AS l_quantity",
    "CAST(pmod(hash(id, 2), 9000000) / 100 AS DECIMAL(12,2)) AS l_extendedprice",
    "CAST(id % 11 / 100 AS DECIMAL(12,2)) AS l_discount",
    "CAST(id % 9 / 100 AS DECIMAL(12,2)) AS l_tax",
    "substr('ANR', CAST(id % 3 + 1 AS INT), 1) AS l_returnflag",
    "IF(id % 2 = 0, 'O', 'F') AS l_linestatus",
    "date_add(DATE'1992-01-01', CAST(pmod(hash(id, 3), 2500) AS INT)) AS l_shipdate",
    "date_add(DATE'1992-02-01', CAST(pmod(hash(id, 4), 2500) AS INT)) AS l_commitdate",
    "date_add(DATE'1992-03-01', CAST(pmod(hash(id, 5), 2500) AS INT)) AS l_receiptdate",
    "IF(id % 4 = 0, 'DELIVER IN PERSON', 'COLLECT COD') AS l_shipinstruct",
    "element_at(array('AIR', 'MAIL', 'RAIL', 'SHIP', 'TRUCK'), CAST(id % 5 + 1 AS INT)) AS l_shipmode",
    "concat('comment ', hex(hash(id, 6)), ' of ', id % 1000) AS l_comment",
)
_ON = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
Timings = dict[str, dict[str, list[float]]]
"""Seconds of the rounds, by work and variant."""
Shape = tuple[str, str, Callable[[DeltaMergeBuilder], DeltaMergeBuilder]]
"""The source, and the clauses in SQL and through the API."""

SHAPES: dict[str, Shape] = {
    "insert only, 3 % there and 1 % new": (
        "upsert-0",
        "WHEN NOT MATCHED THEN INSERT *",
        lambda merging: merging.whenNotMatchedInsertAll(),
    ),
    "delete only, 3 %": ("upsert-1", "WHEN MATCHED THEN DELETE", lambda merging: merging.whenMatchedDelete()),
    "no match": (
        "nowhere",
        "WHEN MATCHED THEN UPDATE SET *",
        lambda merging: merging.whenMatchedUpdateAll(),
    ),
    "all match": (
        "everything",
        "WHEN MATCHED THEN UPDATE SET t.l_quantity = s.l_quantity",
        lambda merging: merging.whenMatchedUpdate(set={"l_quantity": "s.l_quantity"}),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(_BY_DELTA, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_delta is not None:
        print(_TIMINGS + json.dumps(by_delta(Path(arguments.by_delta), arguments.rounds)))
        return
    folder = Path(tempfile.mkdtemp(prefix="anabranch-benchmark-"))
    try:
        spark = anabranch.enable(session({}))
        make_tables(spark, folder, rows=arguments.rows)
        versions = f"Python {platform.python_version()}, PySpark {pyspark.__version__}"
        print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}; driver memory 3g, local[2]")
        print(f"{arguments.rows:,} rows in {FILES} files, deletion vectors on; {arguments.rounds} rounds\n")
        found = by_anabranch(spark, folder, arguments.rounds)
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


def make_tables(spark: SparkSession, folder: Path, *, rows: int) -> None:
    """The table, and the sources beside it as plain Parquet."""
    spark.range(0, rows, 1, FILES).selectExpr(*_COLUMNS).write.format("delta").save(str(folder / "lineitem"))
    for number in range(UPSERTS):
        changed = spark.range(0, rows, 1, 2).where(f"pmod(hash(id, {number}), 100) < 3")
        begin = rows + number * rows // 100
        both = changed.union(spark.range(begin, begin + rows // 100, 1, 1))
        both.selectExpr(*_COLUMNS).write.parquet(str(folder / f"upsert-{number}"))
    missing = spark.range(0, rows, 1, 2).where("pmod(hash(id), 100) < 4").selectExpr(*_COLUMNS)
    # Between the numbers that there are, so that no file is left out for its smallest and largest values.
    missing.withColumn("l_linenumber", lit(3)).write.parquet(str(folder / "nowhere"))
    everything = spark.range(0, rows, 1, 2).selectExpr(*_COLUMNS)
    everything.select("l_orderkey", "l_linenumber", "l_quantity").write.parquet(str(folder / "everything"))


def copies(folder: Path, rounds: int, run: Callable[[str], list[float]]) -> list[list[float]]:
    """What `run` gives for copies of the table; the first, which warms up, does not count."""
    found = []
    for number in range(rounds + 1):
        copy = folder / "copy"
        shutil.copytree(folder / "lineitem", copy)
        seconds = run(str(copy))
        if number:
            found.append(seconds)
        shutil.rmtree(copy)
    return found


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measured(folder: Path, rounds: int, variant: str, merge: Callable[[str, str, str], object]) -> Timings:
    """All works; `merge` takes the table, the source and the name of the shape, empty for an upsert."""
    upserts = copies(
        folder,
        rounds,
        lambda path: [timed(lambda n=n: merge(path, str(folder / f"upsert-{n}"), "")) for n in range(UPSERTS)],  # type: ignore[misc]
    )
    found = {
        f"{UPSERTS} upserts": [sum(each) for each in upserts],
        "first upsert": [each[0] for each in upserts],
        "last upsert": [each[-1] for each in upserts],
    }
    for shape, (source, _, _) in SHAPES.items():
        runs = copies(folder, rounds, lambda path, s=source, w=shape: [timed(lambda: merge(path, str(folder / s), w))])  # type: ignore[misc]
        found[shape] = [seconds for (seconds,) in runs]
    return {work: {variant: seconds} for work, seconds in found.items()}


def by_anabranch(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    def merge(path: str, source: str, shape: str) -> None:
        merging = DeltaTable.forPath(spark, path).alias("t").merge(spark.read.parquet(source).alias("s"), _ON)
        if shape:
            SHAPES[shape][2](merging).execute()
        else:
            merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return measured(folder, rounds, "anabranch", merge)


def by_delta(folder: Path, rounds: int) -> Timings:
    spark = session(
        {
            "spark.jars": os.environ["ANABRANCH_JARS"],
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    )

    def merge(path: str, source: str, shape: str) -> None:
        clauses = SHAPES[shape][1] if shape else "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        spark.sql(f"MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON {_ON} {clauses}").collect()

    return measured(folder, rounds, "delta-spark", merge)


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
