"""Rows and texts that are the same at each use: repeatable frames, conditions with a fixed clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame

from anabranch.predicates.sql_lexer import Token, tokenize
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import TimeZone

_REPEATABLE_LEAVES = frozenset({"LocalRelation", "LogicalRDD", "Range", "OneRowRelation", "InMemoryRelation"})


def is_deterministic(frame: DataFrame) -> bool:
    """Whether no expression of the plan, such as `rand()`, has another value each time; its files may still change."""
    return bool(frame._jdf.queryExecution().analyzed().deterministic())


def is_repeatable(frame: DataFrame) -> bool:
    """Whether the plan of the frame shows that it gives the same rows each time it runs.

    Rows that were lost from a cache may then be computed again.
    """
    jvm: Any = frame.sparkSession._jvm
    leaves = jvm.anabranch.PlanFunctions.leaves(frame._jdf)
    return leaves is not None and _REPEATABLE_LEAVES.issuperset(str(leaves).split("\0")[:-1])


_CLOCK_FUNCTIONS = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp"})
_WITHOUT_PARENTHESES = frozenset({"current_date", "current_timestamp", "localtimestamp"})


def fix_clock(text: str, *, columns: Collection[str], time_zone: TimeZone, now_ms: int) -> str:
    """SQL `text` with a literal for each built-in function that reads the clock, so that it means the same later.

    `columns` are the names of columns in lower case: such a name is a column, and stays as it is.
    """
    tokens = tokenize(text)
    pieces: list[str] = []
    end = 0
    for index, token in enumerate(tokens):
        name = token.word.lower()
        if name not in _CLOCK_FUNCTIONS or (index and tokens[index - 1].is_symbol(".")):
            continue
        called = _follows(tokens, index, "(") and _follows(tokens, index + 1, ")")
        if not called and (name not in _WITHOUT_PARENTHESES or name in columns or _follows(tokens, index, ".")):
            continue
        pieces += [text[end : token.start], _literal(name, time_zone, now_ms)]
        end = tokens[index + 2 if called else index].end
    return "".join([*pieces, text[end:]])


def _follows(tokens: Sequence[Token], index: int, symbol: str) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].is_symbol(symbol)


def _literal(name: str, time_zone: TimeZone, now_ms: int) -> str:
    now = now_ms * 1000
    local = value_text.micros_to_datetime(time_zone.to_local(now), utc=False)
    if name in ("current_date", "curdate"):
        return f"DATE'{local:%Y-%m-%d}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{local:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP'{value_text.micros_to_datetime(now, utc=False):%Y-%m-%d %H:%M:%S.%f}+00:00'"
