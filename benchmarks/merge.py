"""MERGE: upserts in a row, and the shapes that are special, against delta-spark's jar on the same files.

    python -m benchmarks merge [--rows 6000000] [--rounds 3]

The table is much like `lineitem` of TPC-H. Each upsert changes 3 % of its rows and adds 1 %. Every round works on a
fresh copy of one table. With `ANABRANCH_JARS` naming the jars, as `scripts/test_jar.sh` sets it, and PySpark 4.2, the
same copies are merged by delta-spark in a process of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from anabranch.tables import DeltaMergeBuilder, DeltaTable
from benchmarks._comparison import Timings, compare, on_copies, seconds_of
from benchmarks._lineitem import FILES, LINEITEM, make_lineitem

UPSERTS = 10
_ON = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
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
    "all match and 1 % new": (
        "refresh",
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda merging: merging.whenMatchedUpdateAll().whenNotMatchedInsertAll(),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    compare(parser, program="merge", make_tables=make_tables, ours=by_anabranch, theirs=by_delta)


def make_tables(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> str:
    """The table, and the sources beside it as plain Parquet."""
    rows: int = arguments.rows
    make_lineitem(spark, folder / "lineitem", rows)
    for number in range(UPSERTS):
        changed = spark.range(0, rows, 1, 2).where(f"pmod(hash(id, {number}), 100) < 3")
        begin = rows + number * rows // 100
        both = changed.union(spark.range(begin, begin + rows // 100, 1, 1))
        both.selectExpr(*LINEITEM).write.parquet(str(folder / f"upsert-{number}"))
    missing = spark.range(0, rows, 1, 2).where("pmod(hash(id), 100) < 4").selectExpr(*LINEITEM)
    # Between the numbers that there are, so that no file is left out for its smallest and largest values.
    missing.withColumn("l_linenumber", lit(3)).write.parquet(str(folder / "nowhere"))
    everything = spark.range(0, rows, 1, 2).selectExpr(*LINEITEM)
    everything.select("l_orderkey", "l_linenumber", "l_quantity").write.parquet(str(folder / "everything"))
    refresh = spark.range(0, rows + rows // 100, 1, 2).selectExpr(*LINEITEM)
    refresh.write.parquet(str(folder / "refresh"))
    return f"{rows:,} rows in {FILES} files, deletion vectors on"


def measured(folder: Path, rounds: int, variant: str, merge: Callable[[str, str, str], object]) -> Timings:
    """All works; `merge` takes the table, the source and the name of the shape, empty for an upsert."""
    table = folder / "lineitem"

    def upsert_in_a_row(path: str) -> list[float]:
        return [seconds_of(lambda n=n: merge(path, str(folder / f"upsert-{n}"), "")) for n in range(UPSERTS)]  # type: ignore[misc]

    upserts = on_copies(table, rounds, upsert_in_a_row)
    timings = {
        f"{UPSERTS} upserts": [sum(seconds) for seconds in upserts],
        "first upsert": [seconds[0] for seconds in upserts],
        "last upsert": [seconds[-1] for seconds in upserts],
    }
    for shape, (source, _, _) in SHAPES.items():
        timings[shape] = on_copies(
            table,
            rounds,
            lambda path, source=source, shape=shape: seconds_of(lambda: merge(path, str(folder / source), shape)),  # type: ignore[misc]
        )
    return {work: {variant: seconds} for work, seconds in timings.items()}


def by_anabranch(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    def merge(path: str, source: str, shape: str) -> None:
        merging = DeltaTable.forPath(spark, path).alias("t").merge(spark.read.parquet(source).alias("s"), _ON)
        if shape:
            SHAPES[shape][2](merging).execute()
        else:
            merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return measured(folder, rounds, "anabranch", merge)


def by_delta(spark: SparkSession, folder: Path, rounds: int) -> Timings:
    def merge(path: str, source: str, shape: str) -> None:
        clauses = SHAPES[shape][1] if shape else "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        spark.sql(f"MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON {_ON} {clauses}").collect()

    return measured(folder, rounds, "delta-spark", merge)


if __name__ == "__main__":
    main()
