"""Rows and texts that mean the same each time: frames that give the same rows again, rows kept, the clock stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.predicates.sql_lexer import Token, tokenize
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import TimeZone

# Whether a DataFrame gives the same rows each time it runs, as far as its plan tells.


_STEADY_LEAVES = frozenset({"LocalRelation", "LogicalRDD", "Range", "OneRowRelation", "InMemoryRelation"})


def is_repeatable(frame: DataFrame) -> bool:
    """Whether rows that were kept in a cache and lost are the same when they are computed anew."""
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return False
    leaves = plan.collectLeaves()
    return all(str(leaves.apply(place).nodeName()) in _STEADY_LEAVES for place in range(leaves.size()))


# The clock in a text, stopped: asked again, it means the same.


_CLOCKS = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp"})
_MAY_STAND_BARE = frozenset({"current_date", "current_timestamp", "localtimestamp"})


def stop_clock(text: str, *, columns: Collection[str], time_zone: TimeZone, now_ms: int) -> str:
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


def _literal(name: str, time_zone: TimeZone, now_ms: int) -> str:
    now = now_ms * 1000
    local = value_text.micros_to_datetime(time_zone.local_of(now), utc=False)
    if name in ("current_date", "curdate"):
        return f"DATE'{local:%Y-%m-%d}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{local:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP'{value_text.micros_to_datetime(now, utc=False):%Y-%m-%d %H:%M:%S.%f}+00:00'"


# Rows that are computed once and used several times.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """Rows that are computed once and used several times."""

    frame: DataFrame
    """It has the columns of the frame that was cached: Columns taken from that one name them, too."""
    release: Callable[[], object]
    """Frees the memory. May be called again."""


def cache_or_checkpoint(frame: DataFrame) -> CachedRows:
    """The same rows for every use of the result, however many there are; computed when they are first needed."""
    if not frame._jdf.queryExecution().analyzed().deterministic():
        # An executor that dies takes its part of a cache with it, and Spark would compute that part again: other rows
        # might be written than those that were marked as changed. A checkpoint is never computed again; the job fails.
        return _checkpointed(frame)
    return cache_rows(frame)


def cache_rows(frame: DataFrame, *, counts: bool = True) -> CachedRows:
    """The rows of a frame, computed when they are first needed, and again where an executor has lost them.

    Observations of the frame (`df.observe`) are completed on release, as if of no rows unless `counts` is true.
    """
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.delta.KeptRows(frame._jdf)
    return CachedRows(frame=DataFrame(rows.rows(), frame.sparkSession), release=lambda: rows.letGo(counts))


def _checkpointed(frame: DataFrame) -> CachedRows:
    # Spark frees the memory once no object refers to the frame.
    return CachedRows(frame=frame.localCheckpoint(eager=False), release=lambda: None)
