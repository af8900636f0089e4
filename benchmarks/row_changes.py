"""DELETE and UPDATE of one order and of rows all over the table, against delta-spark's jar on the same files.

    python -m benchmarks row_changes [--rows 6000000] [--rounds 7]

The table is much like `lineitem` of TPC-H. Every round works on a fresh copy of it. With `ANABRANCH_JARS` naming the
jars, as `scripts/test_jar.sh` sets it, and PySpark 4.2, the same copies are changed by delta-spark in a process of its
own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks._comparison import Timings, compare, on_copies, seconds_of
from benchmarks._lineitem import FILES, make_lineitem

CONDITIONS = {
    "one order": "l_orderkey = 12345",
    "0.01 % of the rows": "pmod(hash(l_orderkey, l_linenumber), 10000) = 7",
    "1 % of the rows": "pmod(hash(l_orderkey, l_linenumber), 100) = 7",
    "half of the rows": "pmod(hash(l_orderkey, l_linenumber), 100) < 50",
    "all rows": "true",
}
STATEMENTS = {"DELETE": "DELETE FROM {}", "UPDATE": "UPDATE {} SET l_quantity = l_quantity + 1, l_comment = 'changed'"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    compare(parser, program="row_changes", make_tables=make_tables, ours=by_anabranch, theirs=by_delta)


def make_tables(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> str:
    make_lineitem(spark, folder / "lineitem", arguments.rows)
    return f"{arguments.rows:,} rows in {FILES} files, deletion vectors on"


def measured(spark: SparkSession, folder: Path, rounds: int, variant: str) -> Timings:
    def seconds(path: str, statement: str, condition: str) -> float:
        return seconds_of(lambda: spark.sql(f"{statement.format(f'delta.`{path}`')} WHERE {condition}").collect())

    return {
        f"{name}, {which}": {
            variant: on_copies(folder / "lineitem", rounds, lambda path, s=statement, c=condition: seconds(path, s, c))  # type: ignore[misc]
        }
        for name, statement in STATEMENTS.items()
        for which, condition in CONDITIONS.items()
    }


def by_anabranch(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    return measured(spark, folder, rounds, "anabranch")


def by_delta(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    return measured(spark, folder, rounds, "delta-spark")


if __name__ == "__main__":
    main()
