"""Which races are written down, by number."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
RACES = range(1, 91)
NUMBERS = re.compile(r"Covers races? ([^:.\n]*)")

WAITING = {
    30: "`current_date()` is frozen by Spark's own session: a test of the commands",
    31: "conditions on structs, arrays and maps are asked by Spark: a test of the commands",
    35: "-0.0, NaN, collations and CHAR padding are Spark's to compare: a test of the commands",
    82: "the rows of a rebased commit in the change feed: a test of the change feed",
    86: "VACUUM of the vector files of lost attempts: a test of VACUUM",
    89: "readers beside eight writers: a test with processes",
    90: "other engines read a rebased log: a test of the readers",
}
"""Races that no test below Spark can show, and who will."""


def test_every_race_is_covered_or_waits() -> None:
    covered: set[int] = set()
    for path in TESTS.rglob("test_*.py"):
        for match in NUMBERS.finditer(path.read_text(encoding="utf-8")):
            covered |= _numbers(match[1])
    missing = set(RACES) - covered - WAITING.keys()
    assert not missing, f"no test names the races {sorted(missing)}"


def _numbers(text: str) -> set[int]:
    """`18`, `1 to 5`, `19 and 33`, `20, 21, 36`."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:\s*(?:to|-)\s*(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found
