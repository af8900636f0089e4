"""The clock in a text, stopped: asked again, it means the same."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Collection, Sequence

from anabranch.predicates.sql_tokens import Token, tokenize

_CLOCKS = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp"})
_MAY_STAND_BARE = frozenset({"current_date", "current_timestamp", "localtimestamp"})


def stop_clock(text: str, *, columns: Collection[str], time_zone: str, now_ms: int) -> str:
    """`text` with the time it is for every built-in function that tells it. A column of that name stays one.

    `columns` are in small letters.
    """
    tokens = tokenize(text)
    pieces: list[str] = []
    at = 0
    for place, token in enumerate(tokens):
        name = token.word.lower()
        if name not in _CLOCKS or (place and tokens[place - 1].is_symbol(".")):
            continue
        called = _follows(tokens, place, "(") and _follows(tokens, place + 1, ")")
        if not called and (name not in _MAY_STAND_BARE or name in columns or _follows(tokens, place, ".")):
            continue
        pieces += [text[at : token.start], _literal(name, time_zone, now_ms)]
        at = tokens[place + 2 if called else place].end
    return "".join([*pieces, text[at:]])


def _follows(tokens: Sequence[Token], place: int, symbol: str) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].is_symbol(symbol)


def _literal(name: str, time_zone: str, now_ms: int) -> str:
    now = datetime.datetime.fromtimestamp(now_ms / 1000, zoneinfo.ZoneInfo(time_zone))
    if name in ("current_date", "curdate"):
        return f"DATE'{now:%Y-%m-%d}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{now:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP'{now.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
