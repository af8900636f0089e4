"""Checks of the arguments of `DeltaTable`'s methods, with the messages of Delta's Python API."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from anabranch.commands.merge.merge_statement import MergeStatement
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.tables import CloneArgumentError

ColumnMapping = dict[str, str | Column]
"""Columns, as `a` or `s.x`, with their values."""

_EXPECTED: dict[type, str] = {str: "a string", bool: "a boolean", int: "an int", dict: "a dict"}


def check_type(argument: str, value: object, kind: type, expected: str) -> None:
    """Raises `InvalidArgumentError` unless the value is of that type. A bool is no int here."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        problem = f"{argument} needs to be {expected} but got '{type(value)}'"
        raise InvalidArgumentError(argument=argument, value=str(value), problem=problem)


def check_limit(limit: object) -> None:
    """Raises `InvalidArgumentError`."""
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        raise InvalidArgumentError(argument="limit", value=str(limit), problem="it must be a whole number above 0")


def check_retention(hours: object) -> None:
    """Raises `InvalidArgumentError`."""
    if hours is not None and (isinstance(hours, bool) or not isinstance(hours, int | float)):
        check_type("retentionHours", hours, float, "a number of hours")


def check_storage_settings(settings: dict[str, str]) -> None:
    """Raises `InvalidArgumentError` for a key of `hadoopConf` that is not for storage."""
    for key in settings:
        if not key.startswith(("fs.", "dfs.")):
            problem = "only settings that start with fs. or dfs. are accepted"
            raise InvalidArgumentError(argument="hadoopConf", value=key, problem=problem)


def check_clone_arguments(*, target: object, is_shallow: object, replace: object, properties: object) -> None:
    """Raises `CloneArgumentError`, which is also a `ValueError`."""
    check_clone_argument("target", target, str)
    check_clone_argument("isShallow", is_shallow, bool)
    check_clone_argument("replace", replace, bool)
    if properties is None:
        return
    check_clone_argument("properties", properties, dict)
    assert isinstance(properties, dict)
    for name, value in properties.items():
        check_clone_argument(f"All property keys including {name}", name, str)
        check_clone_argument(f"All property values including {value}", value, str)


def check_clone_argument(name: str, value: object, kind: type) -> None:
    """Raises `CloneArgumentError` unless `value` is of that type. A bool is no int here."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CloneArgumentError(argument=name, expected=_EXPECTED[kind], found=str(type(value)))


def column_values(values: ColumnMapping | None, *, argument: str) -> ColumnMapping:
    """The dictionary, checked. Raises `TypeError` and `ValueError`, as Delta's API does."""
    if values is None:
        raise ValueError(f"{argument} cannot be None")
    if not isinstance(values, dict):
        raise TypeError(f"{argument} must be a dict of column names and values, got {type(values).__name__}")
    for name, value in values.items():
        if not isinstance(name, str):
            raise TypeError(f"Keys of dict in {argument} must contain only strings, found {name!r}")
        if not isinstance(value, str | Column):
            raise TypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings with SQL, found {value!r}"
            )
    return values


def condition_or_none(condition: str | Column | None, *, argument: str = "condition") -> str | Column | None:
    """The condition, checked. Raises `TypeError`, as Delta's API does."""
    if condition is not None and not isinstance(condition, str | Column):
        raise TypeError(f"{argument} must be a Spark SQL Column or a string with SQL, got {type(condition).__name__}")
    return condition


def merge_statement(source: DataFrame, condition: str | Column) -> MergeStatement:
    """A MERGE without clauses, checked. Raises `TypeError` and `ValueError`, as Delta's API does."""
    if source is None:
        raise ValueError("'source' in merge cannot be None")
    if not isinstance(source, DataFrame):
        raise TypeError(f"Type of 'source' in merge must be DataFrame, got {type(source).__name__}")
    if condition is None:
        raise ValueError("'condition' in merge cannot be None")
    checked = condition_or_none(condition, argument="'condition' in merge")
    assert checked is not None
    return MergeStatement(source=source, condition=checked)
