"""A program that stops Spark while rows are kept, which are then released: `stopped_meanwhile.py FOLDER`."""

from __future__ import annotations

from start import started

import anabranch
from anabranch.spark.rows.cached_rows import cache_rows, materialize, release

spark = anabranch.enable(started())
numbers = spark.range(0, 50_000, 1, 4)
kept = [cache_rows(numbers), cache_rows(numbers, as_rows=True), materialize(numbers.selectExpr("id", "rand() AS n"))]
assert [rows.frame.count() for rows in kept] == [50_000] * 3
spark.stop()
release(kept)
print("done", flush=True)
