"""Dates and times in the forms of statistics, for many files at once. Text that does not parse becomes null."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_DATE = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)$"


def days_of(column: pa.Array) -> pa.Array:
    """Days since 1970-01-01 as int64, from dates or their text."""
    if _is_text(column.type):
        # A column that was a timestamp is never a date today, but the text of one would parse as its day.
        column = _parsed(_where(column, _DATE), pa.date32())
    if pa.types.is_date32(column.type):
        return pc.cast(pc.cast(column, pa.int32()), pa.int64())
    return pa.nulls(len(column), pa.int64())


def micros_of(column: pa.Array, *, zoned: bool) -> pa.Array:
    """Microseconds as int64, from timestamps or their text: since the epoch, or on the wall if not `zoned`.

    Text of a `zoned` timestamp must name its offset; without one the moment is unknown.
    """
    if _is_text(column.type):
        if zoned:
            column = _parsed(_where(column, _TIME + _ZONE), pa.timestamp("us", "UTC"))
        else:
            # A date that was widened to a timestamp without zone left its day in older statistics.
            on_wall = pc.replace_substring_regex(column, "Z$", "")
            column = _parsed(_where(on_wall, f"({_DATE})|({_TIME}$)"), pa.timestamp("us"))
    if pa.types.is_date32(column.type) and not zoned:
        column = pc.cast(column, pa.timestamp("us"))
    if pa.types.is_timestamp(column.type):
        try:
            return pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz), safe=False), pa.int64())
        except pa.ArrowInvalid:
            return pa.nulls(len(column), pa.int64())
    return pa.nulls(len(column), pa.int64())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _where(column: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(column, pattern), column, None)


def _parsed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(column, kind)
    except pa.ArrowInvalid:
        # One date that does not exist must not take the bounds from other files.
        return _parsed_one_by_one(column, lambda text: pc.cast(pa.scalar(text), kind), kind)


def _parsed_one_by_one(column: pa.Array, parse: Callable[[str], pa.Scalar], kind: pa.DataType) -> pa.Array:
    parsed: dict[str, pa.Scalar | None] = {}
    for text in pc.unique(column).drop_null().to_pylist():
        try:
            parsed[text] = parse(text).as_py()
        except pa.ArrowInvalid:
            parsed[text] = None
    return pa.array([None if text is None else parsed[text] for text in column.to_pylist()], kind)
