"""Rows that the driver keeps in place of a cache: which, and that statements are right on both sides of the limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.rows.cached_rows import Size, kept_if_small, size_of

pytestmark = pytest.mark.spark

ROWS_MAX = 10_000

SIZES: dict[str, tuple[Callable[[SparkSession], DataFrame], Size]] = {
    "values": (lambda spark: spark.sql("SELECT * FROM VALUES (1, 'a'), (2, NULL) AS x(id, v)"), Size.LOCAL),
    "a filter of values": (
        lambda spark: spark.sql("SELECT id + 1 FROM VALUES (1), (2) AS x(id) WHERE id > 1"),
        Size.LOCAL,
    ),
    "a range": (lambda spark: spark.range(10), Size.SMALL),
    "an aggregate": (lambda spark: spark.range(10).groupBy("id").count(), Size.SMALL),
    "a large range": (lambda spark: spark.range(1 << 30), Size.LARGE),
    "a function of the user": (lambda spark: spark.range(10).select(F.udf(lambda x: x, "long")("id")), Size.LARGE),
    "a sort": (lambda spark: spark.range(10).orderBy("id"), Size.LARGE),
    "rows of Python": (lambda spark: spark.createDataFrame([(1,)], "id INT"), Size.LARGE),
}


@pytest.mark.parametrize("title", SIZES)
def test_the_size_of_a_frame(delta: SparkSession, title: str) -> None:
    made, size = SIZES[title]
    frame = made(delta)
    assert size_of(frame) is size
    kept = kept_if_small(frame)
    assert (kept is None) == (size is Size.LARGE)
    if kept is not None:
        assert size_of(kept) is Size.LOCAL
        assert sorted(kept.collect()) == sorted(frame.collect())
        # Columns of the one name those of the other.
        assert kept.select(*(frame[name] for name in frame.columns)).schema == frame.schema


def test_kept_rows_stay_what_they_were(delta: SparkSession) -> None:
    """Covers race 42, as far as it shows here: a small source is evaluated once."""
    kept = kept_if_small(delta.range(100).select(F.rand().alias("r"), F.expr("uuid() AS u")))
    assert kept is not None
    assert kept.collect() == kept.collect()


@pytest.mark.parametrize("count", [ROWS_MAX, ROWS_MAX + 1])
def test_statements_on_both_sides_of_the_limit(delta: SparkSession, name: str, count: int) -> None:
    assert (kept_if_small(delta.range(count)) is None) == (count > ROWS_MAX)
    delta.sql(f"CREATE TABLE {name} (id LONG, v LONG) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT id, 0 FROM range({count} + 10)")
    updated = delta.sql(f"UPDATE {name} SET v = id WHERE id < {count}").collect()
    assert updated == [(count,)]
    source = (
        delta.range(10, count + 10).select("id", F.lit(-1).alias("v")).union(delta.range(-3, 0).selectExpr("id", "7"))
    )
    source.createOrReplaceTempView(f"{name}_source")
    merged = delta.sql(
        f"MERGE INTO {name} AS t USING {name}_source AS s ON t.id = s.id"
        " WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET v = s.v WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN UPDATE SET v = 50"
    ).collect()
    even = count // 2 + count % 2
    assert merged == [(count + 4, even + 1, count - even, 3)]
    expected = {id_: id_ for id_ in range(10)} | {5: 50} | {-1: 7, -2: 7, -3: 7}
    expected |= dict.fromkeys(range(10, count + 10, 2), -1)
    assert {row.id: row.v for row in delta.table(name).collect()} == expected


@pytest.mark.parametrize("condition", ["t.id = s.id", "t.id <=> s.id", "t.id > s.id - 1 AND t.id < s.id + 1"])
def test_a_small_merge_of_rows_that_are_null_or_there_twice(delta: SparkSession, name: str, condition: str) -> None:
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT * FROM VALUES (1L, 'a'), (NULL, 'b'), (3L, 'c') AS x(id, v)")
    source = "SELECT * FROM VALUES (1L, 'x'), (4L, 'y'), (4L, 'y'), (CAST(NULL AS LONG), 'z') AS x(id, v)"
    delta.sql(
        f"MERGE INTO {name} AS t USING ({source}) AS s ON {condition}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    null_safe = "<=>" in condition
    nulls = [(None, "z")] if null_safe else [(None, "b"), (None, "z")]
    rows = sorted((tuple(row) for row in delta.table(name).collect()), key=repr)
    assert rows == sorted([(1, "x"), (3, "c"), (4, "y"), (4, "y"), *nulls], key=repr)
