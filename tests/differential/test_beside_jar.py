"""Statements of Spark's and Delta's SQL, writers and API: the same rows, schemas and errors as with the jar.

`make test-statements` runs it. What is known to differ is in `known_differences.py`, with the reason; anything
else fails, and so does a known difference that is gone.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator

import pytest

from anabranch import errors
from differential.known_differences import EXPECTED, expected_differences
from differential.player import JARS
from differential.programs import Program
from differential.sides import Side, surprises
from differential.sources import all_programs

DELTA_PACKAGE = "ANABRANCH_DELTA_PACKAGE"
"""Where Python finds delta-spark's package `delta`; `scripts/test_jar.sh` sets it."""

PROGRAMS = all_programs()

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-statements`"),
]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """The jar and ours."""
    folder = tmp_path_factory.mktemp("differential")
    opened = (
        Side("jar", folder / "jar", os.environ[DELTA_PACKAGE]),
        Side("anabranch", folder / "ours"),
    )
    yield opened
    for side in opened:
        side.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_gives_what_it_gives_with_the_jar(sides: tuple[Side, Side], program: Program) -> None:
    for side in sides:
        side.begin(program)
    jar, ours = (side.end() for side in sides)
    unexpected = surprises(program, jar, ours, expected_differences(program))
    assert not unexpected, unexpected


def test_known_differences_are_of_steps_that_there_are() -> None:
    steps = {(str(program), step) for program in PROGRAMS for step in program.steps}
    assert sorted(key for key in EXPECTED if key not in steps and not key[1].startswith("at the end: ")) == []


def test_sqlstates_are_those_of_the_jar() -> None:
    """Of every condition that the jar has, too."""
    theirs: dict[str, str] = {}
    for jar in os.environ[JARS].split(","):
        with zipfile.ZipFile(jar) as opened:
            if "error/delta-error-classes.json" in opened.namelist():
                classes = json.loads(opened.read("error/delta-error-classes.json"))
                theirs |= {condition: facts.get("sqlState") for condition, facts in classes.items()}
    assert theirs
    named = [getattr(errors, name) for name in vars(errors)["__all__"]]
    ours = {(error.condition, error.sqlstate) for error in named if isinstance(getattr(error, "condition", None), str)}
    shared = {(condition, state) for condition, state in ours if condition.partition(".")[0] in theirs}
    assert len(shared) > 100
    assert sorted(shared) == sorted((condition, theirs[condition.partition(".")[0]]) for condition, _ in shared)
