"""What the values of a MERGE's source say about the table's rows."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.conditions.key_filter import KEYS_MAX, KeyFilter
from anabranch.spark.conditions.user_condition import JoinKey
from anabranch.spark.rows.cached_rows import Size, in_few_tasks, size_of

VALUES_MAX = 100
"""Of up to so many rows of a source the single values of a key are used, not only its bounds."""
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = range(-719_162, 2_932_897)
"""The days that a Python date can be."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceFacts:
    """Facts about the rows of a source."""

    num_rows: int
    bounds: tuple[Column, ...]
    """Conditions on the table's columns, true for every row that can equal a row of the source in all keys."""
    matches_nothing: bool
    """Whether no row of the table can equal a row of the source in all keys."""
    row_conditions: tuple[Column, ...] = ()
    """The same on columns of the table alone, which are read cheaply and never fail."""
    has_key_filter: bool = False
    """Whether hardly any other row passes the `row_conditions`."""


def measure(source: DataFrame, keys: Sequence[JoinKey], *, partition_columns: Sequence[str] = ()) -> SourceFacts:
    """Count the rows and find the bounds of the keys. This evaluates the source, unless the driver has its rows."""
    bounded = [key for key in keys if _encoded(key.source, key.data_type) is not None]
    encoded = [value for key in bounded if (value := _encoded(key.source, key.data_type)) is not None]
    size = size_of(source)
    row = _aggregates_of_rows(source, encoded) if size is Size.LOCAL else _aggregates(source, encoded, size)
    num_rows = int(row["num_rows"])
    if 0 < num_rows <= VALUES_MAX and size is not Size.LOCAL:
        # A second job over few rows. Of many rows an aggregate of single values would take longer than all others.
        row = _aggregates_of_rows(source, encoded)
    if num_rows == 0:
        return SourceFacts(num_rows=0, bounds=(), matches_nothing=True)
    bounds: list[tuple[JoinKey, Column]] = []
    for i, key in enumerate(bounded):
        few = row[f"values{i}"] if num_rows <= VALUES_MAX else _few_values(source, key, partition_columns)
        condition = _condition(key, row[f"min{i}"], row[f"max{i}"], few)
        if condition is None and not key.null_safe:
            return SourceFacts(num_rows=num_rows, bounds=(), matches_nothing=True)
        if key.null_safe and row[f"count{i}"] < num_rows:
            condition = key.target.isNull() if condition is None else condition | key.target.isNull()
        if condition is not None:
            bounds.append((key, condition))
    return SourceFacts(
        num_rows=num_rows,
        bounds=tuple(condition for _, condition in bounds),
        matches_nothing=False,
        row_conditions=tuple(condition for key, condition in bounds if key.column is not None),
    )


def with_key_filter(facts: SourceFacts, source: DataFrame, keys: Sequence[JoinKey]) -> SourceFacts:
    """The facts of a source with a filter of its keys, which takes a job, where that can be had."""
    filtered = [key for key in keys if key.column is not None and _encoded(key.source, key.data_type) is not None]
    if not filtered or facts.num_rows > KEYS_MAX:
        return facts
    key_filter = KeyFilter(source, [key.source for key in filtered])
    condition = key_filter.may_have([key.target for key in filtered])
    return dataclasses.replace(facts, row_conditions=(*facts.row_conditions, condition), has_key_filter=True)


def _aggregates(source: DataFrame, encoded: Sequence[Column], size: Size) -> dict[str, Any]:
    """The number of rows; of each value that is not NULL number, minimum and maximum."""
    keys = [value.alias(f"k{i}") for i, value in enumerate(encoded)]
    values = in_few_tasks(source.select(F.lit(True), *keys), size)
    return values.selectExpr(*_aggregates_of_values(len(encoded))).collect()[0].asDict()


def _aggregates_of_values(count: int) -> list[str]:
    aggregates = ["count(1) AS num_rows"]
    for i in range(count):
        aggregates += [
            f"count(k{i}) AS count{i}",
            f"min(k{i}) AS min{i}",
            f"max(k{i}) AS max{i}",
        ]
    return aggregates


def _aggregates_of_rows(source: DataFrame, encoded: Sequence[Column]) -> dict[str, Any]:
    """The same as `_aggregates` and all values, computed here from rows that the driver has, or that are few."""
    rows = source.select(F.lit(True), *encoded).collect()
    aggregates: dict[str, Any] = {"num_rows": len(rows)}
    for i in range(len(encoded)):
        values = [row[i + 1] for row in rows if row[i + 1] is not None]
        low, high = min(values, default=None), max(values, default=None)
        aggregates |= {f"count{i}": len(values), f"min{i}": low, f"max{i}": high, f"values{i}": set(values)}
    return aggregates


def _few_values(source: DataFrame, key: JoinKey, partition_columns: Sequence[str]) -> list[Any] | None:
    """The values of a key that is a partition column; None where they are too many to choose single partitions."""
    if key.column is None or key.column not in partition_columns:
        return None
    value = _encoded(key.source, key.data_type)
    assert value is not None
    rows = source.select(value.alias("k")).where("k IS NOT NULL").distinct().limit(VALUES_MAX + 1).collect()
    return None if len(rows) > VALUES_MAX else [row[0] for row in rows]


def _condition(key: JoinKey, low: Any, high: Any, few: Sequence[Any] | None) -> Column | None:
    """The condition on rows of the table that can equal one of the values; None where the source has no values."""
    if low is None:
        return None
    if few is not None:
        return key.target.isin([_literal(value, key) for value in sorted(few)])
    return (key.target >= _literal(low, key)) & (key.target <= _literal(high, key))


def _encoded(value: Column, data_type: str) -> Column | None:
    """The value in a type that Python reads without a time zone; None for types whose bounds are not used."""
    if data_type in _WHOLE_NUMBERS or data_type == "string" or data_type.startswith("decimal("):
        return value
    if data_type == "date":
        return F.unix_date(value)
    return F.unix_micros(value) if data_type == "timestamp" else None


def _literal(value: int | str | Decimal, key: JoinKey) -> Column:
    """The value that `_encoded` has read, in the type of the key."""
    if key.data_type == "date":
        assert isinstance(value, int)
        exact = F.date_from_unix_date(F.lit(value))
        return F.lit(_EPOCH + datetime.timedelta(days=value)) if value in _DAYS else exact
    if key.data_type == "timestamp":
        return F.timestamp_micros(F.lit(value).cast("bigint"))
    return F.lit(value)
