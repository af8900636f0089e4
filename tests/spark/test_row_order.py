"""Which file a row goes to, and that Spark computes the keys that we do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from anabranch.spark.layout.hilbert import HilbertOrder
from anabranch.spark.layout.range_numbers import quantiles
from anabranch.spark.layout.row_order import stretches
from anabranch.spark.layout.zorder_keys import ZOrder


@given(keys=st.lists(st.integers(0, 30), min_size=1, max_size=200), files=st.integers(2, 12))
def test_keys_are_divided_evenly(keys: list[int], files: int) -> None:
    """Files are in order, a key that fills several is spread over these, and none gets much more than its share."""
    sample = np.array(keys, dtype=np.int64)
    parts = stretches(sample, quantiles(pa.array(sample), files))
    assert [part.start for part in parts] == sorted({part.start for part in parts})
    assert parts[-1].file == files - 1
    rows = np.zeros(files)
    for key in sorted(set(keys)):
        count = keys.count(key)
        reached = [part for part in parts if part.start <= key]
        here = reached[-1] if reached else None
        if here is None or here.start != key or not here.width:
            rows[here.file if here else 0] += count
            continue
        assert here.width == pytest.approx(count * files / len(keys))
        edges = [
            here.first,
            *range(int(here.first) + 1, int(np.ceil(here.first + here.width))),
            here.first + here.width,
        ]
        for start, end in zip(edges, edges[1:], strict=False):
            rows[min(int(start), files - 1)] += count * (end - start) / here.width
    assert rows.sum() == pytest.approx(len(keys))
    assert rows.max() <= 3 * len(keys) / files + 1


@pytest.mark.spark
@pytest.mark.parametrize(("dimensions", "bits"), [(2, 5), (3, 3), (7, 1)])
@pytest.mark.parametrize("curve", [HilbertOrder(), ZOrder()], ids=["Hilbert", "Z"])
def test_spark_computes_the_same_keys(
    spark: SparkSession, curve: HilbertOrder | ZOrder, dimensions: int, bits: int
) -> None:
    names = [f"c{dimension}" for dimension in range(dimensions)]
    points = 1 << dimensions * bits
    frame = spark.range(points).selectExpr(
        *(f"cast(id >> {bits * dimension} & {(1 << bits) - 1} AS int) {name}" for dimension, name in enumerate(names))
    )
    table = curve.with_key(frame, names, bits, "key").toArrow()
    due = curve.keys([table[name].to_numpy().astype(np.int64) for name in names], bits)
    assert table["key"].to_pylist() == due.tolist()
    assert len(set(due.tolist())) == points
