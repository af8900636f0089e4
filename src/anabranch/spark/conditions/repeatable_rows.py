"""Rows and texts that mean the same each time: frames that give the same rows again, rows kept, the clock stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.predicates.sql_lexer import Token, tokenize
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import TimeZone
from anabranch.spark.engine import KeptRows

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
    local = value_text.micros_to_datetime(time_zone.to_local(now), utc=False)
    if name in ("current_date", "curdate"):
        return f"DATE'{local:%Y-%m-%d}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{local:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP'{value_text.micros_to_datetime(now, utc=False):%Y-%m-%d %H:%M:%S.%f}+00:00'"


# Rows that are computed once and used several times.


def kept(frame: DataFrame) -> KeptRows:
    """The same rows, whatever is asked of the result and however often; computed when they are first needed."""
    if not frame._jdf.queryExecution().analyzed().deterministic():
        # An executor that dies takes its part of a cache with it, and Spark would compute that part anew: of rows that
        # were marked as changed, others would be written. What is cut off is never computed again; the job fails.
        return _cut_off(frame)
    return keep(frame)


def keep(frame: DataFrame, *, counts: bool = True) -> KeptRows:
    """The rows of a frame, computed when they are first needed, and anew where an executor has lost them.

    What observes the frame (`df.observe`) is completed when they are let go of, as of no rows unless it `counts`.
    """
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.delta.KeptRows(frame._jdf)
    return KeptRows(frame=DataFrame(rows.rows(), frame.sparkSession), let_go=lambda: rows.letGo(counts))


def _cut_off(frame: DataFrame) -> KeptRows:
    # Spark frees the memory once nobody has the frame any longer.
    return KeptRows(frame=frame.localCheckpoint(eager=False), let_go=lambda: None)
