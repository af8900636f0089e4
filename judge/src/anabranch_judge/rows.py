"""Rows, and conditions on them, as plain values."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Value = bool | int | float | str
Row = tuple[tuple[str, Value], ...]
"""The columns of a row that are not null, sorted by name. ADD COLUMN changes no row by that."""
Rows = Counter[Row]
Condition = Mapping[str, Any]
"""For each column the value that it equals (None for null), or a mapping of comparisons such as `{">": 3}`."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def row_of(columns: Mapping[str, Any]) -> Row:
    """The row with these values."""
    return tuple(sorted((name, plain(value)) for name, value in columns.items() if value is not None))


def plain(value: Any) -> Value:
    """A value as JSON can have it, so that values of files and of histories are comparable.

    Numbers, texts and booleans are themselves; dates and times are in the form of ISO 8601, decimals are texts, binary
    values are hexadecimal, and nested values are JSON.
    """
    if isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, sort_keys=True, default=str)
    return str(value)


def matches(row: Row, condition: Condition) -> bool:
    """Whether a row satisfies a condition. A comparison with null is false; equality with None is "is null"."""
    values = dict(row)
    for column, wanted in condition.items():
        value = values.get(column)
        if not isinstance(wanted, Mapping):
            if value != (None if wanted is None else plain(wanted)):
                return False
        elif value is None or not all(COMPARISONS[sign](value, plain(limit)) for sign, limit in wanted.items()):
            return False
    return True


def matching(rows: Rows, condition: Condition) -> Rows:
    """The rows that satisfy a condition."""
    return Counter({row: count for row, count in rows.items() if matches(row, condition)})


def key_of(row: Row, columns: Iterable[str]) -> Row:
    """The part of a row that identifies it."""
    names = set(columns)
    return tuple((name, value) for name, value in row if name in names)


def text_of(row: Row | Condition) -> str:
    """A row or a condition in words, such as `k = 3, v = 105`."""
    pairs = row.items() if isinstance(row, Mapping) else row
    parts = []
    for name, value in pairs:
        if isinstance(value, Mapping):
            parts += [f"{name} {sign} {limit!r}" for sign, limit in value.items()]
        else:
            parts.append(f"{name} is null" if value is None else f"{name} = {value!r}")
    return ", ".join(parts) or "all rows"
