"""Statistics that a checkpoint holds as columns, as JSON. See "Per-file Statistics"."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import msgspec
import pyarrow as pa

_ROWS_AT_ONCE = 10_000


def statistics_json(parsed: pa.StructArray) -> pa.Array:
    """The JSON of each row of a `stats_parsed` column; null where there are no statistics."""
    texts: list[str | None] = []
    for start in range(0, len(parsed), _ROWS_AT_ONCE):
        texts += [_json_of(row) for row in parsed.slice(start, _ROWS_AT_ONCE).to_pylist()]
    return pa.array(texts, pa.string())


def _json_of(row: dict[str, Any] | None) -> str | None:
    present = _present(row)
    return None if not present else _ENCODER.encode(present).decode()


def _present(value: Any) -> Any:
    """Without nulls, which mean that there is no such statistic."""
    if isinstance(value, dict):
        fields = {name: _present(nested) for name, nested in value.items()}
        return {name: nested for name, nested in fields.items() if nested is not None and nested != {}}
    if isinstance(value, datetime.datetime):
        return _timestamp(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return None
    return value


def _timestamp(value: datetime.datetime) -> str:
    """In milliseconds, the unit of statistics; whoever skips by them allows for what was cut off."""
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text if value.tzinfo is None else f"{text}Z"


def _encode(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return value
    raise TypeError(f"{type(value).__name__} is no statistic")


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_encode)
