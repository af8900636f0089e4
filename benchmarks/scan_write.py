"""Scans and writes of data files against plain Parquet on the same Spark, and plans over many files.

    python benchmarks/scan_write.py [--rows 20000000] [--files 100000] [--rounds 7]

Prints a Markdown table: medians of rounds run in turn, with the fastest and the slowest, and the ratio to plain
Parquet. Nothing here needs a Delta log.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyspark
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import ScanRequest, WriteRequest
from anabranch.spark.native.native_engine import NativeEngine

FILES = 16
HIDDEN_SHARE = 0.01
SEED = 7


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of the rounds of one piece of work."""

    work: str
    variant: str
    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp(prefix="anabranch-benchmark-"))
    try:
        versions = f"Python {platform.python_version()}, PySpark {pyspark.__version__}"
        print(f"{platform.machine()}, {os.cpu_count()} cores, {versions}")
        print(
            f"{arguments.rows:,} rows in {FILES} files, {HIDDEN_SHARE:.0%} of each hidden; driver memory 4g, local[2]\n"
        )
        engine = NativeEngine(spark)
        report(writes(spark, engine, folder, rows=arguments.rows, rounds=arguments.rounds))
        report(scans(spark, engine, folder / "scanned", rows=arguments.rows, rounds=arguments.rounds))
        report(plans(engine, count=arguments.files, rounds=arguments.rounds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_of(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, FILES).selectExpr(
        "id",
        "id % 1000 AS k",
        "concat('name-', id % 100000) AS name",
        "id * 0.5D AS price",
        "cast(id % 50 AS decimal(12,2)) AS amount",
        "date_add(DATE'2020-01-01', cast(id % 1000 AS int)) AS day",
        "timestamp_micros(id * 1000000) AS at",
        "id * 3 AS other",
    )


def writes(spark: SparkSession, engine: NativeEngine, folder: Path, *, rows: int, rounds: int) -> list[Timing]:
    """Bulk: a fourth of the rows. Small: one row, where what surrounds the job is what is measured."""
    bulk, small = rows_of(spark, rows // 4), spark.range(1).toDF("id")

    def plain(frame: DataFrame) -> Callable[[], object]:
        return lambda: frame.write.option("compression", "snappy").parquet(tempfile.mkdtemp(dir=folder) + "/t")

    def ours(frame: DataFrame) -> Callable[[], object]:
        return lambda: write(engine, frame, Path(tempfile.mkdtemp(dir=folder)) / "t")

    timings = alternate("write, bulk", {"plain": plain(bulk), "anabranch": ours(bulk)}, rounds)
    return timings + alternate("write, one row", {"plain": plain(small), "anabranch": ours(small)}, 3 * rounds)


def scans(spark: SparkSession, engine: NativeEngine, root: Path, *, rows: int, rounds: int) -> list[Timing]:
    frame = rows_of(spark, rows)
    adds = write(engine, frame, root)
    generator = np.random.default_rng(SEED)
    count = rows // FILES
    per_file = int(count * HIDDEN_SHARE)
    vectors = {add.path: BitMap64(generator.choice(count, per_file, replace=False).tolist()) for add in adds}
    hidden = [with_vector(add, vectors) for add in adds]
    frames = {
        "plain": spark.read.parquet(str(root)),
        "anabranch": scan(engine, adds, root, frame.schema, {}),
        "anabranch, 1 % hidden": scan(engine, hidden, root, frame.schema, vectors),
        "anabranch, hidden in one file": scan(engine, [hidden[0], *adds[1:]], root, frame.schema, vectors),
    }
    queries: dict[str, Callable[[DataFrame], object]] = {
        "full scan": lambda f: f.write.format("noop").mode("overwrite").save(),
        "aggregate": lambda f: f.groupBy("k").agg(F.sum("price"), F.max("name"), F.sum("other")).collect(),
        "filtered scan": lambda f: f.where("k = 7 AND day < DATE'2021-01-01'").agg(F.sum("price")).collect(),
        "count": lambda f: f.count(),
    }
    return [
        timing
        for name, query in queries.items()
        for timing in alternate(name, {key: lambda f=f, q=query: q(f) for key, f in frames.items()}, rounds)
    ]


def plans(engine: NativeEngine, *, count: int, rounds: int) -> list[Timing]:
    """Nothing is read: all files are skipped, so that only planning is left."""
    schema = StructType().add("part", "long").add("id", "long")
    adds = [
        AddFile(
            path=f"part={n % 1000}/f-{n:08d}.parquet",
            partition_values={"part": str(n % 1000)},
            size=1000,
            modification_time=n,
            data_change=True,
        )
        for n in range(count)
    ]
    table = table_of_adds(adds)
    nothing = np.zeros(count, dtype=np.bool_)

    def request(files: object) -> ScanRequest:
        return ScanRequest(
            table_root="/nowhere", version=0, schema=schema, partition_columns=("part",),
            column_mapping=ColumnMappingMode.NONE, files=files,
            load_vectors=lambda many, **_: [BitMap64() for _ in many], prune=lambda _: nothing,
        )  # fmt: skip

    timings = []
    hand_over = []
    for number in range(rounds):
        # Another size makes it another list, which no cache knows.
        column = table.schema.get_field_index("size")
        resized = table.set_column(column, "size", [[number + n for n in range(count)]])
        start = time.perf_counter()
        engine.scan(request(resized))
        hand_over.append(time.perf_counter() - start)
    timings.append(Timing(f"{count:,} files", "hand over once", hand_over))
    frame = engine.scan(request(table))
    again = {
        "scan of files handed over": lambda: engine.scan(request(table)),
        "plan and run a query that skips all": lambda: frame.where("id = 5").count(),
        "the same, by partition": lambda: frame.where("part = 5 AND id = 5").count(),
    }
    return timings + alternate(f"{count:,} files", again, rounds)


def write(engine: NativeEngine, frame: DataFrame, root: Path) -> tuple[AddFile, ...]:
    request = WriteRequest(
        table_root=str(root), frame=frame, schema=frame.schema, partition_columns=(),
        column_mapping=ColumnMappingMode.NONE, properties=TableProperties({}),
    )  # fmt: skip
    return engine.write(request).adds


def scan(
    engine: NativeEngine,
    adds: list[AddFile] | tuple[AddFile, ...],
    root: Path,
    schema: StructType,
    vectors: dict[str, BitMap64],
) -> DataFrame:
    request = ScanRequest(
        table_root=str(root), version=0, schema=schema, partition_columns=(), column_mapping=ColumnMappingMode.NONE,
        files=table_of_adds(adds), load_vectors=lambda many, **_: [vectors[one.path_or_inline_dv] for one in many],
    )  # fmt: skip
    return engine.scan(request)


def with_vector(add: AddFile, vectors: dict[str, BitMap64]) -> AddFile:
    descriptor = DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=add.path, offset=1, size_in_bytes=1, cardinality=len(vectors[add.path])
    )
    return msgspec.structs.replace(add, deletion_vector=descriptor)


def alternate(work: str, variants: dict[str, Callable[[], object]], rounds: int) -> list[Timing]:
    """All variants in turn, round after round; the first round warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return [Timing(work, name, values) for name, values in seconds.items()]


def report(timings: list[Timing]) -> None:
    print("| work | variant | median s | fastest | slowest | to plain |\n|---|---|---|---|---|---|")
    plain = {timing.work: timing.median for timing in timings if timing.variant == "plain"}
    for timing in timings:
        ratio = f"{timing.median / plain[timing.work]:.2f}" if timing.work in plain else ""
        low, high = min(timing.seconds), max(timing.seconds)
        print(f"| {timing.work} | {timing.variant} | {timing.median:.3f} | {low:.3f} | {high:.3f} | {ratio} |")
    print(flush=True)


if __name__ == "__main__":
    main()
