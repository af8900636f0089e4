"""The page of races, faults and attacks names what tests name, and the files that test it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "design" / "cases.md"
NOT_OF_CASES = {Path(__file__), TESTS / "concurrency" / "test_waiting.py"}
"""Tests of how numbers are named. They name some as examples."""

KINDS = {"A": "attack", "B": "bug", "C": "judge", "F": "fault"}
"""The word before a number that begins with that letter. Numbers of races have none."""
ROW = re.compile(r"^\| ([A-Z]?\d+) \|.*\| (.*) \|$", re.MULTILINE)
RACES = re.compile(r"\b[Rr]aces? (\d+(?:(?:,| and|, and| to) \d+)*)")
RANGE = re.compile(r"(\d+)(?: to (\d+))?")
LETTERED = re.compile(
    r"\b(?:[Aa]ttack|[Bb]ug|[Ff]ault|[Jj]udge)s? ([ABCF](?:1\d\d|\d{1,2})(?:(?:,| and|, and) [ABCF](?:1\d\d|\d{1,2}))*)"
)
INVARIANT = re.compile(r"\bI[1-7]\b")
NUMBER = re.compile(r"(?<![%\w.])[ABCF](?:1\d\d|\d{1,2})\b")


def rows() -> list[tuple[str, set[str]]]:
    """The numbers of the page, each with the files that it names."""
    return [(number, set(re.findall(r"`([^`]+)`", files))) for number, files in ROW.findall(PAGE.read_text("utf-8"))]


def texts() -> Iterator[tuple[str, str]]:
    """The tests, each with its path and as one line, since a list of numbers may go over several."""
    for path in sorted(TESTS.rglob("*.py")):
        if path not in NOT_OF_CASES:
            yield path.relative_to(TESTS).as_posix(), re.sub(r"\s*\n\s*", " ", path.read_text("utf-8"))


def numbers_in(text: str) -> set[str]:
    cited = {
        str(number)
        for races in RACES.findall(text)
        for first, last in RANGE.findall(races)
        for number in range(int(first), int(last or first) + 1)
    }
    cited |= {number for cases in LETTERED.findall(text) for number in NUMBER.findall(cases)}
    return cited | set(INVARIANT.findall(text))


def test_every_number_that_a_test_names_is_in_the_page() -> None:
    listed = {number for number, _ in rows()}
    assert {path: sorted(numbers_in(text) - listed) for path, text in texts() if numbers_in(text) - listed} == {}


def test_files_of_the_page_are_there_and_name_their_case() -> None:
    named = {path: numbers_in(text) for path, text in texts()}
    wrong = [(number, path) for number, paths in rows() for path in sorted(paths) if number not in named.get(path, ())]
    assert wrong == []
    assert [number for number, paths in rows() if not paths] == []


def test_no_number_is_listed_twice() -> None:
    listed = [number for number, _ in rows()]
    assert len(listed) == len(set(listed))
    assert {str(number) for number in range(1, 91)} <= set(listed)


def test_a_number_says_of_what_it_is() -> None:
    """Faults and bugs once had the same letter, so `F16` alone does not say which of the two it was."""
    alone = {path: NUMBER.findall(LETTERED.sub("", text)) for path, text in texts()}
    assert {path: numbers for path, numbers in alone.items() if numbers} == {}
    kinds = re.compile(r"\b([Aa]ttack|[Bb]ug|[Ff]ault|[Jj]udge)s? ([ABCF])\d")
    mistaken = [
        (path, kind, letter)
        for path, text in texts()
        for kind, letter in kinds.findall(text)
        if KINDS[letter] != kind.lower()
    ]
    assert mistaken == []


def test_numbers_are_read_as_they_are_written() -> None:
    assert numbers_in("Covers races 1, 3 and 61 on Spark.") == {"1", "3", "61"}
    assert numbers_in("Races 47 to 49, and race 60.") == {"47", "48", "49", "60"}
    assert numbers_in("Covers race 88, fault F34: a conflict") == {"88", "F34"}
    assert numbers_in("Covers faults F3, F6 and F59. Bug B16: judge C5, I2") == {"F3", "F6", "F59", "B16", "C5", "I2"}
