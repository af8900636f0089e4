"""The dictionaries of column values that Delta's Python API takes."""

from __future__ import annotations

from pyspark.sql import Column

ColumnMapping = dict[str, str | Column]


def column_values(given: ColumnMapping | None, *, argument: str) -> ColumnMapping:
    """The dictionary, checked. Raises `TypeError` and `ValueError`, as Delta's API does."""
    if given is None:
        raise ValueError(f"{argument} cannot be None")
    if not isinstance(given, dict):
        raise TypeError(f"{argument} must be a dict of column names and values, got {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"Keys of dict in {argument} must contain only strings, found {name!r}")
        if not isinstance(value, str | Column):
            raise TypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings with SQL, found {value!r}"
            )
    return given


def condition_or_none(given: str | Column | None, *, argument: str = "condition") -> str | Column | None:
    """The condition, checked. Raises `TypeError`, as Delta's API does."""
    if given is not None and not isinstance(given, str | Column):
        raise TypeError(f"{argument} must be a Spark SQL Column or a string with SQL, got {type(given).__name__}")
    return given
