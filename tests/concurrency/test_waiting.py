"""Which races are written down, by number, and where."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
RACES = range(1, 91)
DOCSTRINGS = re.compile(r"Covers races? ([^:.\n]*)")
NUMBERS = re.compile(r"(?<![A-Z\d])(\d+)(?:\s*(?:to|-)\s*(\d+))?")
"""Not the `F36` of a fault."""
IN_MEMORY = ("concurrency", "transactions")
"""Where tests need neither Spark nor a disk."""

NEED_MORE = {
    30: "`current_date()` is frozen by Spark's session: statements on Spark",
    31: "conditions on structs, arrays and maps are evaluated by Spark: statements on Spark. In memory it is shown that files "
    "which were not opened stay out",
    82: "the change feed of a rebased commit: statements on Spark. In memory it is shown that change files stay as they are",
    89: "readers beside eight writers: processes",
    90: "other engines read a rebased log: foreign readers. In memory it is shown that the log keeps to the protocol",
}
"""What memory cannot show, or not all of it, and who does."""


def test_every_numbered_race_is_covered_or_waits() -> None:
    """Prints the whole list."""
    covered = _covered()
    lines = []
    for number in RACES:
        where = sorted(covered.get(number, ()))
        lines.append(
            f"{number:3} {', '.join(where) or 'WAITS'}" + (f"; {NEED_MORE[number]}" if number in NEED_MORE else "")
        )
    print("\n".join(lines))
    in_memory = {number for number, where in covered.items() if any(path.startswith(IN_MEMORY) for path in where)}
    missing = set(RACES) - in_memory - NEED_MORE.keys()
    assert not missing, f"no test in memory names the races {sorted(missing)}"
    assert NEED_MORE.keys() <= set(RACES)
    assert covered.keys() <= set(RACES)


def test_numbers_are_read_as_they_are_written() -> None:
    assert _numbers("18") == {18}
    assert _numbers("1 to 5") == {1, 2, 3, 4, 5}
    assert _numbers("19 and 33") == {19, 33}
    assert _numbers("20, 21, 36") == {20, 21, 36}
    assert _numbers("59, fault F36") == {59}


def _covered() -> dict[int, set[str]]:
    """The test files that name each race."""
    covered: dict[int, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for match in DOCSTRINGS.finditer(path.read_text(encoding="utf-8")):
            for number in _numbers(match[1]):
                covered.setdefault(number, set()).add(str(path.relative_to(TESTS)))
    return covered


def _numbers(text: str) -> set[int]:
    return {number for first, last in NUMBERS.findall(text) for number in range(int(first), int(last or first) + 1)}
