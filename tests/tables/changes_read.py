"""A change data feed, as tests look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ADDS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
"""By how much a change makes the number of such rows grow."""


def feed(delta: SparkSession, path: str, **options: object) -> DataFrame:
    """The changes of the table, from its first version on unless the options say otherwise."""
    reader = delta.read.format("delta").option("readChangeFeed", "true")
    for name, value in (options or {"startingVersion": 0}).items():
        reader = reader.option(name, str(value))
    return reader.load(path)


def changes_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The changes without their times, by version and change."""
    columns = [name for name in frame.columns if name != "_commit_timestamp"]
    changes = [tuple(row) for row in frame.select(*columns).collect()]
    return sorted(changes, key=lambda row: (row[-1], row[-2], str(row)))


def replayed(changes: Sequence[tuple[Any, ...]], *, upto: int) -> Counter[tuple[Any, ...]]:
    """The rows that there are after each change up to a version was made, out of what `changes_of` gives."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for *row, change, version in changes:
        if version <= upto:
            rows[tuple(row)] += ADDS[change]
    return Counter({row: count for row, count in rows.items() if count})
