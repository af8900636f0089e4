"""Durations as Spark writes them: `interval 30 days`, `2 weeks`, `1 day 12 hours`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

MILLISECONDS_MAX: Final = 2**63 // 1000
"""Spark counts microseconds in a long."""

_MICROSECONDS: Final[dict[str, int]] = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_INDEFINITE: Final = frozenset({"year", "month"})
_TERM: Final = re.compile(r"\s*([+-]?)\s*(\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})\s+([a-z]+?)s?(?=\s|$)")


def parse_interval_ms(text: str) -> int:
    """Milliseconds, rounded down; the word `interval` and letter case do not matter.

    Raises ValueError for months and years, whose length varies, for negative durations and for
    anything that is no interval.
    """
    rest = text.strip().lower()
    if rest == "interval" or rest.startswith("interval "):
        rest = rest.removeprefix("interval")
    if not rest.strip():
        raise ValueError("it is empty")
    total = sum(_terms(rest))
    if total < 0:
        raise ValueError("it is negative")
    if (milliseconds := int(total // 1000)) >= MILLISECONDS_MAX:
        raise ValueError("it is too long")
    return milliseconds


def _terms(text: str) -> list[Decimal]:
    terms: list[Decimal] = []
    position = 0
    while text[position:].strip():
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"{text[position:].strip()!r} is not a number and a unit")
        sign, number, unit = match.groups()
        terms.append(_microseconds(number, unit) * (-1 if sign == "-" else 1))
        position = match.end()
    return terms


def _microseconds(number: str, unit: str) -> Decimal:
    if unit in _INDEFINITE:
        raise ValueError(f"a {unit} has no fixed length")
    if unit not in _MICROSECONDS:
        raise ValueError(f"{unit!r} is no unit of time")
    if "." in number and unit != "second":
        raise ValueError("only seconds may have a fraction")
    return Decimal(number) * _MICROSECONDS[unit]
