"""Starting: what `import`, `enable` and the first query of a process add to Spark's own start.

    python benchmarks/start.py

makes a small table, then measures fresh processes that count its rows, beside the same over Parquet; medians with the
range. A session in use has run a query of Spark's own before: what Spark makes of a session at its first use is counted
there, and with `enable` otherwise. The compiled classes are kept from the first process on, as between any two starts
of one user.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import pyspark


def started() -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make(folder: str) -> None:
    """The table in both forms."""
    import anabranch  # noqa: PLC0415

    spark = anabranch.enable(started())
    spark.range(1000).write.format("delta").save(f"{folder}/delta")
    spark.range(1000).write.parquet(f"{folder}/parquet")
    spark.stop()


def count(folder: str, form: str) -> dict[str, float]:
    """Seconds of each step of one process."""
    source = form.partition(",")[0]
    before = time.perf_counter()
    spark = started()
    seconds = {"session": time.perf_counter() - before}
    if form == "delta, session in use":
        before = time.perf_counter()
        assert spark.range(1).count() == 1
        seconds["a query of Spark's own"] = time.perf_counter() - before
    if form != "parquet":
        before = time.perf_counter()
        from anabranch import enable  # noqa: PLC0415

        seconds["import"] = time.perf_counter() - before
        before = time.perf_counter()
        enable(spark)
        seconds["enable"] = time.perf_counter() - before
    for step in ("first count", "second count"):
        before = time.perf_counter()
        assert spark.read.format(source).load(f"{folder}/{source}").count() == 1000
        seconds[step] = time.perf_counter() - before
    spark.stop()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="processes for each form")
    parser.add_argument("--step", nargs=2, metavar=("FORM", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        form, folder = arguments.step
        if form == "make":
            make(folder)
        else:
            sys.stdout.write(json.dumps(count(folder, form)))
        return
    runs_of_forms: dict[str, list[dict[str, float]]] = {"delta": [], "delta, session in use": [], "parquet": []}
    with tempfile.TemporaryDirectory() as folder:
        _process("make", folder)
        for _ in range(arguments.runs):
            for form, runs in runs_of_forms.items():
                runs.append(json.loads(_process(form, folder)))
    print(f"PySpark {pyspark.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print("\n| seconds | Delta | Delta, session in use | Parquet |\n|---|---|---|---|")
    for step in runs_of_forms["delta, session in use"][0]:
        cells = (_cell([run[step] for run in runs if step in run]) for runs in runs_of_forms.values())
        print(f"| {step} | {' | '.join(cells)} |")


def _process(form: str, folder: str) -> str:
    command = [sys.executable, __file__, "--step", form, folder]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
